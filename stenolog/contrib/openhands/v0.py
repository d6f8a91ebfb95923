"""Events of OpenHands V0: actions, and observations that answer them.

Each action holds the model's whole response, so all its calls are written with the first action. A delegate's
events come between its call and the call's observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog import importers
from stenolog.importers import Blobs, Json, as_dict, as_int, as_list, as_str, compact_json
from stenolog.parts import AssistantPart, TextPart, ToolCall, UserPart

from .session import USER, Meter, OpenHandsSession, picture_parts, tools_in

SILENT = frozenset(
    (
        "recall",
        "change_agent_state",
        "null",
        "condensation_request",
        "loop_recovery",
        "pause",
        "resume",
        "stop",
    )
)
"""Actions that no model is sent."""
CLOSING = frozenset(("finish", "reject", "think"))
"""Actions that are only words, if the model made no call of them."""
NO_ARGUMENTS = frozenset(
    ("thought", "confirmation_state", "security_risk", "hidden", "blocking", "is_static")
)
"""Fields of an action that are OpenHands' own, and no argument of the model's call."""
FAILED = frozenset(("error", "user_rejected"))
UNSENT = frozenset(("null", "loop_detection", "agent_state_changed"))
"""Observations that no model is sent."""


class V0Events:
    """Writer of V0 events into a session."""

    def __init__(self, session: OpenHandsSession) -> None:
        self._session = session
        self._meter = Meter()
        self._responses: set[str] = set()
        self._calls: dict[Json, str] = {}
        """The ids of the calls, by the id of the action's event."""
        self._commands: set[Json] = set()
        """The ids of the actions that a person took."""
        self._delegations: list[tuple[str, str]] = []
        """The agents that wait for a delegate, each with the event of its call."""
        self._is_brief_due = False

    def take(self, key: str, value: dict[str, Any]) -> None:
        """Write an event."""
        if metrics := as_dict(value.get("llm_metrics")):
            self._meter.note([metrics])
        if action := as_str(value.get("action")):
            self._action(key, action, value, as_dict(value.get("args")))
        elif observation := as_str(value.get("observation")):
            self._observation(key, observation, value, as_dict(value.get("extras")))
        else:
            self._session.ignored["event"] += 1

    def _action(self, key: str, kind: str, value: dict[str, Any], args: dict[str, Any]) -> None:
        by_user = value.get("source") == USER
        if kind == "system":
            self._system(args)
        elif kind in ("message", "start"):
            self._message(key, value, args)
        elif kind == "condensation":
            self._condense(key, args)
        elif kind in SILENT or (by_user and kind == "finish"):
            self._session.ignored[f"action {kind}"] += 1
        elif by_user and not value.get("tool_call_metadata"):
            self._commands.add(_hashable(value.get("id")))
            text = as_str(args.get("command")) or compact_json(_arguments(args))
            parts = [TextPart(text=f"User executed the command:\n{text}")]
            self._session.add_user_message(key, parts)
        else:
            self._call(key, kind, value, args)

    def _system(self, args: dict[str, Any]) -> None:
        agent_class, version = (as_str(args.get(name)) for name in ("agent_class", "openhands_version"))
        self._session.describe({"agent_class": agent_class, "version": version})
        self._session.setup.card(
            self._session.agent, persona=as_str(args.get("content")), tools=tools_in(args.get("tools"))
        )

    def _message(self, key: str, value: dict[str, Any], args: dict[str, Any]) -> None:
        content = args.get("content", args.get("task"))
        text = _text(content)
        if value.get("source", USER) == "agent":
            parts = importers.litellm_answer({**args, "content": text}, key)
            if parts:
                counted, cost = self._meter.since()
                self._session.add_answer(key, parts, usage=importers.litellm_usage(counted, cost))
            else:
                self._session.ignored["message without words"] += 1
            return
        blobs: Blobs = {}
        files = [url for url in as_list(args.get("file_urls")) if isinstance(url, str)]
        pictures = picture_parts(as_list(args.get("image_urls")), blobs)
        parent, call = self._delegations[-1] if self._delegations and self._is_brief_due else ("", "")
        self._is_brief_due = False
        self._session.close()
        self._session.add_user_message(
            key,
            [TextPart(text=text), *pictures],
            "agent" if parent else "person" if value.get("source", USER) == USER else "system",
            author=parent,
            cause=next(iter(self._session.positions.get(call, ())), None),
            blobs=blobs,
            meta={"file_urls": files} if files else None,
        )

    def _call(self, key: str, kind: str, value: dict[str, Any], args: dict[str, Any]) -> None:
        """Write the answer that an action came from, unless already written."""
        metadata = as_dict(value.get("tool_call_metadata"))
        response = as_dict(metadata.get("model_response"))
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        id, model = as_str(response.get("id")), as_str(response.get("model"))
        parts = list(self._parts(key, kind, value, args, as_dict(choice.get("message"))))
        if not (id and id in self._responses) and parts:
            counted, cost = self._meter.since()
            usage = importers.litellm_usage(response.get("usage") or counted, cost)
            finish_reason = as_str(choice.get("finish_reason"))
            self._session.add_answer(key, parts, id, model=model, finish_reason=finish_reason, usage=usage)
        self._responses.add(id)
        if kind == "delegate":
            self._begin_delegate(key, args)

    def _parts(
        self, key: str, kind: str, value: dict[str, Any], args: dict[str, Any], message: dict[str, Any]
    ) -> Iterator[AssistantPart]:
        """Yield the response's parts, or the action's if the response is missing."""
        said = importers.litellm_answer(message or {"content": args.get("thought")}, key)
        calls = [part for part in said if isinstance(part, ToolCall)]
        yield from (part for part in said if not isinstance(part, ToolCall))
        metadata = as_dict(value.get("tool_call_metadata"))
        id = as_str(metadata.get("tool_call_id"))
        if not metadata and kind in CLOSING:
            final = as_str(args.get("final_thought")) or args.get("outputs") or ""
            yield from importers.litellm_answer({"content": _text(final)}, key)
        elif id not in {call.id for call in calls} or not id:
            id = id or f"call-{key}"
            name = as_str(metadata.get("function_name")) or as_str(args.get("name")) or kind
            calls.append(ToolCall(id=id, name=name, arguments=compact_json(_arguments(args))))
        self._calls[_hashable(value.get("id"))] = id
        yield from calls

    def _begin_delegate(self, key: str, args: dict[str, Any]) -> None:
        session = self._session
        session.close()
        self._delegations.append((session.agent, key))
        self._is_brief_due = True
        session.agent = importers.agent_called(f"{as_str(args.get('agent')) or 'delegate'}-{key}")
        session.setup.card(session.agent)

    def _condense(self, key: str, args: dict[str, Any]) -> None:
        listed = args.get("forgotten_event_ids")
        if listed is None:
            first, last = (as_int(args.get(f"forgotten_events_{end}_id")) for end in ("start", "end"))
            listed = [
                n for n in map(_number, self._session.positions) if n is not None and first <= n <= last
            ]
        ids = [event_key(id) for id in as_list(listed)]
        self._session.condense(key, ids, as_str(args.get("summary")), supersedes=True)

    def _observation(self, key: str, kind: str, value: dict[str, Any], extras: dict[str, Any]) -> None:
        session = self._session
        if kind == "delegate" and self._delegations:
            session.close()
            session.agent, _ = self._delegations.pop()
            self._is_brief_due = False
        content, state = value.get("content"), as_str(extras.get("agent_state"))
        text = _text(content)
        metadata = as_dict(value.get("tool_call_metadata"))
        call_id = as_str(metadata.get("tool_call_id")) or self._calls.get(_hashable(value.get("cause")), "")
        if state in ("error", "rate_limited"):
            reason = as_str(extras.get("reason")) or text
            session.add_error(
                key, reason, "rate_limited" if state != "error" else importers.error_category(reason)
            )
        elif kind in UNSENT:
            session.ignored[f"observation {kind}"] += 1
        elif kind == "recall":
            self._recall(key, text, extras)
        elif call_id:
            self._result(key, kind, value, extras, call_id)
        elif kind == "error" and _hashable(value.get("cause")) not in self._commands:
            category = importers.error_category(text)
            session.add_error(key, text, "invalid_response" if category == "other" else category)
        else:
            blobs: Blobs = {}
            session.add_user_message(key, _output(text, extras, blobs), "system", blobs=blobs)

    def _result(
        self, key: str, kind: str, value: dict[str, Any], extras: dict[str, Any], call_id: str
    ) -> None:
        content, about = value.get("content"), as_dict(extras.get("metadata"))
        text = _text(content)
        if kind == "delegate" and not text:
            text = compact_json(extras.get("outputs"))
        self._session.describe({"cwd": as_str(about.get("working_dir"))})
        exit_code = about.get("exit_code")
        blobs: Blobs = {}
        self._session.add_result(
            key,
            call_id,
            as_str(as_dict(value.get("tool_call_metadata")).get("function_name")),
            _output(text, extras, blobs),
            is_error=kind in FAILED or value.get("success") is False,
            blobs=blobs,
            meta={"exit_code": exit_code} if isinstance(exit_code, int) else None,
        )

    def _recall(self, key: str, text: str, extras: dict[str, Any]) -> None:
        """Write what OpenHands added to the context: facts on the workspace, and instructions."""
        self._session.describe(
            {
                "cwd": as_str(extras.get("working_dir")) or as_str(extras.get("repo_directory")),
                "branch": as_str(extras.get("repo_branch")),
                "repository": as_str(extras.get("repo_name")),
            }
        )
        found = {
            name: fact
            for name, fact in extras.items()
            if fact and name not in ("recall_type", "microagent_knowledge", "date")
        }
        knowledge = [as_dict(each) for each in as_list(extras.get("microagent_knowledge"))]
        if not found and not knowledge:
            self._session.ignored["observation recall"] += 1
            return
        found |= {"date": extras["date"]} if extras.get("date") else {}
        facts = [f"{name}: {_text(v)}" for name, v in found.items()]
        skills = [f"{as_str(each.get('name'))}:\n{as_str(each.get('content'))}" for each in knowledge]
        parts = [TextPart(text="\n".join([text, *facts])), *(TextPart(text=skill) for skill in skills)]
        self._session.add_user_message(key, parts, "system")


def event_key(id: Json) -> str:
    """Return an event's key by its number; empty if invalid."""
    return f"event-{id}" if isinstance(id, int) and not isinstance(id, bool) else ""


def _number(key: str) -> int | None:
    digits = key.removeprefix("event-")
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _hashable(id: Json) -> Json:
    return id if isinstance(id, int | str) else None


def _arguments(args: dict[str, Any]) -> dict[str, Any]:
    inner = args.get("arguments")
    if isinstance(inner, dict):  # a call of an MCP server
        return inner
    return {name: value for name, value in args.items() if name not in NO_ARGUMENTS}


def _output(text: str, extras: dict[str, Any], blobs: Blobs) -> Iterator[UserPart]:
    """Yield an observation as sent to the model, with the words around a command's output."""
    about = as_dict(extras.get("metadata"))
    yield TextPart(text=f"{as_str(about.get('prefix'))}{text}{as_str(about.get('suffix'))}")
    yield from picture_parts(as_list(extras.get("image_urls")), blobs)
