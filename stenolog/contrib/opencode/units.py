"""The messages of a session in pieces, each with its time: a question, a step of an answer, a result.

An answer may have several steps: each is one response of the model, and the results of its calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Literal, TypeAlias

from stenolog.importers import JsonObject, as_dict, as_int, as_list, as_str

from .stored import SessionTree, StoredMessage, part_id

Kind: TypeAlias = Literal["user", "step", "result", "retry", "error", "summary"]
_SPOKEN = ("text", "reasoning", "tool", "file")
"""The types of parts that an answer is made of."""
_DONE = ("completed", "error", "success")
"""The states of a call that has its result."""


@dataclass
class Unit:
    """A piece of a message: `number` is that of the step, `parts` are its own, `about` counts its tokens."""

    kind: Kind
    session: str
    message: StoredMessage
    time: int
    parts: list[JsonObject] = field(default_factory=list)
    number: int = 0
    about: JsonObject = field(default_factory=dict)
    others: list[JsonObject] = field(default_factory=list)
    """The parts that say nothing, to be counted."""

    @property
    def id(self) -> str:
        return part_id(self.parts[0]) if self.parts else self.message.id


def units(tree: SessionTree) -> Iterator[Unit]:
    """Yield the pieces of all sessions in the order of their times; those of one session in their own."""
    found = [_of_session(id, messages) for id, messages in tree.messages.items()]
    return merge(*found, key=lambda unit: unit.time)


def _of_session(session: str, messages: list[StoredMessage]) -> Iterator[Unit]:
    time = 0
    for nth, message in enumerate(messages):
        for unit in _of_message(session, message, is_last=nth == len(messages) - 1):
            time = unit.time = max(time, unit.time)
            yield unit


def _of_message(session: str, message: StoredMessage, *, is_last: bool) -> Iterator[Unit]:
    role = message.info.get("role")
    if role != "assistant":
        yield Unit("user", session, message, message.created, message.parts)
        return
    is_open = is_last and message.is_open
    parts = _written(message.parts) if is_open else message.parts
    if message.info.get("summary") is True and not message.info.get("error"):
        waiting = is_open or not parts
        yield Unit("summary", session, message, message.created, [] if waiting else parts)
        return
    error = as_dict(message.info.get("error"))
    steps = _steps(message, parts)
    for nth, step in enumerate(steps):
        calls = [part for part in step if part.get("type") == "tool"]
        failed = bool(error) and nth == len(steps) - 1 and not calls
        yield from _of_step(session, message, step, nth, failed=failed)
    if not steps and not error:
        yield Unit("step", session, message, message.created)
    if error and not (steps and not any(part.get("type") == "tool" for part in steps[-1])):
        yield Unit("error", session, message, _time(message.info, "completed") or message.created)
    if is_open and len(parts) < len(message.parts):
        others = [{"type": "unfinished"}]
        yield Unit("step", session, message, message.created, number=len(steps), others=others)


def _of_step(
    session: str, message: StoredMessage, step: list[JsonObject], number: int, *, failed: bool
) -> Iterator[Unit]:
    spoken = [part for part in step if part.get("type") in _SPOKEN]
    others = [part for part in step if part.get("type") not in _SPOKEN]
    begun = next((time for part in spoken if (time := _begun(part))), 0) or message.created
    for part in others:
        if part.get("type") == "retry":
            yield Unit("retry", session, message, _time(part, "created") or begun, [part], number)
    others = [part for part in others if part.get("type") != "retry"]
    about = next((part for part in others if part.get("type") == "step-finish"), {})
    if failed:
        yield Unit("error", session, message, begun, spoken, number, about, others)
        return
    yield Unit("step", session, message, begun, spoken, number, about, others)
    calls = [part for part in spoken if part.get("type") == "tool"]
    done = [part for part in calls if as_dict(part.get("state")).get("status") in _DONE]
    for part in sorted(done, key=lambda part: _time(as_dict(part["state"]), "end")):
        time = _time(as_dict(part["state"]), "end") or begun
        yield Unit("result", session, message, time, [part], number)


def _written(parts: list[JsonObject]) -> list[JsonObject]:
    """Return the parts of an unfinished answer that change no more, up to the last call or end of a step."""
    settled = [nth for nth, part in enumerate(parts) if part.get("type") in ("tool", "step-finish")]
    return parts[: settled[-1] + 1] if settled else []


def _steps(message: StoredMessage, parts: list[JsonObject]) -> list[list[JsonObject]]:
    """Return the parts of each step: one begins with its start, and ends with its finish."""
    steps: list[list[JsonObject]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and any(each.get("type") in _SPOKEN for each in steps[-1]):
            steps.append([])
        steps[-1].append(part)
    return [step for step in steps if step]


def _time(value: JsonObject, name: str) -> int:
    return as_int(as_dict(value.get("time")).get(name))


def _begun(part: JsonObject) -> int:
    """Return the time at which a part began, in milliseconds; 0 where that is not told."""
    return _time(part, "start") or _time(as_dict(part.get("state")), "start")


def told_prompt(part: JsonObject) -> tuple[str, str]:
    """Return the session that a call has run, and the words that it gave it; empty where there are none."""
    state = as_dict(part.get("state"))
    run = as_str(as_dict(state.get("metadata")).get("sessionId"))
    return run, as_str(as_dict(state.get("input")).get("prompt"))


def attachments(part: JsonObject) -> list[JsonObject]:
    """Return the files of a tool's result."""
    return [as_dict(each) for each in as_list(as_dict(part.get("state")).get("attachments")) if each]
