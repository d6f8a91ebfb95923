"""Whether a stream of AG-UI events is in legal order: told from the protocol, apart from how we make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PAIRS = {
    "TEXT_MESSAGE": ("messageId", "CONTENT"),
    "REASONING_MESSAGE": ("messageId", "CONTENT"),
    "REASONING": ("messageId", ""),
    "TOOL_CALL": ("toolCallId", "ARGS"),
}
STANDING = ("CUSTOM", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "TOOL_CALL_RESULT")


def faults(stream: Iterable[dict[str, Any]]) -> list[str]:
    """Return the faults in the order of events as they are sent; empty if there are none."""
    found, is_on, runs = list[str](), False, 0
    open_now, used = set[tuple[str, str]](), set[tuple[str, str]]()
    for number, event in enumerate(stream):
        kind = event["type"]
        if kind == "RUN_STARTED":
            is_on, runs = True, runs + 1
            fault = "a run within a run" if runs > 1 else ""
        elif not is_on:
            fault = "no run is on"
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            is_on, fault = False, f"{sorted(open_now)} are open" if open_now else ""
        else:
            fault = "" if kind in STANDING else _paired(event, open_now, used)
        if fault:
            found.append(f"{number}: {kind}: {fault}")
    return found + (["the run never ends"] if is_on or not runs else [])


def _paired(event: dict[str, Any], open_now: set[tuple[str, str]], used: set[tuple[str, str]]) -> str:
    kind = event["type"]
    if kind in ("STEP_STARTED", "STEP_FINISHED"):
        what, verb, id = "STEP", kind.removeprefix("STEP_"), event["stepName"]
    else:
        what, _, verb = kind.rpartition("_")
        id = event[PAIRS[what][0]]
    key = (what, id)
    if verb in ("START", "STARTED"):
        fault = (
            "is open already" if key in open_now else "began before" if key in used and what != "STEP" else ""
        )
        open_now.add(key)
        if what != "REASONING":
            used.add(key)
        return fault
    fault = "" if key in open_now else "is not open"
    if verb in ("END", "FINISHED"):
        open_now.discard(key)
    elif not event["delta"]:
        fault = fault or "says nothing"
    return fault
