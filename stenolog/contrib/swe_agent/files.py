"""Recognise and read trajectories and demonstrations of SWE-agent, and trajectories of mini-SWE-agent."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, Record, SourceConversation, as_dict, as_list, as_str, as_time
from stenolog.parts import AssistantPart, TextPart

from .history import SweAgent, records
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
    """Converter of a mini-SWE-agent trajectory."""

    def __init__(
        self, log: importers.ExistingLog, about: Mapping[str, Any], model: str, info: Mapping[str, Json]
    ) -> None:
        super().__init__(log, MAIN, about, model)
        self._info = info
        self._has_prompt = False
        self._has_task = False
        self._has_exit = False

    def take(self, record: Record) -> list[importers.Step]:
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

    def end(self) -> list[importers.Step]:
        """Return the remaining steps: the run's end, if no message has it."""
        status = as_str(self._info.get("exit_status"))
        if status and status.casefold() != SUBMITTED and not self._has_exit and self.positions:
            self.add_failure("exit", status)
        self.write_facts({name: value for name, value in self._info.items() if name != "config"})
        return self.writer.drain()

    def _answer(self, key: str, message: dict[str, Any], extra: dict[str, Any]) -> None:
        response = as_dict(extra.get("response")) or message
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        is_responses = message.get("object") == "response"
        parts = _items(key, message) if is_responses else importers.litellm_answer(message, key)
        self.add_answer(
            key,
            MAIN,
            list(parts),
            model=as_str(response.get("model")),
            usage=importers.litellm_usage(response.get("usage"), extra.get("cost")),
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
        """Write the run's end: a failure, or a result, which no model is sent."""
        self._has_exit = True
        status = as_str(extra.get("exit_status"))
        if status and status.casefold() != SUBMITTED:
            self.add_failure(key, status, as_str(content))
        else:
            text = content or extra.get("submission") or status
            self.add_user_message(key, MAIN, text, "system", meta=_facts({}, extra), in_context=False)


def _items(key: str, message: Mapping[str, Json]) -> Iterator[AssistantPart]:
    for number, item in enumerate(map(as_dict, as_list(message.get("output")))):
        for part in importers.openai_item_parts(item, "", f"{key}-{number}"):
            if not isinstance(part, TextPart) or part.text.strip():
                yield part


def _facts(message: Mapping[str, Json], extra: Mapping[str, Json]) -> dict[str, Any]:
    beside = {name: value for name, value in message.items() if name not in OWN}
    found = {**beside, **{name: value for name, value in extra.items() if name not in REPEATED}}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


RUN = frozenset(("history", "trajectory", "info", "environment", "replay_config", "attempts"))
"""The fields of a run."""
SUBMIT = re.compile("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT")
"""The command by which mini-SWE-agent has the model end its work; its first messages name it."""
_YAML = re.compile(rb"^history:[ \t]*\r?\n(?:[ \t]*#.*\n)*[ \t]*-[ \t]+\w+:", re.MULTILINE)
_ROLE = re.compile(rb"^[ \t]*(?:-[ \t]+)?role:", re.MULTILINE)


def is_run(value: Json) -> bool:
    """Return whether a value is a run or a demonstration of SWE-agent."""
    run = as_dict(value)
    history, steps, attempts = (as_list(run.get(name)) for name in ("history", "trajectory", "attempts"))
    if any("role" in as_dict(message) for message in history[:1]):
        return run.keys() <= RUN or "trajectory" in run
    if steps and {"action", "observation"} <= as_dict(steps[0]).keys():
        return "source" not in as_dict(steps[0])  # an event of OpenHands has one
    return any(map(is_run, attempts[:1]))


def is_mini(value: Json) -> bool:
    """Return whether a value is a mini-SWE-agent trajectory, or its bare list of messages."""
    if isinstance(value, list):
        return _is_mini_list(value)
    found = as_dict(value)
    messages = found.get("messages")
    if not isinstance(messages, list):
        return False
    named = as_str(found.get("trajectory_format")).startswith("mini-swe-agent")
    return named or "mini_version" in as_dict(found.get("info")) or _is_mini_list(messages)


def _is_mini_list(messages: list[Json]) -> bool:
    if not messages or not all(isinstance(message, dict) for message in messages):
        return False
    if "actions" in as_dict(next(iter(_answers(messages)), {}).get("extra")):
        return True
    first = [as_str(message.get("content")) for message in messages[:2]]
    return {"role"} <= messages[0].keys() and any(map(SUBMIT.search, first))


def _answers(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in messages if each.get("role") == "assistant" or each.get("object") == "response")


def is_document(document: Json) -> bool:
    """Return whether a document is a run, a demonstration or a trajectory."""
    return is_run(document) or is_mini(document)


def is_demonstration(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file begins as a YAML demonstration: a history of messages with roles."""
    return bool(_YAML.search(first)) and bool(_ROLE.search(first)) and first[:1] not in (b"{", b"[")


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a file's conversations: one, or one for each attempt."""
    first = stream.read(64 * 1024).lstrip(b"\xef\xbb\xbf \t\r\n\0")
    stream.seek(0)
    document = reading.document(_from_yaml(stream) if is_demonstration(first, stream) else stream)
    if is_mini(document) and not is_run(document):
        yield _mini(document)
        return
    run = as_dict(document)
    attempts = [attempt for attempt in as_list(run.get("attempts")) if is_run(attempt)]
    if not attempts:
        yield _conversation("", run)
    for number, attempt in enumerate(attempts):
        # The fields of the run repeat those of its best attempt.
        shared = {name: run.get(name) for name in ("environment", "replay_config")}
        yield _conversation(f"attempt-{number}", {**shared, **attempt})


def _conversation(name: str, run: dict[str, Any]) -> SourceConversation:
    config = importers.object_in(run.get("replay_config"))
    agent, info = as_dict(config.get("agent")), as_dict(run.get("info"))
    repository, problem = (
        as_dict(each) for each in (as_dict(config.get("env")).get("repo"), config.get("problem_statement"))
    )
    about = {
        "environment": as_str(run.get("environment")),
        "repository": as_str(repository.get("github_url")) or as_str(repository.get("repo_name")),
        "commit": as_str(repository.get("base_commit")),
        "problem": as_str(problem.get("id")),
        "version": as_str(info.get("swe_agent_version")),
    }
    steps = as_list(run.get("trajectory"))
    about["cwd"] = as_str(
        importers.object_in(as_dict(next(iter(steps), None)).get("state")).get("working_dir")
    )
    found = records(as_list(run.get("history")), steps, is_over=bool(info.get("exit_status")))
    make = partial(SweAgent, about=about, model=as_str(as_dict(agent.get("model")).get("name")), info=info)
    ignored = Counter(name for name in run if name not in RUN)
    return SourceConversation(name, found, make, ignored)


def _mini(document: Json) -> SourceConversation:
    found = as_dict(document)
    info = as_dict(found.get("info"))
    config = as_dict(info.get("config"))
    about = {
        "version": as_str(info.get("mini_version")),
        "format": as_str(found.get("trajectory_format")),
        "cwd": as_str(as_dict(config.get("environment")).get("cwd")),
        "instance_id": as_str(found.get("instance_id")),
    }
    messages = document if isinstance(document, list) else as_list(found.get("messages"))
    listed = [Record(str(n), each if isinstance(each, dict) else {}) for n, each in enumerate(messages, 1)]
    model = as_str(as_dict(config.get("model")).get("model_name"))
    make = partial(MiniSweAgent, about=about, model=model, info=info)
    used = ("info", "messages", "trajectory_format", "instance_id")
    return SourceConversation("", listed, make, Counter(name for name in found if name not in used))


def _from_yaml(stream: BinaryIO) -> BinaryIO:
    document = importers.yaml_document(stream)
    try:
        return BytesIO(json.dumps(document, default=str).encode())
    except (ValueError, TypeError) as error:
        raise UnknownFormatError(f"expected YAML that JSON can express: {error}") from None


def name_of(path: Path) -> str:
    """Return a file's name without the endings of trajectories and demonstrations."""
    return path.stem.removesuffix(".traj").removesuffix(".demo")


SWE_AGENT = importers.Importer(
    "swe-agent",
    read=read,
    is_document=is_document,
    is_start=is_demonstration,
    name_of=name_of,
)
