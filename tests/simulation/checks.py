"""Checks of the simulated world: their verdicts are decisions, each of one subject, and are kept."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from stenolog import AssistantMessage, ToolResult
from stenolog.engine import (
    AskPerson,
    Refuse,
    Replace,
    after_answer,
    after_result,
    before_call,
    before_request,
)
from stenolog.tools import ToolContext, ToolOutput

from .decisions import Decisions
from .tools import DEEDS, DONE_BY

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
"""The type of typed answers."""


class Judge:
    """The checks, and their `verdicts` by what they judged; `answers` are what people were asked."""

    def __init__(self, decisions: Decisions, answers: defaultdict[str, list[Any]]) -> None:
        self.decisions = decisions
        self.answers = answers
        self.verdicts: dict[str, str] = {}

        # Each is async: a thread is nothing that a seed decides.
        async def gate(request: Any) -> Any:
            return {"refuse": Refuse("not now"), "ask": AskPerson("Now?")}.get(self._decide("gate"))

        async def polite(answer: AssistantMessage) -> Any:
            verdict = self._verdict("polite", answer.text)
            better = Replace(_reworded(answer.text), "rude")
            return {"refuse": Refuse("rude"), "ask": AskPerson("Rude?"), "replace": better}.get(verdict)

        async def guard(call: ToolContext) -> Any:
            verdict = self._verdict("guard", call.key)
            changed = Replace({"checked": True}, "unchecked") if call.name in DEEDS else None
            asked = AskPerson(f"guard {call.key}?")
            return {"refuse": Refuse("not this one"), "ask": asked, "replace": changed}.get(verdict)

        async def trim(call: ToolContext, output: ToolOutput) -> Any:
            verdict = self._verdict("trim", call.key)
            asked, less = AskPerson(f"trim {call.key}?"), Replace("less", "too long")
            return {"refuse": Refuse("not for you"), "ask": asked, "replace": less}.get(verdict)

        self.checks = [before_request(gate), after_answer(polite), before_call(guard), after_result(trim)]

    def fault(self, said: AssistantMessage, *, is_typed: bool) -> str:
        """Return why an answer must not count: by its type, or by a verdict on it."""
        if is_typed and said.text and not said.tool_calls and not fits(said.text):
            return f"output: {said.text} is not of the type"
        verdict = self.verdicts.get(f"polite {said.text}", "")
        if verdict in ("refuse", "fail") or (verdict == "ask" and said.receipt is not None):
            return f"checks: {said.text} counts, of which the verdict is {verdict}"
        return ""

    def call_fault(self, call: ToolContext) -> str:
        """Return why a call must not run, or not with its arguments."""
        verdict = self.verdicts.get(f"guard {call.key}", "")
        return self._against("guard", call.key) or (
            f"checks: {call.name} runs unchecked" if verdict == "replace" and "{}" in call.arguments else ""
        )

    def result_fault(self, result: ToolResult) -> str:
        """Return why a result must not count."""
        words = result.text.partition(DONE_BY)[2].partition(",")[0]
        verdict = self.verdicts.get(f"trim {words}", "") if words else ""
        return (
            f"checks: {result.text} counts as it was"
            if verdict == "replace"
            else self._against("trim", words)
        )

    def _against(self, what: str, subject: str) -> str:
        """Return the verdict, or the person's word, against a subject."""
        verdict, answers = self.verdicts.get(f"{what} {subject}", ""), self.answers[f"{what} {subject}?"]
        if verdict in ("refuse", "fail") or (verdict == "ask" and "yes" not in answers):
            return f"checks: {subject} counts, but the verdict of {what} is {verdict}, with {answers}"
        return ""

    def _verdict(self, what: str, subject: str) -> str:
        """Return the verdict on a subject, the same each time. Raises `ValueError` if the check fails."""
        verdict = self.verdicts.get(f"{what} {subject}") or self._decide(what, "replace", "fail")
        self.verdicts[f"{what} {subject}"] = verdict
        if verdict == "fail":
            raise ValueError("as decided")
        return verdict

    def _decide(self, what: str, *more: str) -> str:
        verdicts = ("refuse", "ask", *more)
        chosen = self.decisions.choose(f"check.{what}", 0.2, len(verdicts))
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
