"""Requests of the providers' APIs, read from their bodies: which API, and what of it are the messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Any

from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str
from stenolog.projections.requests.as_sent import without_marks

from .exchange import RecordedExchange

Json = Any
_PATHS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"/messages/count_tokens$"), "anthropic", "count-tokens"),
    (re.compile(r"/v1/messages$|/messages$"), "anthropic", ""),
    (re.compile(r"/chat/completions$"), "openai-chat", ""),
    (re.compile(r"/responses/compact$"), "openai-responses", "compaction"),
    (re.compile(r"/responses(/input_tokens)?$"), "openai-responses", ""),
    (re.compile(r"/models/[^/]+:countTokens$"), "gemini", "count-tokens"),
    (re.compile(r"/models/[^/]+:(stream)?[gG]enerateContent$"), "gemini", ""),
)
_MODEL = re.compile(r"/models/([^/:]+):")
MESSAGES: Mapping[str, str] = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
"""The key of the messages in the body of each API."""


@dataclass(frozen=True)
class WireRequest:
    """A request to a model: its API, its model, the body as sent, and without the marks of the cache.

    `messages` are those of `body`, which has none of the `marks`. `kind` names what is no turn of a
    conversation by its address: "count-tokens", "compaction"; empty for all others. `previous` is the id of
    the response that it goes on from, where the provider has the messages before.
    """

    api: str
    model: str
    sent: dict[str, Json]
    body: dict[str, Json]
    marks: list[list[Json]]
    messages: list[dict[str, Json]]
    kind: str = ""
    previous: str = ""

    @property
    def key(self) -> str:
        """The key that the messages stand under."""
        return MESSAGES[self.api]

    @property
    def is_list(self) -> bool:
        """True if the body has its messages as a list; a text alone is one message of a user."""
        return isinstance(self.body.get(self.key), list)

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
        return [short_hash(json.dumps(_plain(_without_id(each)), sort_keys=True)) for each in self.messages]


def short_hash(text: str) -> str:
    """Return the beginning of a sha256, enough to tell messages apart."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def api_of(method: str, path: str) -> tuple[str, str]:
    """Return the API that a request is for, and its kind; two empty texts where it asks no model."""
    if method.upper() != "POST":
        return "", ""
    bare = path.partition("?")[0]
    return next(((api, kind) for pattern, api, kind in _PATHS if pattern.search(bare)), ("", ""))


def wire_request(exchange: RecordedExchange) -> WireRequest | None:
    """Return the request to a model that an exchange holds; None if it is none."""
    api, kind = api_of(exchange.method, exchange.path)
    if not api:
        return None
    try:
        sent = json.loads(exchange.body)
    except (ValueError, RecursionError):
        return None
    return None if not isinstance(sent, dict) else of_body(api, sent, exchange.path, kind)


def of_body(api: str, sent: dict[str, Json], path: str = "", kind: str = "") -> WireRequest:
    """Return the request to a model of a body."""
    inner = as_dict(sent.get("generateContentRequest")) if kind == "count-tokens" else {}
    whole = inner or sent
    body, marks = without_marks(whole)
    found = _MODEL.search(path)
    model = as_str(whole.get("model")).removeprefix("models/") or (found[1] if found else "")
    previous = as_str(whole.get("previous_response_id"))
    return WireRequest(api, model, whole, body, marks, list(_messages(api, body)), kind, previous)


def _messages(api: str, body: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    given = body.get(MESSAGES[api])
    if isinstance(given, str):
        yield {"role": "user", "content": given}
    for each in as_list(given):
        yield each if isinstance(each, dict) else {"role": "user", "content": compact(each)}


def system_texts(request: WireRequest) -> list[str]:
    """Return the texts of the system prompt that stand before the messages."""
    body = request.body
    match request.api:
        case "anthropic":
            return _texts(body.get("system"))
        case "gemini":
            given = body.get("systemInstruction", body.get("system_instruction"))
            return _texts(as_dict(given).get("parts") if isinstance(given, dict) else given)
        case "openai-responses":
            return _texts(body.get("instructions"))
        case _:
            first = request.messages[0] if request.messages else {}
            return _texts(first.get("content")) if first.get("role") in ("system", "developer") else []


def _texts(given: Json) -> list[str]:
    if isinstance(given, str):
        return [given] if given else []
    parts = given if isinstance(given, list) else [given]
    return [text for part in parts if (text := as_str(as_dict(part).get("text")))]


def history_start(request: WireRequest) -> int:
    """Return how many messages at the beginning are the system prompt, and no message of the conversation."""
    if request.api == "openai-chat" and system_texts(request):
        return 1
    return 0


MORE_TOOLS = "additional_tools"
"""The item in which a newer Codex declares its tools, grouped by namespaces."""


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _in_namespace(tool: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the tools of a namespace; of a tool that is none, the tool itself."""
    return [*filter(_is_object, as_list(tool.get("tools")))] if tool.get("type") == "namespace" else [tool]


def tools_in_items(request: WireRequest) -> list[dict[str, Json]]:
    """Return the tools that stand among the messages, which the provider stores with these."""
    items = (each.get("tools") for each in request.messages if each.get("type") == MORE_TOOLS)
    found = filter(_is_object, (each for listed in items for each in as_list(listed)))
    return [*chain.from_iterable(map(_in_namespace, found))]


def declared_tools(request: WireRequest) -> list[dict[str, Json]]:
    """Return the tools of a request, those of Gemini one by one."""
    tools = [each for each in as_list(request.body.get("tools")) if isinstance(each, dict)]
    if request.api != "gemini":
        return [*chain.from_iterable(map(_in_namespace, tools)), *tools_in_items(request)]
    declared = (each.get("functionDeclarations", each.get("function_declarations")) for each in tools)
    return [each for found in declared for each in as_list(found) if isinstance(each, dict)]


def _without_id(item: dict[str, Json]) -> dict[str, Json]:
    """Return an item of OpenAI's Responses without what the client or the provider has numbered it by."""
    kind = as_str(item.get("type"))
    if kind not in ("message", MORE_TOOLS) and not kind.endswith("_output"):
        return item  # of a thought that is encrypted away, say, the id is all that there is
    return {key: value for key, value in item.items() if key not in ITEM_FORMS}


def _plain(value: Any, key: str = "") -> Any:
    match value:
        case str() if key in ("content", "parts"):
            return [{"text": value}]
        case dict():
            kept = {name: _plain(inner, name) for name, inner in value.items() if name not in FORMS}
            is_text = value.get("type") in ("text", "input_text", "output_text")
            return {name: inner for name, inner in kept.items() if not (is_text and name in TEXT_FORMS)}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


ITEM_FORMS = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})
"""Keys of an item that say nothing that was said."""
FORMS = frozenset({"thoughtSignature", "thought_signature", "cache_control"})
"""Keys that say nothing that was said."""
TEXT_FORMS = frozenset({"type", "annotations", "logprobs", "citations"})
"""Keys of a text that some clients leave out of their history; the log keeps the citations of an answer."""
