"""A model that answers by script: for tests and demos, without a key or a network.

>>> from stenolog import ToolCall
>>> script = Scripted(["Let me look.", ToolCall(id="c1", name="look")], "It is a cat.")
>>> script.remaining
2
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from stenolog.domain.errors import ModelError
from stenolog.domain.parts import AssistantPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage

from .base import Model, ModelCall, ModelResponse, ResponseDelta, Timeouts

Reply: TypeAlias = str | AssistantPart | ModelResponse | BaseException
Turn: TypeAlias = Reply | Sequence[str | AssistantPart] | Callable[[ModelCall], object]
CHARACTERS = 4
"""So many characters of a prompt or an answer count as one token of its usage."""


TIMEOUTS = Timeouts()


class Scripted(Model):
    """Answers with one turn of the script after the other.

    A turn is a text, a part, a list of these, a `ModelResponse`, an error that is raised, or a function of
    the `ModelCall` that gives one of them. A text streams in pieces of `piece` characters, with `pause`
    seconds before each. After the last turn it raises `ModelError`; `endless` begins anew instead.
    """

    provider: ClassVar[str] = "scripted"
    charges = "nothing"

    def __init__(
        self,
        *turns: Turn,
        name: str = "scripted",
        api: str = "openai-chat",
        piece: int = 16,
        pause: float = 0.0,
        endless: bool = False,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self.name = name
        self.api = api
        self.timeouts = timeouts
        self.prompts: list[ModelCall] = []
        self._turns = turns
        self._piece = piece
        self._pause = pause
        self._endless = endless
        self._next = 0

    @property
    def remaining(self) -> int:
        """The number of turns not used yet."""
        return len(self._turns) - self._next

    async def stream(self, prompt: ModelCall) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        """The next turn of the script."""
        self.prompts.append(prompt)
        answer = self._answer(prompt)
        for index, part in enumerate(answer.parts):
            async for piece in self._stream_part(index, part):
                yield piece
        yield answer

    def _answer(self, prompt: ModelCall) -> ModelResponse:
        if not self.remaining and self._endless:
            self._next = 0
        if not self.remaining:
            raise ModelError("other", f"the script of {self.name} has ended after {self._next} turns")
        turn: object = self._turns[self._next]
        self._next += 1
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


def answer_of(turn: object, prompt: ModelCall) -> ModelResponse:
    """A turn of a script as an answer, with a usage that is an estimate."""
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
