"""Requests of the providers' APIs, read from their bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.domain.parts import AssistantPart
from stenolog.projections.formats import FORMATS, reader_of
from stenolog.projections.formats.reading import Item, MessageReader, Reply, Result, Spoken, likeness
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.json_fields import Blobs, as_dict, as_list, as_str
from stenolog.projections.requests.as_sent import without_halves, without_marks

from .exchange import RecordedExchange

Json = Any
_MODEL = re.compile(r"/models/([^/:]+):")


class MessageRead(NamedTuple):
    """A message of a request, with the bytes of its media by sha256.

    `role` is "user", "assistant", "tool" or "system". `answered` are the ids of the calls whose results it
    has, `answer` the parts of a model's answer.
    """

    items: tuple[Item, ...]
    blobs: Blobs
    role: str
    answered: tuple[str, ...] = ()
    answer: tuple[AssistantPart, ...] = ()


def _message_read(items: tuple[Item, ...], blobs: Blobs) -> MessageRead:
    match items:
        case (Reply(parts=parts),):
            return MessageRead(items, blobs, "assistant", answer=parts)
        case (Spoken(role=role),):
            return MessageRead(items, blobs, role)
        case _:
            answered = [item.call_id for item in items if isinstance(item, Result)]
            return MessageRead(items, blobs, "tool" if answered else "user", tuple(filter(None, answered)))


@dataclass(frozen=True)
class WireRequest:
    """A request to a model: API, model, the body as sent, and without cache marks.

    `messages` are those of `body` under the `key`. `kind` is "count-tokens" or "compaction" by the address,
    else empty. `previous` is the id of the response that it continues, if the provider has the earlier
    messages.
    """

    api: str
    model: str
    sent: dict[str, Json]
    body: dict[str, Json]
    marks: list[list[Json]]
    messages: list[dict[str, Json]]
    reader: MessageReader
    key: str
    kind: str = ""
    previous: str = ""

    @property
    def is_list(self) -> bool:
        """True if the body has a list of messages; a single text is one user message."""
        return isinstance(self.body.get(self.key), list)

    def read(self, index: int) -> MessageRead:
        """Return what a message says; each is read once."""
        if (found := self._read.get(index)) is None:
            blobs: Blobs = {}
            items = self.reader.message(without_halves(self.messages[index]), self.model, blobs)
            found = self._read[index] = _message_read(tuple(items), blobs)
        return found

    @cached_property
    def _read(self) -> dict[int, MessageRead]:
        return {}

    @cached_property
    def system_texts(self) -> list[str]:
        return self.reader.system(self.body)

    @property
    def history_start(self) -> int:
        """The number of leading messages that are the system prompt."""
        return 1 if self.reader.instructs_by_message and self.system_texts else 0

    @cached_property
    def tools_in_messages(self) -> list[dict[str, Json]]:
        """The tools declared in messages, which the provider stores with these."""
        return self.reader.tools_of_messages(self.messages)

    @cached_property
    def declared_tools(self) -> list[dict[str, Json]]:
        return [*self.reader.tools(self.body), *self.tools_in_messages]

    @cached_property
    def hashes(self) -> list[str]:
        """A short hash of each message's bytes, without cache marks."""
        return [short_hash(compact(message)) for message in self.messages]

    @cached_property
    def likenesses(self) -> list[str]:
        """A short hash of what each message says, in whatever form.

        Keys may be in another order, Gemini's signatures gone, and Codex's item ids new.
        """
        return [short_hash(json.dumps(likeness(each), sort_keys=True)) for each in self.messages]


def texts_of(message: Mapping[str, Json]) -> Iterator[str]:
    """Yield the nonempty texts of a message."""
    content = message.get("content", message.get("parts"))
    parts = (
        [content] if isinstance(content, str) else [as_dict(part).get("text") for part in as_list(content)]
    )
    return filter(None, map(as_str, parts))


def short_hash(text: str) -> str:
    """Return the beginning of a sha256, long enough to distinguish messages."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def api_of(method: str, path: str, upstream: str = "") -> tuple[str, str]:
    """Return a request's API and kind, or two empty texts."""
    if method.upper() != "POST":
        return "", ""
    return _api_at(path.partition("?")[0], upstream, FORMATS.changes)


@lru_cache(maxsize=256)
def _api_at(path: str, upstream: str, changes: int) -> tuple[str, str]:
    """Return a path's API and kind; of several APIs that of the upstream's provider.

    `changes` counts changes of the registry, so that a new format is found.
    """
    known = (api for api in FORMATS if FORMATS[api].read is not None)
    places = [(api, place) for api in known if (place := FORMATS[api].endpoint) is not None]
    places.sort(key=lambda each: upstream not in each[1].provider.names)
    patterns = ((api, pattern, kind) for api, place in places for pattern, kind in place.patterns)
    return next(((api, kind) for api, pattern, kind in patterns if pattern.search(path)), ("", ""))


def wire_request(exchange: RecordedExchange) -> WireRequest | None:
    """Return an exchange's request to a model, or None."""
    api, kind = api_of(exchange.method, exchange.path, exchange.upstream)
    if not api:
        return None
    try:
        sent = json.loads(exchange.body)
    except (ValueError, RecursionError):
        return None
    return None if not isinstance(sent, dict) else of_body(api, sent, exchange.path, kind)


def of_body(api: str, sent: dict[str, Json], path: str = "", kind: str = "") -> WireRequest:
    """Return the request to a model of a body."""
    reader = reader_of(api)
    whole = as_dict(sent.get(reader.wrapped)) if kind and reader.wrapped else {}
    whole = whole or sent
    body, marks = without_marks(whole)
    found = _MODEL.search(path)
    model = as_str(whole.get("model")).removeprefix("models/") or (found[1] if found else "")
    previous = as_str(whole.get(reader.follows)) if reader.follows else ""
    key = FORMATS[api].messages
    messages = [*_messages(body.get(key))]
    return WireRequest(api, model, whole, body, marks, messages, reader, key, kind, previous)


def _messages(given: Json) -> Iterator[dict[str, Json]]:
    if isinstance(given, str):
        yield {"role": "user", "content": given}
    for each in as_list(given):
        yield each if isinstance(each, dict) else {"role": "user", "content": compact(each)}
