"""Checks: functions that judge a request, an answer, a call or a result before it counts.

    @before_call
    def no_bulk(call):
        return Refuse("at most 100 loaves") if loaves_of(call) > 100 else None

    clerk = Agent("clerk", tools=[order], checks=[no_bulk])

A check returns None to let it pass, or what is to be done instead. The log has each verdict, with the name of
the check: a replay calls no check.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.adapters.providers.failures import hide
from stenolog.adapters.tools.base import in_thread
from stenolog.adapters.tools.results import error_text
from stenolog.domain.base.model import clean
from stenolog.domain.errors import CallerError
from stenolog.domain.parts import AssistantPart, TextPart, ToolCall

Stage: TypeAlias = Literal["before_request", "after_answer", "before_call", "after_result"]
TRIES = 3
"""The number of answers to one message, of which the last is not asked for again."""
LONGEST = 2_000
"""The number of characters of a reason that are kept."""


class Replace(NamedTuple):
    """Verdict that another value counts in place of what was judged.

    `value` is a text or the parts of an answer, the arguments of a call as an object, or what a tool returns.
    `by` is who says so in the log; by default the check's name.
    """

    value: Any
    reason: str
    by: str = ""


class Refuse(NamedTuple):
    """Verdict that what was judged does not count. The model is told the reason."""

    reason: str


class AskPerson(NamedTuple):
    """Verdict that a person decides."""

    question: str


class CheckFailure(NamedTuple):
    """The reason that a check came to no verdict; what it was to judge does not count."""

    reason: str


Given: TypeAlias = Replace | Refuse | AskPerson | None


@dataclass(frozen=True)
class StageCheck:
    """Function that judges at one stage of an agent's work."""

    stage: Stage
    function: Callable[..., Any]
    name: str
    takes: int

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    async def judge(self, *subject: Any) -> Given | CheckFailure:
        """Return the verdict on a subject. A sync function runs in a thread."""
        called = partial(self.function, *subject[: self.takes])
        try:
            if inspect.iscoroutinefunction(self.function):
                given = await called()
            else:
                given = await in_thread(called, f"check {self.name}")
        except Exception as error:
            return CheckFailure(f"the check {self.name} failed: {hide(error_text(error))}"[:LONGEST])
        known = (Refuse, AskPerson) if self.stage == "before_request" else (Replace, Refuse, AskPerson)
        if given is None or isinstance(given, known):
            return given
        names = ", ".join(each.__name__ for each in known)
        return CheckFailure(f"the check {self.name}: expected None, {names}, found {given!r:.100}")


def before_request(function: Callable[..., Any]) -> StageCheck:
    """Judge each request before it is sent: `function(request)`, or `function(request, situation)`.

    A refusal or a question ends the agent's work until a person goes on. A request cannot be replaced, since
    it is built from the log: change what it is built from.
    """
    return _check("before_request", function, 2)


def after_answer(function: Callable[..., Any]) -> StageCheck:
    """Judge each answer before it counts: `function(answer)`, or `function(answer, situation)`.

    A refused answer is asked for again. While a person is asked, the answer is held back; `continue` lets it
    pass, other words do not.
    """
    return _check("after_answer", function, 2)


def before_call(function: Callable[..., Any]) -> StageCheck:
    """Judge each call of a tool before it runs: `function(call)`, a `ToolContext`."""
    return _check("before_call", function, 1)


def after_result(function: Callable[..., Any]) -> StageCheck:
    """Judge each result of a tool that ran: `function(call, output)`, a `ToolContext` and a `ToolOutput`."""
    return _check("after_result", function, 2)


def _check(stage: Stage, function: Callable[..., Any], most: int) -> StageCheck:
    if not callable(function):
        raise CallerError(f"{stage}: expected a function, found {function!r:.100}")
    name = str(getattr(function, "__name__", type(function).__name__))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError) as error:
        raise CallerError(f"{stage}: {name}: its signature cannot be read: {error}") from None
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return StageCheck(stage, function, name, min(max(len(places), 1), most))


def at_stage(checks: Sequence[StageCheck], stage: Stage) -> list[StageCheck]:
    """Return the checks of a stage, in their order."""
    return [check for check in checks if check.stage == stage]


def checked_list(checks: Sequence[Any], place: str = "") -> tuple[StageCheck, ...]:
    """Return an agent's checks. Raises `CallerError` for what is none, and for two of one name."""
    for check in checks:
        if not isinstance(check, StageCheck):
            hint = "a function with before_request, after_answer, before_call or after_result"
            raise CallerError(f"{place}expected {hint}, found {check!r:.100}")
    names = [(check.stage, check.name) for check in checks]
    if len(set(names)) < len(names):
        raise CallerError(f"{place}expected different names, found {names}")
    return tuple(checks)


def reworded(parts: Sequence[AssistantPart], value: Any) -> tuple[AssistantPart, ...]:
    """Return an answer's parts with a text in place of its texts, or with other parts in place of all."""
    if not isinstance(value, str):
        return tuple(value)
    texts = [nth for nth, part in enumerate(parts) if isinstance(part, TextPart)]
    calls = [nth for nth, part in enumerate(parts) if isinstance(part, ToolCall)]
    place = next(iter([*texts, *calls]), len(parts))
    before, after = (
        [part for part in each if not isinstance(part, TextPart)] for each in (parts[:place], parts[place:])
    )
    return (*before, *([TextPart(text=value)] if value else []), *after)


def short(reason: object) -> str:
    """Return a reason as the log can hold it."""
    return clean(str(reason))[:LONGEST]
