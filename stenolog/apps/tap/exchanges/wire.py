"""Requests of the providers' APIs, read from their bodies: which API, and what of it are the messages."""

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
    """Contents of a request's message, with the bytes of its media by their sha256.

    `role` is "user", "assistant", "tool" or "system". `answered` are the ids of the calls whose results it
    has, and `answer` the parts of an answer of the model.
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
    """A request to a model: its API, its model, the body as sent, and without the marks of the cache.

    `messages` are those of `body`, which has none of the `marks`, under the `key`. `kind` names what is no
    turn of a conversation by its address: "count-tokens", "compaction"; empty for all others. `previous` is
    the id of the response that it goes on from, where the provider has the messages before.
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
        """True if the body has its messages as a list; a text alone is one message of a user."""
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
        """The texts of the system prompt."""
        return self.reader.system(self.body)

    @property
    def history_start(self) -> int:
        """The number of messages at the beginning that are the system prompt."""
        return 1 if self.reader.instructs_by_message and self.system_texts else 0

    @cached_property
    def tools_in_messages(self) -> list[dict[str, Json]]:
        """The tools that are declared in messages, which the provider stores with these."""
        return self.reader.tools_of_messages(self.messages)

    @cached_property
    def declared_tools(self) -> list[dict[str, Json]]:
        """The tools, one by one."""
        return [*self.reader.tools(self.body), *self.tools_in_messages]

    @cached_property
    def hashes(self) -> list[str]:
        """Return a short hash of each message to the byte, without the marks of the cache."""
        return [short_hash(compact(message)) for message in self.messages]

    @cached_property
    def likenesses(self) -> list[str]:
        """Return a short hash of what each message says, whatever form its client gives it now.

        A text alone is as good as a list of it. Keys may be in another order, and Gemini's signatures gone.
        Codex gives the items of its history new ids when it takes up a session.
        """
        return [short_hash(json.dumps(likeness(each), sort_keys=True)) for each in self.messages]


def texts_of(message: Mapping[str, Json]) -> Iterator[str]:
    """Yield the texts of a message that say something."""
    content = message.get("content", message.get("parts"))
    parts = (
        [content] if isinstance(content, str) else [as_dict(part).get("text") for part in as_list(content)]
    )
    return filter(None, map(as_str, parts))


def short_hash(text: str) -> str:
    """Return the beginning of a sha256, enough to tell messages apart."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def api_of(method: str, path: str, upstream: str = "") -> tuple[str, str]:
    """Return the API that a request is for, and its kind; two empty texts where it asks no model."""
    if method.upper() != "POST":
        return "", ""
    return _api_at(path.partition("?")[0], upstream, FORMATS.changes)


@lru_cache(maxsize=256)
def _api_at(path: str, upstream: str, changes: int) -> tuple[str, str]:
    """Return the API that has requests to a path, and their kind; a format without a reader has none.

    Of several, that of the upstream's provider. `changes` are those of the formats so far, so that a new one
    is found.
    """
    known = (api for api in FORMATS if FORMATS[api].read is not None)
    places = [(api, place) for api in known if (place := FORMATS[api].endpoint) is not None]
    places.sort(key=lambda each: upstream not in each[1].provider.names)
    patterns = ((api, pattern, kind) for api, place in places for pattern, kind in place.patterns)
    return next(((api, kind) for api, pattern, kind in patterns if pattern.search(path)), ("", ""))


def wire_request(exchange: RecordedExchange) -> WireRequest | None:
    """Return the request to a model that an exchange holds; None if it is none."""
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
