"""Convert trajectories of mini-SWE-agent to events: OpenAI messages, with facts on each in `extra`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stenolog.importers import (
    ExistingLog,
    Json,
    Record,
    Step,
    as_dict,
    as_list,
    as_str,
    as_time,
    litellm_answer,
    litellm_usage,
    openai_item_parts,
)
from stenolog.parts import AssistantPart, TextPart

from .run import AgentRun

MAIN = "mini-swe-agent"
SUBMITTED = "submitted"
BY_USER = frozenset(("UserInterruption", "UserRejection", "UserInterruptionError"))
"""The kinds of interrupts in which a person speaks."""
REPEATED = frozenset(("response", "actions", "timestamp", "raw_output", "cost"))
"""Fields of `extra` that repeat what is in the message, or that the event holds."""
OWN = frozenset(
    (
        "role",
        "content",
        "extra",
        "tool_calls",
        "function_call",
        "reasoning_content",
        "thinking_blocks",
        "tool_call_id",
        "call_id",
        "output",
        "object",
        "type",
        "usage",
        "model",
        "name",
        "tools",
        "refusal",
        "provider_specific_fields",
    )
)
"""Fields of a message that the events hold, or that a provider's answer has beside its words."""


class MiniSweAgent(AgentRun):
    """Takes the messages of one trajectory and gives the steps that write it to the log."""

    def __init__(
        self, log: ExistingLog, about: Mapping[str, Any], model: str, info: Mapping[str, Json]
    ) -> None:
        super().__init__(log, MAIN, about, model)
        self._info = info
        self._has_prompt = False
        self._has_task = False
        self._has_exit = False

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a message."""
        message, key = record.value, f"#{record.line}"
        extra = as_dict(message.get("extra"))
        self.time = as_time(extra.get("timestamp"), self.time)
        role, content = as_str(message.get("role")), message.get("content")
        if message.get("object") == "response" or role == "assistant":
            self._answer(key, message, extra)
        elif message.get("type") == "function_call_output" or role == "tool":
            self._result(key, message, extra)
        elif role == "system" and isinstance(content, str) and not self._has_prompt:
            self.setup.card(MAIN, persona=content)
        elif role in ("system", "user"):
            self._user(key, role, content, extra)
        elif role == "exit":
            self._exit(key, content, extra)
        else:
            self.ignored[f"role {role}" if role else "message without a role"] += 1
        self._has_prompt = True
        return self.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end: how the run ended, where no message tells it."""
        status = as_str(self._info.get("exit_status"))
        if status and status.casefold() != SUBMITTED and not self._has_exit and self.positions:
            self.add_failure("exit", status)
        self.write_facts({name: value for name, value in self._info.items() if name != "config"})
        return self.writer.drain()

    def _answer(self, key: str, message: dict[str, Any], extra: dict[str, Any]) -> None:
        response = as_dict(extra.get("response")) or message
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        is_responses = message.get("object") == "response"
        parts = _items(key, message) if is_responses else litellm_answer(message, key)
        self.add_answer(
            key,
            MAIN,
            list(parts),
            model=as_str(response.get("model")),
            usage=litellm_usage(response.get("usage"), extra.get("cost")),
            finish_reason=as_str(choice.get("finish_reason"))
            or (as_str(message.get("status")) if is_responses else ""),
            meta=_facts(message if not is_responses else {}, extra),
        )

    def _result(self, key: str, message: dict[str, Any], extra: dict[str, Any]) -> None:
        id = as_str(message.get("tool_call_id")) or as_str(message.get("call_id"))
        content = message.get("content", message.get("output"))
        meta = _facts(message, extra)
        failed = extra.get("returncode") not in (None, 0) or bool(extra.get("exception_info"))
        if id:
            self.add_result(
                key, MAIN, id, content, name=as_str(message.get("name")), is_error=failed, meta=meta
            )
        else:
            self.add_user_message(key, MAIN, content, "system", meta=meta)

    def _user(self, key: str, role: str, content: Json, extra: dict[str, Any]) -> None:
        is_task = role == "user" and not self._has_task
        self._has_task = self._has_task or is_task
        is_person = is_task or as_str(extra.get("interrupt_type")) in BY_USER
        if is_end := "exit_status" in extra:  # the first releases ended a run with a message of the user
            self._has_exit = True
        self.add_user_message(
            key,
            MAIN,
            content,
            "person" if is_person else "system",
            meta=_facts({}, extra),
            in_context=not is_end,
        )

    def _exit(self, key: str, content: Json, extra: dict[str, Any]) -> None:
        """Write how the run ended: with a failure, or with a result, which no model is sent."""
        self._has_exit = True
        status = as_str(extra.get("exit_status"))
        if status and status.casefold() != SUBMITTED:
            self.add_failure(key, status, as_str(content))
        else:
            text = content or extra.get("submission") or status
            self.add_user_message(key, MAIN, text, "system", meta=_facts({}, extra), in_context=False)


def _items(key: str, message: Mapping[str, Json]) -> Iterator[AssistantPart]:
    """Yield the parts of an answer of Responses."""
    for number, item in enumerate(map(as_dict, as_list(message.get("output")))):
        for part in openai_item_parts(item, "", f"{key}-{number}"):
            if not isinstance(part, TextPart) or part.text.strip():
                yield part


def _facts(message: Mapping[str, Json], extra: Mapping[str, Json]) -> dict[str, Any]:
    """Return what a message says beside its words."""
    beside = {name: value for name, value in message.items() if name not in OWN}
    found = {**beside, **{name: value for name, value in extra.items() if name not in REPEATED}}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}
