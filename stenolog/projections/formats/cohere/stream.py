"""Answers of Cohere's Chat API: events of a stream, or a whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.domain.parts import ReasoningPart
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_str

from ..deltas import Kind, ModelResponse, ResponseDelta
from ..streaming import StreamReader, mended
from .read import answer_parts, calls_in, text_part, usage
from .write import NAME, PLAN

STREAMED: tuple[tuple[str, Kind], ...] = (("text", "text"), ("thinking", "reasoning"))
"""The fields of a block that are streamed on, and of what kind they are."""
FAILED = frozenset({"ERROR", "TIMEOUT"})
"""The finish reasons of an answer that has failed."""


class CohereStream(StreamReader):
    """Reader of one answer."""

    provider = NAME
    end = "message-end"

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._cited: dict[int, list[Json]] = {}
        self._ids: list[str] = []

    def is_event(self, given: Mapping[str, Any]) -> bool:
        kind = as_str(given.get("type"))
        return kind in ("message-start", "message-end", "tool-plan-delta") or kind.startswith(
            ("content-", "tool-call-", "citation-")
        )

    def is_answer(self, given: Mapping[str, Any]) -> bool:
        return isinstance(given.get("message"), dict) and "finish_reason" in given

    def deltas(self, event: dict[str, Any]) -> Iterable[ResponseDelta]:
        index, delta = as_int(event.get("index")), as_dict(event.get("delta"))
        message = as_dict(delta.get("message"))
        match event.get("type"):
            case "message-start":
                self.id = as_str(event.get("id"))
            case "content-start" | "content-delta":
                return self._content(index, as_dict(message.get("content")))
            case "tool-plan-delta":
                return self.parts.add(PLAN, "reasoning", as_str(message.get(PLAN)))
            case "tool-call-start" | "tool-call-delta":
                return self._call(index, as_dict(message.get("tool_calls")))
            case "citation-start":
                cited = mended(as_dict(message.get("citations")))
                self._cited.setdefault(as_int(cited.get("content_index")), []).append(cited)
            case "message-end":
                self._finish(delta)
            case _:
                pass
        return []

    def read_answer(self, answer: Json) -> ModelResponse:
        given = as_dict(answer)
        if not given.get("message"):
            raise self.failure(given)
        self.id = as_str(given.get("id"))
        message = mended(as_dict(given.get("message")))
        for part in (*answer_parts(message), *calls_in(message)):
            self.parts.put(object(), part)
        self._finish(given)
        return super().answer()

    def answer(self) -> ModelResponse:
        if plan := self.parts.text(PLAN):
            self.parts.put(PLAN, ReasoningPart(text=plan, provider=NAME, id=PLAN))
        for index, cited in self._cited.items():
            if words := self.parts.text(index):
                self.parts.put(index, text_part(words, cited))
        return super().answer()

    def _content(self, index: int, content: dict[str, Any]) -> list[ResponseDelta]:
        return [
            said
            for name, kind in STREAMED
            if name in content
            for said in self.parts.add(index, kind, as_str(content.get(name)))
        ]

    def _call(self, index: int, call: dict[str, Any]) -> list[ResponseDelta]:
        function = as_dict(call.get("function"))
        names = {"id": as_str(call.get("id")), "name": as_str(function.get("name"))}
        return self.parts.add(("call", index), "tool_call", as_str(function.get("arguments")), **names)

    def _finish(self, given: dict[str, Any]) -> None:
        self.usage = usage(given.get("usage")) or self.usage
        self.finish_reason = as_str(given.get("finish_reason"))
        if self.finish_reason in FAILED:
            words = as_str(given.get("error")) or f"finish reason: {self.finish_reason}"
            code = "server_error" if self.finish_reason == "ERROR" else "timeout"
            raise self.failure({"code": code, "message": words})
