"""Answers of Chat Completions, OpenAI's and other servers': chunks of a stream, or a completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stenolog.domain.parts import ReasoningPart, RefusalPart, TextPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.formats.streaming import StreamReader, mended
from stenolog.projections.messages.json_fields import Json, arguments, as_dict, as_int, as_list, as_str

from .read import PROVIDER, answer_parts, calls_in, first_choice


def usage(given: Json) -> Usage | None:
    """Return the tokens used, by this API's names or those of Responses, or None."""
    if not as_dict(given):
        return None
    of_responses = "input_tokens" in given and "prompt_tokens" not in given
    input, output = (
        ("input_tokens", "output_tokens") if of_responses else ("prompt_tokens", "completion_tokens")
    )
    details, thought = as_dict(given.get(f"{input}_details")), as_dict(given.get(f"{output}_details"))
    return Usage(
        input=as_int(given.get(input)),
        output=as_int(given.get(output)),
        cache_read=as_int(details.get("cached_tokens")),
        cache_write=as_int(details.get("cache_write_tokens")),
        reasoning=as_int(thought.get("reasoning_tokens")),
    )


@dataclass
class _Call:
    """A tool call as its server names it, and the key that it is collected under."""

    key: int
    id: str
    name: str


class OpenAIChatStream(StreamReader):
    """Reader of one answer."""

    provider = PROVIDER

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._calls: list[_Call] = []
        self._known: dict[int | str, _Call] = {}

    def is_event(self, given: Mapping[str, Any]) -> bool:
        return isinstance(given.get("choices"), list)

    def deltas(self, event: dict[str, Any]) -> Iterator[ResponseDelta]:
        self._about(event)
        for choice in map(as_dict, as_list(event.get("choices"))):
            # Further choices are not asked for, and would run into the first one.
            if not choice.get("index"):
                delta = as_dict(choice.get("delta"))
                yield from self._message(delta)
                for call in map(as_dict, as_list(delta.get("tool_calls"))):
                    yield from self._call(call)
                self._finish(choice)
            else:
                self.others = max(self.others, as_int(choice["index"]))

    def read_answer(self, answer: Json) -> ModelResponse:
        given = as_dict(answer)
        choice = first_choice(given)
        self.others = max(len(as_list(given.get("choices"))) - 1, 0)
        if given.get("error") and not choice:
            raise self.failure(given)
        self._about(given)
        message = mended(as_dict(choice.get("message")))
        for _ in self._message(message):
            pass
        for nth, call in enumerate(calls_in(message)):
            self.parts.put(("call", nth), call)
        self._finish(choice)
        return self.parts.answer(self.model, self.finish_reason, self.usage)

    def _about(self, given: dict[str, Any]) -> None:
        self.id = self.id or as_str(given.get("id"))
        self.model = as_str(given.get("model")) or self.model
        # The count comes in the last chunk, which may have no choice.
        self.usage = usage(given.get("usage")) or self.usage

    def _message(self, delta: dict[str, Any]) -> Iterator[ResponseDelta]:
        for part in answer_parts(delta):
            match part:
                case TextPart() | ReasoningPart() | RefusalPart():
                    yield from self.parts.add(part.type, part.type, part.text)
                case _:
                    yield from self.parts.put(object(), part)

    def _finish(self, choice: dict[str, Any]) -> None:
        self.finish_reason = as_str(choice.get("finish_reason")) or self.finish_reason
        # Some gateways report an error of the provider behind them in a choice.
        if self.finish_reason == "error":
            unsaid = {"code": "server_error", "message": "finish reason: error"}
            raise self.failure(choice.get("error") or unsaid)

    def _call(self, given: dict[str, Any]) -> Iterator[ResponseDelta]:
        # Servers send a call whole or in pieces. An index may be missing; an id may be empty or not unique.
        custom = as_dict(given.get("custom"))
        function = as_dict(given.get("function")) or custom
        id, name = as_str(given.get("id")), as_str(function.get("name"))
        more = arguments(function.get("arguments") or custom.get("input") or "")
        index = given.get("index")
        call = self._meant(index, id)
        if call is None or self._is_another(call, id, name, more):
            call = _Call(len(self._calls), id, name)
            self._calls.append(call)
        call.id, call.name = call.id or id, call.name or name
        self._known |= {call.id: call} | ({index: call} if isinstance(index, int) else {})
        form = "custom" if custom else ""
        yield from self.parts.add(call.key, "tool_call", more, id=id, name=name, form=form)

    def _meant(self, index: object, id: str) -> _Call | None:
        if isinstance(index, int):
            return self._known.get(index)
        return self._known.get(id) if id else self._calls[-1] if self._calls else None

    def _is_another(self, call: _Call, id: str, name: str, more: str) -> bool:
        """Return whether a piece begins another call despite an earlier one's index or id."""
        # Later pieces have no name as a rule; another name is another call.
        if not name or (call.name and name != call.name):
            return bool(name)
        so_far = self.parts.text(call.key)
        # A new id is not enough: vLLM drew a new one for every piece.
        new_id = bool(id and call.id and id != call.id)
        # Once the arguments are a whole object, whatever follows belongs to another call.
        return (new_id or bool(more.strip())) if _is_object(so_far) else new_id and not so_far


def _is_object(arguments: str) -> bool:
    try:
        return arguments.rstrip().endswith("}") and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
