"""Certificates as data: an agent was never sent entries or a text, in a conversation and its forks."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog._version import __version__
from stenolog.adapters.store.contract.values import Stream
from stenolog.domain.errors import AgentNotFoundError, CallerError, InvalidEventError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.values import ConversationRef
from stenolog.projections.analysis.certificate.certify import Certificate, Showing, Unproved, certify
from stenolog.projections.analysis.certificate.subject import HOWS
from stenolog.projections.analysis.quotes import PIECE
from stenolog.projections.messages.json_fields import compact_json
from stenolog.projections.requests.pipeline.omissions import runs

from .figures import counted
from .lanes import means
from .positions import position_ranges

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.domain.entry import Entry

VERSION = 1
ENTRIES = re.compile(r"[\d\s,-]*\d|@.*", re.ASCII)
"""The form of entries; anything else is a text."""
TEXT = "text:"
"""Before a text that would be read as entries."""
DIGEST = re.compile("[0-9a-f]{64}")
LIMITS = (
    "Not found: other words for it, such as a paraphrase or a translation, and encodings.",
    f"Of an entry, a whole line is a quote from 12 characters on, a part of one from {2 * PIECE} on.",
    "Not known: what tools and other programs did with it outside of the log, and what is at a link.",
)


class Asked(NamedTuple):
    """The question: entries of a conversation and texts, and the positions between which to look."""

    entries: tuple[Entry, ...]
    texts: tuple[str, ...]
    first: int
    last: int


class Part(NamedTuple):
    """The result in one conversation, with the digests of the entries at its ends ("" at the beginning)."""

    conversation: str
    found: Certificate
    digests: tuple[str, str]


class Certified(NamedTuple):
    """The result about an agent in a conversation, its forks, and those that it began."""

    conversation: str
    agent: str
    asked: Asked
    parts: tuple[Part, ...]
    strict: bool = False

    @property
    def is_given(self) -> bool:
        """True if the agent was sent nothing of it; `strict`: and every answer has a receipt."""
        is_bare = self.strict and any(part.found.without_receipt for part in self.parts)
        return not is_bare and all(part.found.is_given for part in self.parts)


def asked_of(
    conversation: Conversation,
    never: Iterable[str],
    first: str,
    last: str,
    resolve: Callable[[str], int],
) -> Asked:
    """Return the question as it is written; `resolve` reads a position.

    `first` "" is the beginning, `last` "" the end. Raises as `position_ranges` and `head_at`.
    """
    begin = head_at(conversation, first, resolve) if first else 0
    end = head_at(conversation, last, resolve) if last else conversation.position
    if begin > end:
        raise InvalidEventError(f"heads: expected the earlier one first, found {begin} and {end}")
    given = [*never]
    spans = position_ranges((each for each in given if ENTRIES.fullmatch(each)), resolve)
    places = dict.fromkeys(at for span in spans for at in range(span.first, span.last + 1))
    texts = tuple(each.removeprefix(TEXT) for each in given if not ENTRIES.fullmatch(each))
    return Asked(tuple(conversation.entry(at) for at in places), texts, begin, end)


def head_at(conversation: Conversation, written: str, resolve: Callable[[str], int]) -> int:
    """Return the position of a head: a digest, or a position. Raises `CallerError` for an unknown one."""
    digest = written.lower()
    if not DIGEST.fullmatch(digest):
        return 0 if written == "0" else resolve(written)
    for record in conversation.records():
        if record.digest.hex() == digest:
            return record.position
    raise CallerError(f"{conversation.name!r}: no entry has the digest {digest[:12]}…")


def certified(
    conversation: Conversation, agent: str, asked: Asked, *, strict: bool = False, everywhere: bool = False
) -> Certified:
    """Return whether an agent was sent what is asked, in forks and delegated work too.

    `everywhere`: in all conversations. Raises as `certify`.
    """
    parts = []
    for talk, first, last in _places(conversation, asked, everywhere):
        # An agent may be in some of them only.
        with suppress(AgentNotFoundError):
            parts.append(_part(talk, agent, asked, first, last))
    if not parts:
        parts = [_part(conversation, agent, asked, asked.first, asked.last)]
    return Certified(conversation.name, agent, asked, tuple(parts), strict)


def _places(
    conversation: Conversation, asked: Asked, everywhere: bool
) -> Iterator[tuple[Conversation, int, int]]:
    """Yield the conversations to look in, each with the positions between which to look."""
    yield conversation, asked.first, asked.last
    log, name = conversation.log, conversation.name
    if everywhere:
        yield from ((log[each], 0, log[each].position) for each in log.names(archived=True) if each != name)
        return
    forks = [(fork, after) for fork, after in _forks(conversation) if after <= asked.last]
    yield from ((fork, max(asked.first, after), fork.position) for fork, after in forks)
    digests = {entry.digest for entry in conversation.entries(at=asked.last)}
    digests |= {entry.digest for fork, after in forks for entry in fork.entries(after)}
    yield from ((child, 0, child.position) for child in _begun(log, digests))


def _begun(log: Log, digests: set[str]) -> Iterator[Conversation]:
    """Yield the conversations that began at one of some entries, as for a delegated task, and so on."""
    links = {
        name: entry.event.parent.digest
        for name in log.names(archived=True)
        for entry in log[name].entries(at=1)
        if isinstance(entry.event, ModeSwitch) and isinstance(entry.event.parent, ConversationRef)
    }
    while found := [name for name, digest in links.items() if digest in digests]:
        for name in found:
            del links[name]
            digests |= {entry.digest for entry in log[name].entries()}
            yield log[name]


def _part(conversation: Conversation, agent: str, asked: Asked, first: int, last: int) -> Part:
    entries = list(conversation.entries())
    question: dict[str, Any] = {"never": asked.entries, "texts": asked.texts, "first": first, "last": last}
    found = certify(entries, agent, **question, **means(conversation))
    digests = ["", *(entry.digest for entry in entries)]
    return Part(conversation.name, found, (digests[first], digests[last]))


def _forks(conversation: Conversation) -> Iterator[tuple[Conversation, int]]:
    """Yield the forks of a conversation, and of these, with the last position that they share with it."""
    recorder, key = conversation.log.recorder, conversation.key
    if key is None:
        return
    for other, name in recorder.erasure.conversations_with(conversation.stream, 1).items():
        segments = recorder.lineage(Stream(name, other))
        place = next((nth for nth, segment in enumerate(segments) if segment.key == key), None)
        if place is not None and place + 1 < len(segments):
            yield conversation.log[name], segments[place + 1].after


def statement(found: Certified) -> str:
    """Return the result in a sentence."""
    agent, asked = found.agent, found.asked
    named = [f"entry {runs_in_words(runs([entry.position for entry in asked.entries]))}"] * bool(
        asked.entries
    )
    named += [f"a text of {len(text)} characters" for text in asked.texts]
    words = " and ".join(named)
    number = sum(part.conversation != found.conversation for part in found.parts)
    others = f" and of {counted(number, 'other')}" if number else ""
    place = f"from {asked.first} to {asked.last} of {found.conversation}{others}"
    if found.is_given:
        return f"{agent} was never sent {words}, nor an entry that quotes it, {place}"
    if any(part.found.shown for part in found.parts):
        return f"{agent} was sent {words}, or could have been, {place}"
    return f"nobody can say if {agent} was sent {words}, {place}"


def reasons(found: Certificate) -> Iterator[tuple[Showing | Unproved, str]]:
    """Yield the requests that keep a certificate from being given, with the reason in words."""
    for one in found.shown:
        where = f": {runs_in_words(runs(one.entries))}" if one.entries else ""
        yield one, f"{HOWS[one.how]}{where}"
    for other in found.unproved:
        yield other, f"nobody can say: {other.reason}"


def limits(found: Certified) -> list[str]:
    """Return what the certificate does not say, in sentences."""
    sentences = [*LIMITS]
    for part in found.parts:
        one, name = part.found, part.conversation
        if one.without_receipt:
            where = runs_in_words(runs(one.without_receipt))
            sentences.append(
                f"Without a receipt, so not proved: the requests of the answers {where} of {name}."
            )
        if bodies := [request.position for request in one.requests if request.covers == "body"]:
            where = runs_in_words(runs(bodies))
            sentences.append(
                f"Proved is the body, not the bytes sent: the requests of the answers {where} of {name}."
            )
        if one.retold:
            where = runs_in_words(runs(one.retold))
            sentences.append(f"Agents that were sent it may say it in other words: {where} of {name}.")
        if one.said:
            sentences.append(
                f"It says it itself, though it was not sent it: {runs_in_words(runs(one.said))} of {name}."
            )
    return sentences


def certificate_data(found: Certified) -> dict[str, Any]:
    """Return the certificate, or why there is none: JSON without the texts."""
    asked = found.asked
    return {
        "certificate": VERSION,
        "given": found.is_given,
        "statement": statement(found),
        "agent": found.agent,
        "never": {
            "entries": [
                {
                    "conversation": one.conversation,
                    "position": one.position,
                    "id": one.id,
                    "digest": one.digest,
                }
                for one in asked.entries
            ],
            "texts": [_hashed(text) for text in asked.texts],
        },
        "parts": [_part_data(part) for part in found.parts],
        "limits": limits(found),
        "program": f"stenolog {__version__}",
    }


def _hashed(text: str) -> dict[str, Any]:
    """Return a salted hash of a text, which a reader who has the text can compute too."""
    salt = secrets.token_bytes(16)
    return {
        "characters": len(text),
        "salt": salt.hex(),
        "sha256": sha256(salt + text.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _part_data(part: Part) -> dict[str, Any]:
    found, (begun, ended) = part.found, part.digests
    return {
        "conversation": part.conversation,
        "from": {"position": found.first, "digest": begun},
        "to": {"position": found.last, "digest": ended},
        "entries": [*found.entries],
        "quoting": [*found.quoting],
        "requests": [one._asdict() for one in found.requests],
        "possible": found.possible,
        "without_receipt": [*found.without_receipt],
        "said": [*found.said],
        "retold": [*found.retold],
        "shown": [one._asdict() for one in found.shown],
        "unproved": [one._asdict() for one in found.unproved],
    }


def certificate_of(conversation: Conversation, content: bytes, where: str) -> str:
    """Return a written certificate as compact JSON. Raises `CallerError` if it is of another conversation."""
    try:
        written = json.loads(content)
        ends = [(part["to"]["position"], part["to"]["digest"]) for part in written["parts"]]
        is_one = written["certificate"] == VERSION and written["given"] is True
    except (ValueError, TypeError, LookupError, RecursionError):
        is_one = False
    if not is_one:
        raise CallerError(f"{where}: expected a certificate that `stenolog certify -o FILE` wrote")
    known = conversation.position
    if not any(0 < at <= known and conversation.entry(at).digest == digest for at, digest in ends):
        raise CallerError(f"{where}: the certificate is of another conversation than {conversation.name!r}")
    return compact_json(written)
