"""Models of the simulated world: they answer, call tools, fail, are slow or hang, as decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from stenolog import TextPart, ToolCall
from stenolog.errors import ModelError
from stenolog.events import Usage
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, Timeouts
from stenolog.requests import validate

from .tools import PAUSES, TOOLS

if TYPE_CHECKING:
    from .world import World

TOOL_ROUNDS = 6
"""Maximum number of answers that call tools in one simulation, so that it ends."""
ARGUMENTS = {"ask": '{"task": "Do it."}', "transfer": '{"message": "Go on."}'}
FAILURES = ("rate_limited", "overloaded", "network", "invalid_response", "context_length")


class Talker(Model):
    """A model that answers, calls tools, fails, is slow or hangs, as decided."""

    provider = "simulated"
    charges = "nothing"

    def __init__(self, world: World, agent: str, kind: str = "model") -> None:
        self.world = world
        self.name = f"{kind}-of-{agent}"
        self.api = world.api[self.name]
        self.agent = agent
        self.remembers = world.remembers[agent]
        self.timeouts = Timeouts(first_token=20.0, idle=20.0, total=120.0)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        world, choose, me = self.world, self.world.decisions.choose, self.name.replace("-of-", ".")
        world.asked = number = world.asked + 1
        if broken := validate(str(self.api), prompt.body):
            world.faults.append(f"law: a request of {prompt.lane} was sent that breaks {broken[0]}")
        if pause := choose(f"{me}.pause", 0.3, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        self._check_length(prompt)
        if failure := choose(f"{me}.fails", 0.1, len(FAILURES)):
            yield ResponseDelta(0, "text", "I beg")
            await asyncio.sleep(0.2)
            raise ModelError(FAILURES[failure - 1], "as decided", retry_after=choose(f"{me}.again", 0.2, 50))
        said = self._answer(number, choose(f"{me}.misfits", 0.25))
        if not self.is_typed and choose(f"{me}.hands_on", 0.1):
            said += " @bob" if self.agent == "ann" else " @ann"
        if choose(f"{me}.streams", 0.3):
            for word in said.split():
                yield ResponseDelta(0, "text", f"{word} ")
                await asyncio.sleep(0.15)
        parts: list[Any] = [TextPart(text=said)]
        names = self._tools(prompt)
        calls = choose(f"{me}.calls", 0.45, 3) if names and world.rounds < TOOL_ROUNDS else 0
        world.rounds += bool(calls)
        for nth in range(calls):
            name = names[choose(f"{me}.tool", 0.7, len(names) - 1)]
            arguments = ARGUMENTS.get(name.partition("_")[0], "{}")
            parts.append(ToolCall(id=f"c{number}-{nth}", name=name, arguments=arguments))
        if self.is_typed and not calls and "final_answer" in json.dumps(prompt.body.get("tools", "")):
            parts = [ToolCall(id=f"f{number}", name="final_answer", arguments=said)]
        session = (prompt.session or f"session {number}") if self.remembers else ""
        yield ModelResponse(tuple(parts), usage=Usage(input=10, output=5), session=session)

    async def lost(self, lane: str, conversation: str, session: str) -> str:
        if pause := self.world.decisions.choose(f"model.{self.agent}.asked", 0.2, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        return "as decided" if self.world.decisions.choose(f"model.{self.agent}.lost", 0.2) else ""

    def _tools(self, prompt: ModelRequest) -> list[str]:
        if self.agent == "zoe" or not prompt.body.get("tools", self.api == "plain"):
            return []
        delegates = self.agent == "ann" and self.world.delegates
        others = ["transfer_to_bob" if self.agent == "ann" else "transfer_to_ann"]
        hands_on = others if self.agent in self.world.hands_to else []
        return [*TOOLS[self.agent], *(["ask_eve"] if delegates else []), *hands_on * 3]

    @property
    def is_typed(self) -> bool:
        """True if the answers of its agent have a type."""
        return self.world.is_typed[self.agent]

    def _answer(self, number: int, misfits: int) -> str:
        return json.dumps({"n": number}) if self.is_typed and not misfits else f"answer {number}"

    def _check_length(self, prompt: ModelRequest) -> None:
        """Refuse what is longer than the model takes, and say so in numbers or not."""
        size, most = len(json.dumps(prompt.body, ensure_ascii=False)), self.world.longest[self.name]
        if 0 < most < size:
            says = self.world.decisions.choose(f"{self.name}.says", 0.5)
            words = f"prompt is too long: {size // 4} tokens > {most // 4} maximum" if says else "too long"
            raise ModelError("context_length", words)
