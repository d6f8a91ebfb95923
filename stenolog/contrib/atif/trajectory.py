"""ATIF trajectories: one document, a list, or one on each line.

An agent's step holds its answer and what came of it. Sub-agents with a trajectory in the document become
lanes before the result that refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO, TypeAlias

from stenolog import importers
from stenolog.events import AuthorKind, Usage
from stenolog.importers import Blobs, Json, Record, as_dict, as_list, as_str, as_time, compact_json
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart, TextPart, ToolCall, UserPart

SYSTEM = "atif"
USER = "user"
REFERENCES = "subagent_trajectory_ref"
EMBEDDED = "subagent_trajectories"
BESIDE = ("notes", "final_metrics", "continued_trajectory_ref", "extra")
"""Fields of a trajectory beside its steps, for `meta`."""
STEP = frozenset(
    (
        "step_id",
        "timestamp",
        "source",
        "model_name",
        "message",
        "reasoning_content",
        "tool_calls",
        "observation",
        "metrics",
    )
)
"""Fields of a step that the events hold; all others are `meta`."""
RESULT = ("source_call_id", "content")
COUNTED = frozenset(("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"))
Calls: TypeAlias = Mapping[str, str]
"""The names of the tools, by the ids of their calls."""


class Lane:
    """An agent: its name, trajectory and prefix of step ids."""

    def __init__(self, agent: str, trajectory: dict[str, Any], prefix: str = "", parent: str = "") -> None:
        self.agent = agent
        self.about = as_dict(trajectory.get("agent"))
        self.steps = [as_dict(step) for step in as_list(trajectory.get("steps"))]
        self.prefix = prefix
        self.parent = parent
        self.has_prompt = False
        """True once its system prompt, or its first message, was read."""
        self.is_briefed = not parent
        self.cause: int | None = None

    def key(self, number: int, step: Mapping[str, Json]) -> str:
        """Return the id of a step."""
        id = step.get("step_id")
        is_id = isinstance(id, int) and not isinstance(id, bool)
        # The sign has the writer compare the words where another trajectory has the same name.
        return f"#{self.prefix}{id if is_id else f'{number}.'}"


class Trajectory(importers.SessionConverter):
    """Converter of an ATIF trajectory."""

    system = SYSTEM

    def __init__(self, log: importers.ExistingLog, trajectory: dict[str, Any]) -> None:
        about = as_dict(trajectory.get("agent"))
        self._main = Lane(importers.agent_called(as_str(about.get("name"))), trajectory)
        self.main = self._main.agent
        super().__init__(log)
        self._document = trajectory
        self._keys: set[str] = set()
        self._embedded = _embedded_in(trajectory)
        self._written: list[dict[str, Any]] = []
        """The trajectories of sub-agents that were written."""
        self._deal(self._main)
        self.setup.also(SYSTEM, _facts(trajectory))

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a step of the main agent. Raises `DuplicateIdError` for another trajectory."""
        was_begun = self.setup.is_begun
        self._step(self._main, record.number, record.value)
        if self.setup.is_begun and not was_begun:
            self.check_beginning("trajectory")
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the remaining steps: unreferenced sub-agents, and facts about the run."""
        for trajectory in map(as_dict, as_list(self._document.get(EMBEDDED))):
            self._sub_agent(trajectory, self._main, None)
        self.write_facts({name: self._document[name] for name in BESIDE if self._document.get(name)}, "about")
        return self.writer.drain()

    def _deal(self, lane: Lane) -> None:
        tools = [importers.read_tool(tool) for tool in as_list(lane.about.get("tool_definitions"))]
        by_name = {tool.name: tool for tool in tools if tool.name}
        self.setup.card(
            lane.agent, model=as_str(lane.about.get("model_name")), tools=tuple(by_name.values()) or None
        )

    def _step(self, lane: Lane, number: int, step: dict[str, Any]) -> None:
        key = lane.key(number, step)
        if key in self._keys:
            self.ignored["repeated step"] += 1
            return
        self._keys.add(key)
        self.time = as_time(step.get("timestamp"), self.time)
        match as_str(step.get("source")):
            case "agent":
                self._answer(lane, key, step)
            case "system" if not lane.has_prompt and isinstance(step.get("message"), str):
                self.setup.card(lane.agent, persona=step["message"])
                self._results(lane, key, step, {})
            case source:
                kind: AuthorKind = "person" if source == USER else "system"
                self._message(lane, key, step.get("message"), kind, _other_fields(step))
                self._results(lane, key, step, {})
        lane.has_prompt = True

    def _message(self, lane: Lane, key: str, content: Json, kind: AuthorKind, meta: dict[str, Any]) -> None:
        blobs: Blobs = {}
        is_brief = kind == "person" and not lane.is_briefed
        lane.is_briefed = lane.is_briefed or is_brief
        self.write_user(
            key,
            [*_parts(content, blobs)],
            "agent" if is_brief else kind,
            agent="" if lane is self._main else lane.agent,
            role=USER if kind == "person" else "system",
            blobs=blobs,
            author=lane.parent if is_brief else "",
            cause=lane.cause if is_brief else None,
            meta=meta,
        )

    def _answer(self, lane: Lane, key: str, step: dict[str, Any]) -> None:
        model = as_str(step.get("model_name")) or as_str(lane.about.get("model_name"))
        parts = list(_answer_parts(key, step))
        calls = {part.id: part.name for part in parts if isinstance(part, ToolCall)}
        if not parts and not as_dict(step.get("observation")):
            self.ignored["step without words"] += 1
            return
        position = None
        if parts:
            if model:
                self.setup.card(lane.agent, model=model)
            usage, meta = self._usage(as_dict(step.get("metrics"))), _other_fields(step)
            if step.get("is_copied_context") is True:  # its trajectory has counted it
                usage = None
                self.decisions["copied context, not counted again"] += 1
            position = self.write_whole(key, parts, agent=lane.agent, model=model, usage=usage, meta=meta)
        self._results(lane, key, step, calls, position)

    def _usage(self, metrics: dict[str, Any]) -> Usage | None:
        self.ignored.update(f"metrics.{name}" for name in metrics if name not in COUNTED)
        counted = {**as_dict(metrics.get("extra")), **metrics}
        cached = {"cache_read_tokens": metrics.get("cached_tokens")}
        return importers.litellm_usage({**counted, **cached}, metrics.get("cost_usd"))

    def _results(
        self, lane: Lane, key: str, step: dict[str, Any], calls: Calls, position: int | None = None
    ) -> None:
        results = [as_dict(result) for result in as_list(as_dict(step.get("observation")).get("results"))]
        ids = [as_str(result.get("source_call_id")) for result in results]
        if not any(ids) and len(ids) == len(calls):
            ids = [*calls]
        for number, (id, result) in enumerate(zip(ids, results, strict=True), 1):
            for reference in map(as_dict, as_list(result.get(REFERENCES))):
                self._delegated(lane, reference, position)
            self._result(lane, f"{key}:{number}", id, calls.get(id, ""), result)

    def _result(self, lane: Lane, key: str, id: str, name: str, result: dict[str, Any]) -> None:
        blobs: Blobs = {}
        content, references = result.get("content"), as_list(result.get(REFERENCES))
        others = {name: value for name, value in result.items() if name not in RESULT and value}
        meta: dict[str, Any] = {SYSTEM: others} if others else {}
        if content is None:
            content = compact_json(references) if references else ""
        if not id:
            self._message(lane, key, content, "system", meta)
            return
        parts = [*_parts(content, blobs)]
        self.write_result(key, id, parts, agent=lane.agent, name=name, blobs=blobs, meta=meta)

    def _delegated(self, lane: Lane, reference: dict[str, Any], position: int | None) -> None:
        ids = (as_str(reference.get(name)) for name in ("trajectory_id", "session_id"))
        found = next((self._embedded[id] for id in ids if id in self._embedded), None)
        if found is not None:
            self._sub_agent(found, lane, position)
        elif as_str(reference.get("trajectory_path")):
            self.ignored["missing: trajectory of a sub-agent"] += 1

    def _sub_agent(self, trajectory: dict[str, Any], parent: Lane, cause: int | None) -> None:
        if any(each is trajectory for each in self._written):
            return
        self._written.append(trajectory)
        id = as_str(trajectory.get("trajectory_id")) or as_str(trajectory.get("session_id"))
        id = id or str(len(self._written))
        name = as_str(as_dict(trajectory.get("agent")).get("name")) or "sub-agent"
        agent = importers.agent_called(f"{name}-{id[-12:]}")
        while agent in self.setup.cards:
            agent = f"{agent}-{len(self._written)}"
        lane = Lane(agent, trajectory, f"{id[:80]}/", parent.agent)
        lane.cause = cause
        self._embedded |= _embedded_in(trajectory)
        self._deal(lane)
        for number, step in enumerate(lane.steps, 1):
            self._step(lane, number, step)
        for inner in map(as_dict, as_list(trajectory.get(EMBEDDED))):
            self._sub_agent(inner, lane, None)


def _facts(trajectory: Mapping[str, Json]) -> dict[str, Any]:
    about = as_dict(trajectory.get("agent"))
    facts = {
        "schema_version": as_str(trajectory.get("schema_version")),
        "session_id": as_str(trajectory.get("session_id")),
        "version": as_str(about.get("version")),
        "agent": as_dict(about.get("extra")),
    }
    return {name: value for name, value in facts.items() if value}


def _embedded_in(trajectory: Mapping[str, Json]) -> dict[str, dict[str, Any]]:
    return {
        id: each
        for each in map(as_dict, as_list(trajectory.get(EMBEDDED)))
        for name in ("session_id", "trajectory_id")
        if (id := as_str(each.get(name)))
    }


def _other_fields(step: Mapping[str, Json]) -> dict[str, Any]:
    others = {name: value for name, value in step.items() if name not in STEP and value not in (None, {}, [])}
    return {SYSTEM: others} if others else {}


def _answer_parts(key: str, step: Mapping[str, Json]) -> Iterator[AssistantPart]:
    if reasoning := as_str(step.get("reasoning_content")):
        yield ReasoningPart(text=reasoning)
    for part in _parts(step.get("message"), {}):
        if isinstance(part, TextPart):
            if part.text.strip():
                yield part
        elif isinstance(part, ProviderPart):
            yield part
        else:
            yield ProviderPart(provider=SYSTEM, raw=compact_json(step["message"]))
    calls = [
        {"id": call.get("tool_call_id"), "function": {**call, "name": call.get("function_name")}}
        for call in map(as_dict, as_list(step.get("tool_calls")))
    ]
    yield from importers.openai_calls({"tool_calls": calls}, key)


def _parts(content: Json, blobs: Blobs) -> Iterator[UserPart]:
    if isinstance(content, str):
        yield TextPart(text=content)
        return
    for part in content if isinstance(content, list) else [content]:
        fields = as_dict(part)
        path = as_str(as_dict(fields.get("source")).get("path"))
        if fields.get("type") == "image" and path.startswith(("http:", "https:", "data:")):
            yield from importers.openai_user_parts([{"type": "image_url", "image_url": {"url": path}}], blobs)
        elif fields.get("type") == "image":  # a file beside the trajectory, or at another place
            yield ProviderPart(provider=SYSTEM, raw=compact_json(part))
        elif part is not None:
            yield from importers.openai_user_parts([part], blobs)


PREFIX = "ATIF"


def is_trajectory(value: Json) -> bool:
    """Return whether a value is a trajectory: its version names the format, and it lists steps."""
    found = as_dict(value)
    return as_str(found.get("schema_version")).startswith(PREFIX) and isinstance(found.get("steps"), list)


def is_document(document: Json) -> bool:
    """Return whether a document is a trajectory, or a list of them."""
    return is_trajectory(document) or any(map(is_trajectory, as_list(document)[:1]))


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each trajectory in a file."""
    for place, found in reading.items(stream):
        if is_trajectory(found):
            extra = as_dict(found.get("extra"))
            yield importers.restored(found, extra, conversation_of(found))
        else:
            reading.skip(place, "an ATIF trajectory", found)


def conversation_of(trajectory: dict[str, Any]) -> importers.SourceConversation:
    """Return a trajectory's conversation, named by its id, else its session's."""
    name = as_str(trajectory.get("trajectory_id")) or as_str(trajectory.get("session_id"))
    continuation = as_dict(as_dict(trajectory.get("agent")).get("extra")).get("continuation_index")
    if name and isinstance(continuation, int) and not isinstance(continuation, bool):
        name = f"{name}-{continuation}"  # all continuations of a session have its id
    records = [
        Record(str(number), step if isinstance(step, dict) else {"message": step})
        for number, step in enumerate(trajectory["steps"], 1)
    ]
    return importers.SourceConversation(
        name, records, partial(Trajectory, trajectory=trajectory), unit="step"
    )


ATIF = importers.Importer("atif", read=read, is_document=is_document, is_record=is_trajectory)
