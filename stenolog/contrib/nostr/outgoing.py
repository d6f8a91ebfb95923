"""A conversation as signed events, in the importer's kinds and tags.

    for event in nostr_events(log["menu"], {"planner": "nsec1…"}):
        print(json.dumps(event))

A received event goes out as its author signed it. Local words are signed with their speaker's key. The same
log and keys give the same ids and signatures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from stenolog import AssistantMessage, Conversation, Entry, ModeSwitch, UserMessage
from stenolog.errors import CallerError, MissingExtraError
from stenolog.events import LlmError, Unknown, Usage
from stenolog.importers import Exporter, compact_json

from .converter import SYSTEM, USAGE
from .events import NostrEvent, as_json, event_of, forms_of, is_hex
from .participants import bech32

if TYPE_CHECKING:
    from coincurve import PrivateKey

USER = "user"
"""The name under which the key of the conversation's user is given."""


class Signer:
    """An author's key: `pubkey` is public; no text shows the secret one."""

    def __init__(self, secret: str, name: str) -> None:
        try:
            from coincurve import PrivateKey
        except ImportError:
            raise MissingExtraError("nostr", "coincurve") from None
        try:
            self._key: PrivateKey = PrivateKey(_secret_bytes(secret))
        except ValueError:
            raise CallerError(
                f"keys: {name}: expected a secret key (64 hexadecimal digits, or nsec1…)"
            ) from None
        self.pubkey = self._key.public_key_xonly.format().hex()

    def __repr__(self) -> str:
        return f"<Signer {self.pubkey[:8]}…>"

    def signed(self, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str) -> NostrEvent:
        """Return a signed event; the same one for the same values."""
        made = NostrEvent("", self.pubkey, created_at, kind, tuple(map(tuple, tags)), content, "")
        digest = sha256(forms_of(made)[0].encode()).digest()
        # No randomness: the same event has the same signature, wherever and whenever it is made.
        return made._replace(id=digest.hex(), sig=self._key.sign_schnorr(digest, bytes(32)).hex())


def signers(keys: Mapping[str, str] | str | os.PathLike[str]) -> dict[str, Signer]:
    """Return signers by agent name.

    `keys` are secret keys by name, or the path of a JSON file; the name `user` is the log's own user. Raises
    `CallerError`, which shows no key, and `MissingExtraError`.
    """
    secrets = keys if isinstance(keys, Mapping) else _read(Path(keys))
    if not secrets or not all(isinstance(each, str) for pair in secrets.items() for each in pair):
        raise CallerError("keys: expected secret keys by the names of agents")
    return {name: Signer(secret, name) for name, secret in secrets.items()}


def _read(path: Path) -> Mapping[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CallerError(f"keys: {path}: {error.strerror or error}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CallerError(f"keys: {path}: expected a JSON object of secret keys by the names of agents")
    return found


def _secret_bytes(secret: str) -> bytes:
    if is_hex(secret, 64):
        return bytes.fromhex(secret)
    kind, content = bech32(secret) or ("", b"")
    if kind != "nsec" or len(content) != 32:
        raise ValueError
    return content


THREAD, COMMENT = 11, 1111
MODES = ("chat", "agent", "run")
"""Modes that every conversation here has; any other one is a phase."""
KEYS = "NOSTR_KEYS"
"""The environment variable with the path of a JSON file of secret keys, for `stenolog export`."""
Keys = Mapping[str, str] | str | os.PathLike[str]


def nostr_events(conversation: Conversation, keys: Keys) -> list[dict[str, Any]]:
    """Return a conversation as signed events for relays, oldest first.

    `keys` are secret keys (64 hexadecimal digits, or `nsec1…`) by agent name, or the path of a JSON file; its
    key named `user` is the user's. Left out are words of speakers without a key, tool calls, reasoning,
    agents' private notes and errors. Raises `CallerError` and `MissingExtraError`.
    """
    outgoing = Outgoing(signers(keys))
    return [as_json(event) for event in outgoing.events(conversation.entries())]


class Root(NamedTuple):
    """The first event of a conversation; kind and author are unknown if its entry was erased."""

    id: str
    kind: int = THREAD
    pubkey: str = ""


class Outgoing:
    """A conversation's events so far; give it each entry once, in order.

    `made` has events by position, `gone` positions of erased and damaged entries by time. If the first words
    were local and are erased, there is no root, and nothing goes out.
    """

    def __init__(self, keys: Mapping[str, Signer]) -> None:
        self._keys = keys
        self.made: dict[int, NostrEvent] = {}
        self.root: Root | None = None
        self.gone: dict[int, int] = {}
        self.position = 0
        self._is_closed = False
        self._pubkeys = {name: signer.pubkey for name, signer in keys.items()}
        self._title = self._phase = self._handoff = ""

    def events(self, entries: Iterable[Entry]) -> Iterator[NostrEvent]:
        """Yield the events of entries."""
        yield from (event for entry in entries if (event := self.take(entry)))

    def take(self, entry: Entry) -> NostrEvent | None:
        """Return an entry's event; None if it does not go out."""
        self.position = entry.position
        if isinstance(entry.event, ModeSwitch):
            self._take_settings(entry.event)
            return None
        if isinstance(entry.event, Unknown):
            self._lose(entry)
            return None
        made = received(entry) or self._signed(entry)
        if made is not None:
            self.made[entry.position] = made
            self.root = self.root or Root(made.id, made.kind, made.pubkey)
            self._pubkeys.setdefault(_author(entry), made.pubkey)
        return made

    def _lose(self, entry: Entry) -> None:
        """Note an entry without words; a received one's id is still known."""
        self.gone[int(entry.time.timestamp())] = entry.position
        if self.root is None:
            is_received = is_hex(entry.id, 64)
            self.root = Root(entry.id) if is_received else None
            self._is_closed = self._is_closed or not is_received

    def _take_settings(self, switch: ModeSwitch) -> None:
        if isinstance(switch.title, str):
            self._title = switch.title
        if isinstance(switch.mode, str):
            self._phase = "" if switch.mode in MODES else switch.mode
        if isinstance(switch.handoff, str):
            self._handoff = switch.handoff

    def _signed(self, entry: Entry) -> NostrEvent | None:
        event = entry.event
        signer = self._keys.get(_author(entry))
        if signer is None or self._is_closed or not isinstance(event, UserMessage | AssistantMessage):
            return None
        if not _goes_out(event):
            return None
        tags = [*self._thread_tags(event), *self._person_tags(event, signer.pubkey)]
        if self._phase:
            tags.append(["phase", self._phase])
        if isinstance(event, AssistantMessage):
            tags += [*_model_tags(event)]
            if self._handoff:
                tags.append(["phase-instructions", self._handoff])
                self._handoff = ""
        kind = COMMENT if self.root else THREAD
        return signer.signed(int(entry.time.timestamp()), kind, tags, event.text)

    def _thread_tags(self, event: UserMessage | AssistantMessage) -> Iterator[list[str]]:
        root = self.root
        if root is None:
            if self._title:
                yield ["title", self._title]
            return
        parent = self.made.get(event.cause or 0, root)
        yield from (["E", root.id], ["K", str(root.kind)])
        if root.pubkey:
            yield ["P", root.pubkey]
        yield from (["e", parent.id], ["k", str(parent.kind)])

    def _person_tags(self, event: UserMessage | AssistantMessage, own: str) -> Iterator[list[str]]:
        names = [name.partition("/")[0] for name in event.to]
        if not names and isinstance(event, AssistantMessage):
            names = [USER]
        keys = dict.fromkeys(self._pubkeys[name] for name in names if name in self._pubkeys)
        yield from (["p", key] for key in keys if key != own)


def received(entry: Entry) -> NostrEvent | None:
    """Return the event that an entry was imported from; None for other entries."""
    event = entry.event
    if not isinstance(event, UserMessage | AssistantMessage | LlmError):
        return None
    origin = event.meta.get(SYSTEM)
    if not isinstance(origin, Mapping) or "sig" not in origin:
        return None
    text = event.message if isinstance(event, LlmError) else event.text
    if isinstance(event, AssistantMessage) and not text:
        text = "".join(getattr(part, "text", "") for part in event.parts)
    names = ("pubkey", "kind", "tags", "sig")
    made: dict[str, Any] = {name: origin.get(name) for name in names}
    made |= {"id": entry.id, "content": origin.get("content", text)}
    made["tags"] = [[*tag] for tag in made["tags"] or ()]
    try:
        return event_of({**made, "created_at": int(entry.time.timestamp())})
    except ValueError:
        return None  # edited by hand: it is no longer what its author signed


def _author(entry: Entry) -> str:
    event = entry.event
    if isinstance(event, AssistantMessage | LlmError):
        return event.agent
    return (event.author or USER) if isinstance(event, UserMessage) else ""


def _goes_out(event: UserMessage | AssistantMessage) -> bool:
    if not event.in_context or not event.text.strip():
        return False
    if isinstance(event, UserMessage):
        return event.author_kind == "person" and event.control is None
    return event.purpose == "answer"


def _model_tags(event: AssistantMessage) -> Iterator[list[str]]:
    usage = event.usage or Usage()
    if event.model:
        yield ["llm-model", event.model]
    for name, tag in USAGE.items():
        if count := getattr(usage, name):
            yield [tag, str(count)]
    if event.session:
        yield ["claude-session", event.session]


def write(conversation: Conversation, stream: TextIO, agent: str) -> None:
    """Write a conversation as JSON Lines of events, signed with the keys of the file in `NOSTR_KEYS`.

    Raises `CallerError` without that variable.
    """
    if not os.environ.get(KEYS):
        raise CallerError(
            f"expected the path of a JSON file, secret keys by the names of agents, in the environment "
            f"variable {KEYS}; found none"
        )
    for event in nostr_events(conversation, os.environ[KEYS]):
        stream.write(compact_json(event) + "\n")


TO_NOSTR = Exporter("nostr", "Nostr events", write)
