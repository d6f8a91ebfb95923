"""Recognise and read trajectories and demonstrations of SWE-agent, and trajectories of mini-SWE-agent."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    Importer,
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
    object_in,
    yaml_document,
)

from .history import SweAgent, records
from .mini import MiniSweAgent

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
    """Return whether a value is a trajectory of mini-SWE-agent, or its bare list of messages."""
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
    """Return whether a file begins as a demonstration in YAML does: a history of messages with roles."""
    return bool(_YAML.search(first)) and bool(_ROLE.search(first)) and first[:1] not in (b"{", b"[")


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a file: one, or one for each attempt of a run."""
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
    config = object_in(run.get("replay_config"))
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
    about["cwd"] = as_str(object_in(as_dict(next(iter(steps), None)).get("state")).get("working_dir"))
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
    """Return the JSON of a document in YAML. Raises as `yaml_document` does."""
    document = yaml_document(stream)
    try:
        return BytesIO(json.dumps(document, default=str).encode())
    except (ValueError, TypeError) as error:
        raise UnknownFormatError(f"expected YAML that JSON can express: {error}") from None


def name_of(path: Path) -> str:
    """Return the name of a file without all its endings: those of trajectories and demonstrations."""
    return path.stem.removesuffix(".traj").removesuffix(".demo")


SWE_AGENT = Importer(
    "swe-agent",
    read=read,
    is_document=is_document,
    is_start=is_demonstration,
    name_of=name_of,
)
