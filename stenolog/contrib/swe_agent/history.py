"""Runs and demonstrations of SWE-agent.

The history is what the model was sent. The trajectory's steps repeat the answers, with times, and hold what
the history lacks: the last observation, and steps taken back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stenolog import importers
from stenolog.importers import Json, Record, as_dict, as_list, as_str
from stenolog.parts import AssistantPart, TextPart, ToolCall

from .run import AgentRun

MAIN = "swe-agent"
AHEAD = 20
"""The number of steps among which the one of an answer is looked for."""
_ELIDED = re.compile(r"Old environment output: \(\d+ lines? omitted\)")
"""The text in the place of an observation that a request leaves out."""
KNOWN = frozenset(
    (
        "role",
        "content",
        "agent",
        "message_type",
        "tool_calls",
        "tool_call_ids",
        "tool_call_id",
        "thinking_blocks",
        "reasoning_content",
        "cache_control",
    )
)
"""The fields of a message that the events hold; all others are `meta`, unless the content repeats them."""
STEP = "stenolog.step"
"""The key of a record with the step of its message."""
SENT = "stenolog.sent"
"""The key of a step without a message: false if the model went on as though it had never been."""


def records(history: Sequence[Json], steps: Sequence[Json], *, is_over: bool) -> list[Record]:
    """Return the messages with their steps, and steps without a message if the run is over."""
    found: list[Record] = []
    objects = [as_dict(step) for step in steps]
    at = 0
    answers = [n for n, message in enumerate(history) if _is_answer(message)]
    following = dict(zip(answers, [*answers[1:], None], strict=False))
    for number, message in enumerate(history):
        step: dict[str, Any] = {}
        if number in following:
            then = following[number]
            own_number = _step_of(message, objects, at, None if then is None else history[then])
            if own_number is not None:
                found += _alone(range(at, own_number), objects, is_sent=False)
                at, step = own_number + 1, objects[own_number]
        value = message if isinstance(message, dict) else {"content": message}
        found.append(Record(str(number + 1), {**value, STEP: step}))
    if is_over or not history:
        found += _alone(range(at, len(objects)), objects, is_sent=True)
    return found


def _alone(numbers: range, steps: Sequence[dict[str, Any]], *, is_sent: bool) -> list[Record]:
    return [Record(str(number + 1), {STEP: steps[number], SENT: is_sent}) for number in numbers]


def _is_answer(message: Json) -> bool:
    found = as_dict(message)
    return found.get("role") == "assistant" and not found.get("is_demo")


def _step_of(message: Json, steps: Sequence[dict[str, Any]], at: int, following: Json) -> int | None:
    """Return an answer's step number: the next with its words, else the next."""
    for number in range(at, min(at + AHEAD, len(steps))):
        if _matches(message, steps[number]):
            return number
    if at < len(steps) and not (following is not None and _matches(following, steps[at])):
        return at
    return None


def _matches(message: Json, step: Mapping[str, Json]) -> bool:
    text = as_str(as_dict(message).get("content")).strip()
    return text == as_str(step.get("response")).strip() and bool(text)


class OpenAnswer(NamedTuple):
    """The last answer, without its observation: key, step, ids of calls."""

    key: str
    step: dict[str, Any]
    calls: tuple[str, ...]


NO_ANSWER = OpenAnswer("", {}, ())


class SweAgent(AgentRun):
    """Converter of a SWE-agent run; `info` is how it ended, and its cost."""

    def __init__(
        self, log: importers.ExistingLog, about: Mapping[str, Any], model: str, info: Mapping[str, Json]
    ) -> None:
        super().__init__(log, MAIN, about, model)
        self._info = info
        self._own_name = ""
        """The name of the main agent in the file."""
        self._prompted: set[str] = set()
        self._has_task = False
        self._open = NO_ANSWER
        self._observations: dict[str, list[int]] = {}
        """The positions of each observation of the history, by its key."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message, or for a step without one."""
        value, step = record.value, as_dict(record.value.get(STEP))
        if "role" not in value:
            self._flush()
            self._lone_step(f"step-{record.line}", step, in_context=value.get(SENT) is True)
            return self.writer.drain()
        key, agent = f"#{record.line}", self._agent(as_str(value.get("agent")))
        meta = _other_fields(value)
        match as_str(value.get("role")):
            case "assistant":
                self._flush()
                self._elide(as_list(step.get("query")) or as_list(step.get("messages")), int(record.line) - 1)
                self._answer(key, agent, value, step, meta)
            case "tool":
                self._results(key, agent, value, meta)
            case "system" if agent not in self._prompted and isinstance(value.get("content"), str):
                self.setup.card(agent, persona=value["content"])
            case "system":
                self.add_user_message(key, agent, value.get("content"), "system", meta=meta)
            case "user":
                self._user(key, agent, value, meta)
            case role:
                self.ignored[f"role {role}"] += 1
        self._prompted.add(agent)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end: the last observation, and how the run ended."""
        status = as_str(self._info.get("exit_status"))
        if status:
            self._flush()
        if re.search(r"exit_\w", status):  # a run that submitted by itself has another one
            self.add_failure("exit", status)
        self.write_facts(self._info)
        return self.writer.drain()

    def _agent(self, name: str) -> str:
        self._own_name = self._own_name or name
        return MAIN if name in ("", "main", "primary", self._own_name) else importers.agent_called(name)

    def _answer(
        self, key: str, agent: str, message: dict[str, Any], step: dict[str, Any], meta: dict[str, Any]
    ) -> None:
        parts = importers.litellm_answer(message, key)
        response = as_str(step.get("response"))
        if response.strip() and response.strip() != as_str(message.get("content")).strip():
            meta = {**meta, "response": response}
        self.add_answer(key, agent, parts, meta=meta)
        self._open = OpenAnswer(key, step, tuple(part.id for part in parts if isinstance(part, ToolCall)))

    def _elide(self, request: list[Json], before: int) -> None:
        """Hide the observations that the request of a step leaves out; a request has one message for each."""
        if len(request) != before:
            return
        found = (key for nth, sent in enumerate(request, 1) if _is_elided(sent) for key in (f"#{nth}",))
        positions = [position for key in found for position in self._observations.get(key, ())]
        if positions:
            self.setup.hides = self.writer.ranges(positions)
            self.decisions["observations left out of a request"] += 1

    def _user(self, key: str, agent: str, message: dict[str, Any], meta: dict[str, Any]) -> None:
        """Write the task, which is the first message that is no demonstration, or an observation."""
        is_task = not (self._has_task or message.get("is_demo") or self._open.key)
        self._has_task = self._has_task or is_task
        self._open = NO_ANSWER
        kind = message.get("message_type")
        meta = {**meta, "message_type": kind} if kind not in (None, "observation", "user") else meta
        self.add_user_message(
            key, agent, message.get("content"), "person" if is_task else "system", meta=meta
        )
        if not (is_task or _is_elided(message)):
            self._observations[key] = [self.writer.here]

    def _results(self, key: str, agent: str, message: dict[str, Any], meta: dict[str, Any]) -> None:
        listed = message.get("tool_call_ids", message.get("tool_call_id"))
        ids = [id for id in (listed if isinstance(listed, list) else [listed]) if isinstance(id, str)]
        duration = _milliseconds(self._open.step.get("execution_time"))
        self._open = NO_ANSWER
        if not ids:
            self.add_user_message(key, agent, message.get("content"), "system", meta=meta)
        for number, id in enumerate(ids):
            name = key if number == 0 else f"{key}:{number}"
            self.add_result(name, agent, id, message.get("content"), duration_ms=duration, meta=meta)
            if not _is_elided(message):
                self._observations.setdefault(key, []).append(self.writer.here)

    def _flush(self) -> None:
        """Write the last answer's observation, if the history lacks it."""
        key, step, calls = self._open
        self._open = NO_ANSWER
        observation = as_str(step.get("observation"))
        if not observation.strip():
            return
        duration = _milliseconds(step.get("execution_time"))
        for number, id in enumerate(calls):
            self.add_result(f"{key}:observation-{number}", MAIN, id, observation, duration_ms=duration)
        if not calls:
            self.add_user_message(f"{key}:observation", MAIN, observation, "system")

    def _lone_step(self, key: str, step: dict[str, Any], *, in_context: bool) -> None:
        text = as_str(step.get("response")) or as_str(step.get("thought"))
        action = as_str(step.get("action"))
        parts: list[AssistantPart] = [TextPart(text=text)] if text.strip() else []
        if action.strip() and action.strip() not in text:
            parts.append(TextPart(text=action))
        self.add_answer(key, MAIN, parts, in_context=in_context)
        if (observation := as_str(step.get("observation"))).strip():
            self.add_user_message(f"{key}:observation", MAIN, observation, "system", in_context=in_context)


def _is_elided(message: Json) -> bool:
    content = as_dict(message).get("content")
    texts = (
        [content] if isinstance(content, str) else [as_dict(part).get("text") for part in as_list(content)]
    )
    return any(_ELIDED.search(text) for text in texts if isinstance(text, str))


def _other_fields(message: Mapping[str, Json]) -> dict[str, Any]:
    content = as_str(message.get("content"))
    return {
        name: value
        for name, value in message.items()
        if name not in KNOWN and name != STEP and value not in (None, "", [], {}, False)
        if not (isinstance(value, str) and value.strip() in content)
    }


def _milliseconds(seconds: Json) -> int | None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return round(seconds * 1000) if is_number and 0 < seconds < 1e9 else None
