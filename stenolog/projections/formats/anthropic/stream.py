"""Answers of Anthropic's Messages API: events of a stream, or a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stenolog.domain.base.model import clean
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import AssistantPart
from stenolog.projections.formats.deltas import Kind, ModelResponse, ResponseDelta
from stenolog.projections.formats.reading import call_name
from stenolog.projections.formats.streaming import StreamReader, mended
from stenolog.projections.messages.identifiers import arguments_object
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str

from .read import PROVIDER, assistant_part, in_container, usage

STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 408,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""The status that an error in mid-stream would have had at the start."""
STREAMED: Mapping[str, tuple[Kind, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "input_json_delta": ("tool_call", "partial_json"),
}
"""The deltas that are streamed on: their kind, and the place of their text."""
BEGINS: Mapping[str, tuple[Kind, str]] = {
    "text": ("text", "text"),
    "thinking": ("reasoning", "thinking"),
    "tool_use": ("tool_call", ""),
}
"""The blocks that are streamed on, likewise."""


class AnthropicStream(StreamReader):
    """Reader of one answer."""

    provider = PROVIDER
    end = "message_stop"
    counts = "input_tokens"
    ended = False

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._open: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._ids: list[str] = []
        self._counts: dict[str, Any] = {}
        self._diagnostics: Json = None
        self._container = ""

    def is_event(self, given: Mapping[str, Any]) -> bool:
        kind = as_str(given.get("type"))
        return kind.startswith(("message_", "content_block_")) or kind == "ping"

    def is_answer(self, given: Mapping[str, Any]) -> bool:
        return given.get("type") == "message" and isinstance(given.get("content"), list)

    def failure(self, body: Json, status: int = 0) -> ModelError:
        kind = as_str(as_dict(as_dict(body).get("error")).get("type"))
        return super().failure(body, status or STATUS.get(kind, 0))

    def deltas(self, event: dict[str, Any]) -> list[ResponseDelta]:
        index = as_int(event.get("index"))
        match event.get("type"):
            case "message_start":
                message = as_dict(event.get("message"))
                self.id, self.model = as_str(message.get("id")), as_str(message.get("model"))
                self._count(message)
            case "content_block_start":
                return self._start(index, mended(as_dict(event.get("content_block"))))
            case "content_block_delta":
                return self._delta(index, as_dict(event.get("delta")))
            case "content_block_stop" if index in self._open:
                return self.parts.put(index, self._closed(index))
            case "message_delta":
                self._stop(as_dict(event.get("delta")))
                self._count(event)
            case "message_stop":
                self.ended = True
            case _:
                pass
        return []

    def read_answer(self, answer: Json) -> ModelResponse:
        given = as_dict(answer)
        self.take({"type": "message_start", "message": given})
        for index, block in enumerate(as_list(given.get("content"))):
            self.parts.put(index, self._part(self._name(mended({**as_dict(block)}))))
        self._stop(given)
        self.ended = True
        return self.answer()

    def answer(self) -> ModelResponse:
        made = super().answer()
        return made._replace(parts=in_container(made.parts, self._container)) if self._container else made

    def _stop(self, delta: dict[str, Any]) -> None:
        if container := delta.get("container"):
            self._container = as_str(as_dict(container).get("id"))
        self.finish_reason = as_str(delta.get("stop_reason")) or self.finish_reason
        self.why = as_str(as_dict(delta.get("stop_details")).get("explanation")) or self.why

    def _start(self, index: int, block: dict[str, Any]) -> list[ResponseDelta]:
        self._name(block)
        self._open[index] = block
        if as_str(block.get("type")) not in BEGINS:
            return []
        kind, where = BEGINS[block["type"]]
        names = {name: as_str(block.get(name)) for name in ("id", "name")} if kind == "tool_call" else {}
        return self.parts.add(index, kind, as_str(block.get(where)), **names)

    def _delta(self, index: int, delta: dict[str, Any]) -> list[ResponseDelta]:
        if index not in self._open:
            raise ModelError("invalid_response", f"a delta of block {index}, which is not open")
        block, kind = self._open[index], as_str(delta.get("type"))
        # A call of the provider's own tools: its input streams too, but no call is to be run here.
        if kind == "input_json_delta" and block.get("type") != "tool_use":
            self._inputs.setdefault(index, []).append(as_str(delta.get("partial_json")))
        elif kind in STREAMED:
            streamed, where = STREAMED[kind]
            return self.parts.add(index, streamed, as_str(delta.get(where)))
        elif kind == "citations_delta":
            cited = mended(as_dict(delta.get("citation")))
            block["citations"] = [*as_list(block.get("citations")), cited]
        # Other deltas, such as a signature, are fields of the block.
        else:
            block |= mended({name: value for name, value in delta.items() if name != "type"})
        return []

    def _closed(self, index: int) -> AssistantPart:
        block, streamed = self._open.pop(index), self.parts.text(index)
        match block.get("type"):
            case "text" | "thinking" as kind:
                block[kind] = streamed
            # Without a delta, the input is what the block began with.
            case "tool_use" if streamed:
                block["input"] = streamed
            case _ if index in self._inputs:
                block["input"] = arguments_object(clean("".join(self._inputs[index])))[0]
            case _:
                pass
        return self._part(block)

    def _name(self, block: dict[str, Any]) -> dict[str, Any]:
        if block.get("type") == "tool_use":
            block["id"] = as_str(block.get("id")) or call_name(self._ids)
            self._ids.append(block["id"])
        return block

    def _part(self, block: dict[str, Any]) -> AssistantPart:
        return assistant_part(block, clean(self.model), "")

    def _count(self, of: dict[str, Any]) -> None:
        counted = as_dict(of.get("usage"))
        # Later events repeat only some of the counts, and have null for others.
        self._counts |= {name: value for name, value in counted.items() if value is not None}
        self._diagnostics = of.get("diagnostics") or self._diagnostics
        self.usage = usage(self._counts or None, self._diagnostics)
