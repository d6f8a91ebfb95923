"""Tool calls with what came of them: one status, one mark and one wording for all that show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.events import LATE, ToolResult
from stenolog.domain.lanes.state import OpenCall, State

from .acts import has_failed
from .tool_pairs import CallKey, Pair

CallStatus: TypeAlias = Literal[
    "running", "awaiting approval", "awaiting an answer", "ok", "failed", "no result"
]
MARKS: dict[str, str] = {
    "ok": "✓",
    "failed": "✗",
    "no result": "-",
    "running": "…",
    "awaiting approval": "?",
    "awaiting an answer": "?",
}
NOTES: dict[str, str] = {
    "running": "no result yet",
    "awaiting approval": "a person has to approve it",
    "awaiting an answer": "a person has to answer its question",
    "no result": "no result: the agent went on without one",
    "late": "answered late: the agent had gone on without it",
    "orphan": "a result without its call",
    "duplicate": "a further result of a call that has one",
}
"""The words for a call without a result, and for a result out of the ordinary."""


class CallOutcome(NamedTuple):
    """The outcome of a call, or of a result without one; `note` is empty for an ordinary result."""

    status: CallStatus
    note: str = ""


def of_result(result: ToolResult, pair: Pair | None) -> CallOutcome:
    """Return the outcome that a result is; `pair` as `ToolCallIndex` pairs it."""
    status: CallStatus = "failed" if has_failed(result) else "ok"
    if pair is None or pair.call is None:
        return CallOutcome(status, NOTES["duplicate" if pair and pair.second else "orphan"])
    return CallOutcome(status, NOTES["late"] if LATE in result.tags else "")


def without_result(key: CallKey, open: dict[CallKey, CallStatus]) -> CallOutcome:
    """Return the outcome of a call that no result has come for; `open` as by `open_calls`."""
    status: CallStatus = open.get(key, "no result")
    return CallOutcome(status, NOTES[status])


def open_calls(state: State) -> dict[CallKey, CallStatus]:
    """Return the calls that their lanes wait for, with what each waits for."""
    return {CallKey(call.position, call.nth): _status(call) for _, call in state.open_calls()}


def _status(call: OpenCall) -> CallStatus:
    if call.question:
        return "awaiting an answer"
    return "awaiting approval" if call.approval else "running"


def missing(waiting: Iterable[CallKey], open: dict[CallKey, CallStatus]) -> set[CallKey]:
    """Return the calls without a result that nobody waits for any more."""
    return {key for key in waiting if key not in open}
