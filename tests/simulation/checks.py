"""Checks of the simulated world: their verdicts are decisions, each of one subject, and are kept."""

from __future__ import annotations

import json
from typing import Any

from stenolog import AssistantMessage
from stenolog.engine import AskPerson, Refuse, Replace, after_answer, before_request

from .decisions import Decisions

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
"""The type of typed answers."""


class Judge:
    """The checks, and their `verdicts` by what they judged: an answer's text."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        self.verdicts: dict[str, str] = {}

        # Each is async: a thread is nothing that a seed decides.
        async def gate(request: Any) -> Any:
            return {"refuse": Refuse("not now"), "ask": AskPerson("Now?")}.get(self._decide("gate"))

        async def polite(answer: AssistantMessage) -> Any:
            verdict = self.verdicts.get(answer.text) or self._decide("polite", "replace", "fail")
            self.verdicts[answer.text] = verdict
            if verdict == "fail":
                raise ValueError("as decided")
            better = Replace(_reworded(answer.text), "rude")
            return {"refuse": Refuse("rude"), "ask": AskPerson("Rude?"), "replace": better}.get(verdict)

        self.checks = [before_request(gate), after_answer(polite)]

    def fault(self, said: AssistantMessage, *, is_typed: bool) -> str:
        """Return why an answer must not count: by its type, or by a verdict on it."""
        if is_typed and said.text and not said.tool_calls and not fits(said.text):
            return f"output: {said.text} is not of the type"
        verdict = self.verdicts.get(said.text, "")
        if verdict in ("refuse", "fail") or (verdict == "ask" and said.receipt is not None):
            return f"checks: {said.text} counts, of which the verdict is {verdict}"
        return ""

    def _decide(self, what: str, *more: str) -> str:
        verdicts = ("refuse", "ask", *more)
        chosen = self.decisions.choose(f"check.{what}", 0.15, len(verdicts))
        return verdicts[chosen - 1] if chosen else "pass"


def fits(text: str) -> bool:
    """Return whether a text is of the type."""
    try:
        given = json.loads(text)
    except ValueError:
        return False
    return isinstance(given, dict) and [*given] == ["n"] and isinstance(given["n"], int)


def _reworded(text: str) -> str:
    return json.dumps({"n": -json.loads(text)["n"]}) if fits(text) else f"{text}, please"
