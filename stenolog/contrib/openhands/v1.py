"""Events of OpenHands V1, the software agent SDK: each names its kind and predecessor.

Parallel calls are several events with one `llm_response_id`; they become one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog import importers
from stenolog.importers import Blobs, Json, as_dict, as_list, as_str, compact_json
from stenolog.parts import TextPart, ToolCall, UserPart

from .session import MAIN, USER, Meter, OpenHandsSession, texts, tools_in, user_parts

ROOT = "__root__"
"""The parent of an event that begins anew, without any event before it."""
FINISHED = ("completed", "failed")
SUMMARY = "-summary"
"""The ending of the id by which a condensation forgets the summary of an earlier one."""


class V1Events:
    """Writer of V1 events into a session."""

    def __init__(self, session: OpenHandsSession) -> None:
        self._session = session
        self._meter = Meter()
        self._model = ""
        self._responses: set[str] = set()
        self._parents: dict[str, str] = {}
        self._last: dict[str, str] = {}
        """The last event of each agent."""
        self._briefed: set[str] = set()
        """The sub-agents that have their first message."""
        self._actions: list[tuple[str, str]] = []
        """The events of all calls, with the arguments."""

    def take(self, key: str, value: dict[str, Any]) -> None:
        """Write an event."""
        self._follow(key, value)
        match as_str(value.get("kind")):
            case "SystemPromptEvent":
                self._system(value)
            case "MessageEvent":
                self._message(key, value, as_dict(value.get("llm_message")))
            case "ActionEvent":
                self._action(key, value)
            case "ObservationEvent":
                self._observation(key, value, as_dict(value.get("observation")))
            case "UserRejectObservation":
                self._refused(key, value, as_str(value.get("rejection_reason")))
            case "AgentErrorEvent":
                self._refused(key, value, as_str(value.get("error")))
            case "ConversationErrorEvent":
                text = ": ".join(filter(None, (as_str(value.get("code")), as_str(value.get("detail")))))
                self._session.add_error(key, text, importers.error_category(text))
            case "InterruptEvent":
                self._session.add_error(key, "interrupted by the user", "cancelled")
            case "Condensation":
                ids = [
                    importers.key_of(id)
                    for id in as_list(value.get("forgotten_event_ids"))
                    if isinstance(id, str)
                ]
                ids += [id.removesuffix(SUMMARY) for id in ids if id.endswith(SUMMARY)]
                self._session.condense(key, ids, as_str(value.get("summary")))
            case "ConversationStateUpdateEvent":
                self._state(as_str(value.get("key")), value.get("value"))
            case "ACPToolCallEvent":
                self._agent_call(key, value)
            case kind:
                self._session.ignored[kind or "event"] += 1

    def describe(self, state: dict[str, Any]) -> None:
        """Note what a state of the conversation says: its folder, its model."""
        llm, workspace = as_dict(as_dict(state.get("agent")).get("llm")), as_dict(state.get("workspace"))
        about = {"cwd": as_str(workspace.get("working_dir")), "id": as_str(state.get("id"))}
        if self._session.agent == MAIN:
            self._session.describe(about)
        if model := as_str(llm.get("model")):
            self._model = model
            self._session.setup.card(self._session.agent, model=model)

    def _follow(self, key: str, value: dict[str, Any]) -> None:
        """Leave a branch that the event is not on: the user went back."""
        agent = self._session.agent
        last, parent_id = self._last.get(agent, ""), as_str(value.get("parent_id"))
        parent = "" if parent_id == ROOT else importers.key_of(parent_id) or last
        if last and parent != last and (not parent or parent in self._parents):
            path = {key for key in self._parents if not self._is_of(agent, key)}
            at = parent
            while at and at not in path:
                path.add(at)
                at = self._parents.get(at, "")
            self._session.abandon(path)
        self._parents[key] = parent
        self._last[agent] = key

    def _is_of(self, agent: str, key: str) -> bool:
        return key.startswith(f"{agent}/") if agent != MAIN else "/" not in key

    def _system(self, value: dict[str, Any]) -> None:
        prompts = [
            as_str(as_dict(value.get(name)).get("text")) for name in ("system_prompt", "dynamic_context")
        ]
        persona = "\n\n".join(filter(None, prompts))
        self._session.setup.card(self._session.agent, persona=persona, tools=tools_in(value.get("tools")))

    def _message(self, key: str, value: dict[str, Any], message: dict[str, Any]) -> None:
        content, more = message.get("content"), as_list(value.get("extended_content"))
        source, blobs = as_str(value.get("source")), Blobs()
        if source == "agent" and message.get("role", "assistant") == "assistant":
            calls = [_call_in(call) for call in as_list(message.get("tool_calls"))]
            parts = importers.litellm_answer({**message, "tool_calls": calls}, key)
            self._answer(key, as_str(value.get("llm_response_id")), parts)
            return
        is_brief = self._session.agent != MAIN and self._session.agent not in self._briefed
        self._briefed.add(self._session.agent)
        self._session.add_user_message(
            key,
            user_parts(content, blobs),
            "agent" if is_brief else "person" if source == USER else "system",
            author=MAIN if is_brief else as_str(value.get("sender")),
            cause=self._cause(texts(content)) if is_brief else None,
            blobs=blobs,
        )
        if texts(more):
            self._session.add_user_message(
                f"{key}:context", user_parts(more, blobs), "system", event=key, blobs=blobs
            )

    def _cause(self, text: str) -> int | None:
        """Return the position of the latest call whose arguments hold these words."""
        inside = compact_json(text)[1:-1]
        for key, arguments in reversed(self._actions):
            if text.strip() and (inside in arguments or text in arguments):
                return next(iter(self._session.positions.get(key, ())), None)
        return None

    def _action(self, key: str, value: dict[str, Any]) -> None:
        id = as_str(value.get("llm_response_id"))
        call = importers.openai_tool_call(
            _call_in(value.get("tool_call")), as_str(value.get("tool_call_id")) or key
        )
        if not call.name or not call.arguments.strip():
            action = {name: each for name, each in as_dict(value.get("action")).items() if name != "kind"}
            arguments = call.arguments if call.arguments.strip() not in ("", "{}") else compact_json(action)
            call = ToolCall(id=call.id, name=call.name or as_str(value.get("tool_name")), arguments=arguments)
        self._actions.append((key, call.arguments))
        unseen = {} if id and id in self._responses else value
        self._answer(
            key, id, [*importers.litellm_answer({**unseen, "content": value.get("thought")}, key), call]
        )

    def _answer(self, key: str, id: str, parts: list[Any]) -> None:
        is_new = not (id and id in self._responses)
        self._responses.add(id)
        counted, cost = self._meter.since() if is_new else ({}, 0.0)
        if parts:
            self._session.add_answer(
                key, parts, id, model=self._model, usage=importers.litellm_usage(counted, cost)
            )
        else:
            self._session.ignored["message without words"] += 1

    def _observation(self, key: str, value: dict[str, Any], observation: dict[str, Any]) -> None:
        blobs: Blobs = {}
        exit_code = observation.get("exit_code")
        self._session.add_result(
            key,
            as_str(value.get("tool_call_id")),
            as_str(value.get("tool_name")),
            [*_output(observation, blobs), *user_parts(as_list(value.get("extended_content")), blobs)],
            is_error=observation.get("is_error") is True or observation.get("error") is True,
            blobs=blobs,
            meta={"exit_code": exit_code} if isinstance(exit_code, int) else None,
        )

    def _refused(self, key: str, value: dict[str, Any], reason: str) -> None:
        """Write the result of a call that was rejected or could not run."""
        self._session.add_result(
            key,
            as_str(value.get("tool_call_id")),
            as_str(value.get("tool_name")),
            [TextPart(text=reason)],
            is_error=True,
        )

    def _agent_call(self, key: str, value: dict[str, Any]) -> None:
        """Write another agent's own call, which is repeated as it continues."""
        id, status = as_str(value.get("tool_call_id")) or key, as_str(value.get("status"))
        if status not in FINISHED:
            self._session.ignored["ACPToolCallEvent in progress"] += 1
            return
        raw_input, output = value.get("raw_input"), value.get("raw_output")
        name = as_str(value.get("tool_kind")) or "tool"
        title = as_str(value.get("title"))
        arguments = raw_input if isinstance(raw_input, dict) else {"title": title, "input": raw_input}
        call = ToolCall(id=id, name=name, arguments=compact_json(arguments))
        self._session.add_answer(key, [call])
        self._session.add_result(
            f"{key}:result",
            id,
            name,
            [
                TextPart(
                    text=output if isinstance(output, str) else compact_json(output or value.get("content"))
                )
            ],
            is_error=status == "failed" or value.get("is_error") is True,
            event=key,
            meta={"title": title} if title else None,
        )

    def _state(self, key: str, value: Json) -> None:
        self._session.ignored["ConversationStateUpdateEvent"] += 1
        if key == "full_state":
            self.describe(as_dict(value))
        stats = as_dict(value) if key == "stats" else as_dict(as_dict(value).get("stats"))
        metrics = as_dict(stats.get("usage_to_metrics"))
        found = [as_dict(each) for name, each in metrics.items() if "condenser" not in name]
        if found:
            self._meter.note(found)
            self._model = as_str(found[0].get("model_name")) or self._model


def _call_in(call: Json) -> dict[str, Any]:
    fields = as_dict(call)
    return fields if "function" in fields or not fields else {"id": fields.get("id"), "function": fields}


def _output(observation: dict[str, Any], blobs: Blobs) -> Iterator[UserPart]:
    """Yield an observation as sent to the model, with the words around a command's output."""
    about = as_dict(observation.get("metadata"))
    content = observation.get("content")
    if content is None:
        content = observation.get("output")
    if content is None:
        content = compact_json({name: each for name, each in observation.items() if name != "kind"})
    prefix, suffix = as_str(about.get("prefix")), as_str(about.get("suffix"))
    match list(user_parts(content, blobs)) or [TextPart(text="")]:
        case [TextPart(text=text)]:
            yield TextPart(text=f"{prefix}{text}{suffix}")
        case parts:
            around = [[TextPart(text=text)] if text else [] for text in (prefix, suffix)]
            yield from (*around[0], *parts, *around[1])
