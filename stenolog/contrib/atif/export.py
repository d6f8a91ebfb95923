"""Export of a conversation as an ATIF trajectory, version 1.7.

The first agent's lane is the trajectory, every other one an embedded one. What the format cannot say is the
remainder in `extra`, from which an import gives the same entries. `completeness` there counts what other
readers do not see, and how much of what the model was sent is proved by the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from stenolog.analysis import settings
from stenolog.errors import CallerError
from stenolog.events import (
    AgentCard,
    AssistantMessage,
    Entry,
    LlmError,
    ModeSwitch,
    ToolResult,
    Usage,
    UserMessage,
)
from stenolog.importers import Exporter, as_dict, as_str, openai_content, with_remainder
from stenolog.parts import ImagePart, Part, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.requests import LaneId, lanes, proofs, schema, tool_function

from .trajectory import EMBEDDED, REFERENCES, SYSTEM, conversation_of

if TYPE_CHECKING:
    from stenolog import Conversation

VERSION = "ATIF-v1.7"
UNKNOWN = "unknown"
"""The version of an agent that no log names."""
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
KEPT: Mapping[str, tuple[type, ...]] = {"is_copied_context": (bool,)}
OF_AGENTS: Mapping[str, tuple[type, ...]] = {"reasoning_effort": (str, float), "llm_call_count": (int,)}
"""Fields of an imported step that are the format's own, with their types."""
COUNTS = ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens")
MILLION = 1_000_000
Object: TypeAlias = dict[str, Any]


def document(conversation: Conversation) -> Object:
    """Return the trajectory. Raises `CallerError` for a conversation without entries."""
    entries = [*conversation.entries()]
    if not entries:
        raise CallerError(f"{conversation.name!r}: expected a conversation with entries, found none")
    found = TrajectoryWriter(entries, conversation.log.blobs)
    made: Object = json.loads(json.dumps(found.document(conversation.name)))
    with_remainder(made, made["extra"], conversation, conversation_of(made))
    return made


class LaneTrajectory:
    """A lane's trajectory in the making."""

    def __init__(self, id: LaneId, number: int) -> None:
        self.id = id
        self.trajectory = f"{id.address}#{number}"
        self.card = AgentCard()
        self.version = UNKNOWN
        self.steps: list[Object] = []
        self.totals: Counter[str] = Counter()

    def add(self, entry: Entry, source: str, message: Any, **fields: Any) -> Object:
        """Add a step."""
        time = entry.time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        step = {"step_id": len(self.steps) + 1, "timestamp": time, "source": source, "message": message}
        theirs = as_dict(getattr(entry.event, "meta", {}).get(SYSTEM))
        kinds = {**KEPT, **OF_AGENTS} if source == "agent" else KEPT
        kept = {name: theirs[name] for name, types in kinds.items() if type(theirs.get(name)) in types}
        fields = {**fields, **kept, "extra": as_dict(theirs.get("extra")) | fields.get("extra", {})}
        self.steps.append({**step, **{name: value for name, value in fields.items() if value}})
        return self.steps[-1]

    def document(self) -> Object:
        """Return the trajectory, without what only its root has."""
        about: Object = {"name": self.id.agent, "version": self.version}
        if self.card.model:
            about["model_name"] = self.card.model
        if self.card.tools:
            about["tool_definitions"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters or schema({}),
                    },
                }
                for tool in self.card.tools
            ]
        totals: Object = {name: self.totals[name] for name in COUNTS if name in self.totals}
        if "cost" in self.totals:
            totals["total_cost_usd"] = self.totals["cost"] / MILLION
        return {
            "agent": about,
            "steps": self.steps,
            "final_metrics": {**totals, "total_steps": len(self.steps)},
        }


class TrajectoryWriter:
    """The trajectories of a conversation's entries."""

    def __init__(self, entries: Sequence[Entry], blobs: Mapping[str, bytes]) -> None:
        self._entries = entries
        self._blobs = blobs
        ids = lanes(entries) or (LaneId(next(iter(settings(entries).cards), "assistant")),)
        self.lanes = {id.address: LaneTrajectory(id, nth) for nth, id in enumerate(ids, 1)}
        self._main = next(iter(self.lanes.values()))
        self._calls: dict[tuple[str, int], Object] = {}
        self._open: dict[str, list[tuple[str, int]]] = {}
        self._briefs: dict[tuple[int, int], LaneTrajectory] = {}
        self._given: Counter[int] = Counter()
        self._positions: dict[str, int] = {}
        self.unseen: Counter[str] = Counter()
        """The kinds of the entries that are no step."""

    def document(self, name: str) -> Object:
        """Return the whole trajectory, without its remainder."""
        now = settings(self._entries)
        copied = now.parent.position if now.is_fork and now.parent else 0
        for entry in self._entries:
            before = {lane: len(lane.steps) for lane in self.lanes.values()}
            if not self._take(entry):
                self.unseen[entry.event.kind] += 1
            if entry.position <= copied:
                for lane, length in before.items():
                    for step in lane.steps[length:]:
                        step["is_copied_context"] = True
        if not self._main.steps:
            self._main.add(self._entries[0], "system", "")
        others = [lane for lane in self.lanes.values() if lane is not self._main and lane.steps]
        report = self._completeness()
        found: Object = {
            "schema_version": VERSION,
            "session_id": name,
            "trajectory_id": name,
            **self._main.document(),
            "notes": _in_words(report),
            "extra": {"completeness": report},
        }
        if others:
            embedded = [
                {
                    "schema_version": VERSION,
                    "session_id": name,
                    "trajectory_id": lane.trajectory,
                    **lane.document(),
                }
                for lane in others
            ]
            found[EMBEDDED] = embedded
        return found

    def _take(self, entry: Entry) -> bool:
        """Add an entry's step; return whether it has one."""
        match entry.event:
            case ModeSwitch() as switch:
                return self._add_prompt(entry, switch)
            case UserMessage(in_context=True) as said if said.parts:
                self._add_message(entry, said)
            case AssistantMessage() | LlmError() as said:
                self._add_answer(entry, said)
            case ToolResult() as result:
                self._add_result(entry, result)
            case _:
                return False
        return True

    def _lane(self, addresses: Iterable[str]) -> LaneTrajectory:
        return next((self.lanes[each] for each in addresses if each in self.lanes), self._main)

    def _add_prompt(self, entry: Entry, switch: ModeSwitch) -> bool:
        shown = False
        self._main.version = as_str(as_dict(switch.meta.get(SYSTEM)).get("version")) or self._main.version
        for lane in self.lanes.values():
            card = switch.cards.get(lane.id.agent)
            if card is not None:
                if card.persona and card.persona != lane.card.persona:
                    lane.add(entry, "system", card.persona)
                    shown = True
                lane.card = card
        return shown

    def _add_message(self, entry: Entry, said: UserMessage) -> None:
        lane = self._lane(said.to)
        source = "system" if said.author_kind == "system" else "user"
        named = {"author": said.author} if said.author else {}
        lane.add(entry, source, self._content(said.parts), extra=named)
        if said.author_kind == "agent" and said.cause is not None and lane is not self._main:
            self._briefs[said.cause, self._given[said.cause]] = lane
            self._given[said.cause] += 1

    def _add_answer(self, entry: Entry, said: AssistantMessage | LlmError) -> None:
        lane = self._lane([LaneId(said.agent, said.task).address])
        words = [part for part in said.parts if not isinstance(part, ReasoningPart | ToolCall)]
        extra: Object = {}
        if isinstance(said, LlmError):
            extra["error"] = {"category": said.category, "message": said.message}
        elif said.purpose != "answer":
            extra["purpose"] = said.purpose
        step = lane.add(
            entry,
            "agent",
            self._content(words),
            model_name=said.model,
            reasoning_content="\n\n".join(
                part.text for part in said.parts if isinstance(part, ReasoningPart) and part.text
            ),
            tool_calls=[_call(call) for call in said.tool_calls],
            metrics=_metrics(said.usage) if said.usage else None,
            extra=extra,
        )
        if said.usage or said.receipt or said.model:
            step.setdefault("llm_call_count", 1)
        if said.usage:
            counted = (said.usage.input, said.usage.output, said.usage.cache_read)
            lane.totals.update(dict(zip(COUNTS, counted, strict=True)))
            lane.totals.update({"cost": said.usage.cost} if said.usage.cost is not None else {})
        self._positions[entry.id] = entry.position
        for nth, call in enumerate(said.tool_calls):
            self._calls[entry.id, nth] = step
            self._open.setdefault(call.id, []).append((entry.id, nth))

    def _add_result(self, entry: Entry, result: ToolResult) -> None:
        open = self._open.get(result.call_id, [])
        key = (result.call.entry, result.call.index) if result.call else open[-1] if open else ("", 0)
        if key in open:
            open.remove(key)
        found: Object = {"content": self._content(result.parts)}
        step = self._calls.get(key)
        if step is not None:
            found = {"source_call_id": step["tool_calls"][key[1]]["tool_call_id"], **found}
            if (begun := self._briefs.get((self._positions[key[0]], key[1]))) is not None:
                found[REFERENCES] = [{"trajectory_id": begun.trajectory}]
        else:
            step = self._lane(result.to).add(entry, "system", "")
        if result.is_error:
            found["extra"] = {"is_error": True}
        step.setdefault("observation", {"results": []})["results"].append(found)

    def _content(self, parts: Sequence[Part]) -> Any:
        """Return parts as a text, or as texts and pictures."""
        found = [self._part(part) for part in parts]
        if not found:
            return ""
        return found[0]["text"] if len(found) == 1 and "text" in found[0] else found

    def _part(self, part: Part) -> Object:
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                return {"type": "text", "text": text}
            case ImagePart(media_type=media) if media in PICTURES and (part.url or part.blob in self._blobs):
                shown: Any = openai_content([part], self._blobs)
                return {
                    "type": "image",
                    "source": {"media_type": media, "path": shown[0]["image_url"]["url"]},
                }
            case _:
                self.unseen[f"{part.type} part"] += 1
                return {"type": "text", "text": f"[{part.type}: not in this format]"}

    @cached_property
    def _model_calls(self) -> list[Entry]:
        """The answers and errors of models."""
        return [one for one in self._entries if isinstance(one.event, AssistantMessage | LlmError)]

    def _completeness(self) -> Object:
        """Return what the document shows, and how far the log knows what models were sent."""
        grades: Counter[str] = Counter()
        for proof in proofs(self._entries, blobs=self._blobs):
            if proof.outcome == "same":
                grades["proven" if proof.grade in (None, "derived") else "attributed"] += 1
        grades["unknown"] = len(self._model_calls) - sum(grades.values())
        asked = {getattr(entry.event, "agent", "") for entry in self._model_calls}
        cards = {lane.id.agent: lane.card for lane in self.lanes.values() if lane.id.agent in asked}
        lacking = [f"the system prompt of {name}" for name, card in cards.items() if not card.persona]
        lacking += [f"the tools of {name}" for name, card in cards.items() if card.tools is None]
        return {
            "entries": len(self._entries),
            "without_a_step": dict(sorted(self.unseen.items())),
            "requests": {name: grades[name] for name in ("proven", "attributed", "unknown")},
            "not_in_the_log": lacking if grades["unknown"] else [],
        }


def _in_words(report: Object) -> str:
    counts = ", ".join(f"{number} {grade}" for grade, number in report["requests"].items())
    lacking = "; ".join(report["not_in_the_log"])
    return f"Exported by stenolog from {report['entries']} entries. What the model was sent: {counts}." + (
        f" Not in the log: {lacking}." if lacking else ""
    )


def _call(call: ToolCall) -> Object:
    made: Object = {
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": tool_function(call)["arguments"],
    }
    return made


def _metrics(usage: Usage) -> Object:
    made: Object = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
    }
    if usage.cost is not None:
        made["cost_usd"] = usage.cost / MILLION
    more = {"cache_write_tokens": usage.cache_write, "reasoning_tokens": usage.reasoning}
    if extra := {name: tokens for name, tokens in more.items() if tokens}:
        made["extra"] = extra
    return made


TO_ATIF = Exporter.of_document("atif", "an ATIF trajectory", document)
