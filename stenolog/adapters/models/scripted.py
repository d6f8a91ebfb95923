"""A model that answers by a script of Python or JSON: for tests and demos, without a key or a network.

    >>> from stenolog import ToolCall
    >>> script = Scripted(["Let me look.", ToolCall(id="c1", name="look")], "It is a cat.")
    >>> script.remaining
    2

    ["Hello.",
     [{"type": "text", "text": "Let me look."}, {"type": "tool_call", "name": "ls", "arguments": {}}],
     {"error": "rate_limited", "message": "too fast"}]

A turn is a text, a part of a message, a list of both, or an error. An object may have `pause` (seconds),
`piece` (characters) and `endless` beside `turns`; see `Scripted`. A restarted program continues the script
after the answers that its first request shows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import ErrorCategory
from stenolog.domain.parts import AssistantPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.requests import DEFAULT_API

from .base import Model, ModelRequest, Timeouts

Reply: TypeAlias = str | AssistantPart | ModelResponse | BaseException
Turn: TypeAlias = Reply | Sequence[str | AssistantPart] | Callable[[ModelRequest], object]
CHARACTERS = 4
"""So many characters of a prompt or an answer count as one token of its usage."""


TIMEOUTS = Timeouts()


class Scripted(Model):
    """A model that answers with one turn of the script after the other.

    A turn is a text, a part, a list of these, a `ModelResponse`, an error that is raised, or a function of
    the `ModelRequest` that returns one of them. A text streams in pieces of `piece` characters, with `pause`
    seconds before each. After the last turn it raises `ModelError`; `endless` starts again instead.
    """

    provider: ClassVar[str] = "scripted"
    charges = "nothing"

    def __init__(
        self,
        *turns: Turn,
        name: str = "scripted",
        api: str = DEFAULT_API,
        piece: int = 16,
        pause: float = 0.0,
        endless: bool = False,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self.name = name
        self.api = api
        self.timeouts = timeouts
        self.prompts: list[ModelRequest] = []
        self._turns = turns
        self._piece = piece
        self._pause = pause
        self._endless = endless
        self._next = 0

    @property
    def remaining(self) -> int:
        """The number of turns not used yet."""
        return len(self._turns) - self._next

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        """Yield the next turn of the script."""
        self.prompts.append(prompt)
        answer = self._answer(prompt)
        for index, part in enumerate(answer.parts):
            async for piece in self._stream_part(index, part):
                yield piece
        yield answer

    def _answer(self, prompt: ModelRequest) -> ModelResponse:
        if not self.remaining and self._endless:
            self._next = 0
        if not self.remaining:
            raise ModelError("other", f"the script of {self.name} has ended after {self._next} turns")
        turn: object = self._turns[self._next]
        self._next += 1
        # A class is no function of the request, but an exception that may be raised.
        if callable(turn) and not isinstance(turn, type):
            turn = turn(prompt)
        if isinstance(turn, BaseException):
            raise turn
        return answer_of(turn, prompt)

    async def _stream_part(self, index: int, part: AssistantPart) -> AsyncGenerator[ResponseDelta, None]:
        match part:
            case ToolCall(id=id, name=name, arguments=arguments):
                await self._wait()
                yield ResponseDelta(index, "tool_call", arguments, id, name)
            case TextPart(text=text) | ReasoningPart(text=text) | RefusalPart(text=text):
                for begin in range(0, len(text), self._piece):
                    await self._wait()
                    yield ResponseDelta(index, part.type, text[begin : begin + self._piece])
            case _:
                pass

    async def _wait(self) -> None:
        if self._pause:
            await asyncio.sleep(self._pause)


def answer_of(turn: object, prompt: ModelRequest) -> ModelResponse:
    """Return a turn of a script as an answer, with an estimated usage."""
    if isinstance(turn, ModelResponse):
        return turn
    given: Any = turn if isinstance(turn, list | tuple) else [turn]
    parts: tuple[AssistantPart, ...] = tuple(
        TextPart(text=each) if isinstance(each, str) else each for each in given
    )
    said = sum(len(getattr(part, "text", "") or getattr(part, "arguments", "")) for part in parts)
    calls = any(isinstance(part, ToolCall) for part in parts)
    usage = Usage(input=len(str(prompt.body)) // CHARACTERS, output=max(1, said // CHARACTERS))
    return ModelResponse(parts, finish_reason="tool_calls" if calls else "stop", usage=usage)


OPTIONS = ("turns", "pause", "piece", "endless")
PART: TypeAdapter[AssistantPart] = TypeAdapter(AssistantPart)


class ScriptFile(Scripted):
    """A script that continues at the state of a conversation."""

    def _answer(self, prompt: ModelRequest) -> ModelResponse:
        # Only the first request of a process: later ones are counted by the script itself.
        if not self._next:
            said = sum(message.get("role") == "assistant" for message in prompt.body["messages"])
            number = len(self._turns)
            self._next = said % number if self._endless and number else min(said, number)
        return super()._answer(prompt)


def scripted(path: str, *, timeouts: Timeouts = TIMEOUTS) -> Scripted:
    """Return the model that answers by the script in a file. Raises `CallerError`, `OSError`."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise CallerError(f"{path}: expected a script as JSON: {error}") from None
    script = given if isinstance(given, dict) else {"turns": given}
    if not isinstance(script.get("turns"), list) or (strange := sorted(script.keys() - {*OPTIONS})):
        found = f"the key {strange[0]!r}" if isinstance(script.get("turns"), list) else "no list of turns"
        raise CallerError(
            f"{path}: expected a list of turns, or an object of {', '.join(OPTIONS)}; found {found}"
        )
    turns = [_turn(turn, number, path) for number, turn in enumerate(script["turns"], 1)]
    options = {name: value for name, value in script.items() if name != "turns"}
    return ScriptFile(*turns, name=Path(path).stem, timeouts=timeouts, **options)


def _turn(given: Any, number: int, path: str) -> Any:
    where = f"{path}: turn {number}"
    match given:
        case list():
            parts = enumerate(given, 1)
            return [_part(part, f"{where}, part {nth}", f"call_{number}_{nth}") for nth, part in parts]
        case {"error": category, **rest}:
            return _error(category, rest, where)
        case _:
            return _part(given, where, f"call_{number}")


def _error(category: object, rest: Mapping[Any, Any], where: str) -> ModelError:
    known = get_args(ErrorCategory)
    if category not in known:
        raise CallerError(f"{where}: error: expected one of {', '.join(known)}; found {category!r:.60}")
    return ModelError(str(category), str(rest.get("message", "")), retry_after=rest.get("retry_after"))


def _part(given: Any, where: str, id: str) -> AssistantPart:
    """Return a part as the log has it; a call may have an object as its arguments, and the default id."""
    if isinstance(given, str):
        return TextPart(text=given)
    if isinstance(given, dict) and given.get("type") == "tool_call":
        arguments = given.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        given = {"id": id} | given | {"arguments": arguments}
    try:
        # As JSON, which is how the log reads parts.
        return PART.validate_json(json.dumps(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(map(str, first["loc"][1:]))
        raise CallerError(f"{where}: {place}: {first['msg']}".replace(": :", ":")) from None
