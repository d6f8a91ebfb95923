"""Trajectories of SWE-agent and of mini-SWE-agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stenolog.errors import MissingExtraError, UnknownFormatError
from stenolog.events import LlmError
from stenolog.importers import files_in, recognise
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    assert_accepted,
)
from tests.transcripts.given import Import, Json, lines

REAL = sorted((SHARED / "transcripts" / "swe_agent").glob("*.traj*"))
real = pytest.mark.skipif(not REAL, reason="the transcripts are not beside this checkout")


@real
def test_trajectories_are_found_in_a_folder() -> None:
    assert [path.name for path in files_in(REAL[0].parent)] == [path.name for path in REAL]


def message(role: str, content: Any, **fields: Any) -> Json:
    return {"role": role, "content": content, "agent": "main", **fields}


def call(id: str, command: str = "ls") -> Json:
    return {
        "id": id,
        "type": "function",
        "function": {"name": "bash", "arguments": f'{{"command":"{command}"}}'},
    }


def step(response: str, observation: str = "", **fields: Any) -> Json:
    state = {"working_dir": "/shop"}
    return {
        "action": "ls",
        "response": response,
        "observation": observation,
        "thought": "",
        "state": state,
        **fields,
    }


HISTORY = [
    message("system", "You are an engineer."),
    message("user", "Example: ls", is_demo=True, message_type="demonstration"),
    message("user", "Fix the shop."),
    message(
        "assistant",
        "I look.",
        tool_calls=[call("c1"), call("c2", "pwd")],
        action="ls; pwd",
        thought="I look.",
    ),
    message("tool", "a.txt", tool_call_ids=["c1", "c2"]),
]


YAML = """# This is a demo file
history:
  - role: user
    content: |-
      Fix the shop.
      2026-01-02
    agent: main
  - role: assistant
    content: I look.
    tool_calls:
      - function:
          arguments: '{"command":"ls"}'
          name: bash
        id: c1
        type: function
  - role: tool
    content: a.txt
    tool_call_ids:
      - c1
replay_config:
  when: 2026-01-02
"""


def test_a_demonstration_in_yaml_is_the_conversation_that_it_is_in_json(into: Import, tmp_path: Path) -> None:
    into.file(YAML.encode(), "shop.demo.yaml")
    said = into.said
    history = [
        {"role": "user", "content": "Fix the shop.\n2026-01-02", "agent": "main"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("c1")]},
        {"role": "tool", "content": "a.txt", "tool_call_ids": ["c1"]},
    ]

    assert (into.report.format, into.conversation.name) == ("swe-agent", "shop")
    into.file(json.dumps({"history": history}).encode(), "other.json")
    assert said == into.said
    assert_accepted(tmp_path / "shop.demo.yaml")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("a: &a [1]\nb: *a\n", "found an alias"),
        (f"a: {'[' * 200}{']' * 200}\n", "more than 100 levels"),
        ("a: [1\n", "expected YAML, found"),
        ("? [1, 2]\n: a\n", "YAML"),
    ],
)
def test_yaml_that_no_program_dumps_is_refused_with_the_reason(into: Import, more: str, reason: str) -> None:
    with pytest.raises(UnknownFormatError, match=reason):
        into.file(f"{YAML}{more}".encode(), "demo.yaml")


def test_without_pyyaml_the_error_is_the_line_that_installs_it(
    into: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[yaml\]"'):
        into.file(YAML.encode(), "demo.yaml")


def test_predictions_are_refused_by_their_name() -> None:
    patch = {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": "diff"}
    for content in (lines(patch, patch), json.dumps({"a__b-1": patch}).encode()):
        with pytest.raises(UnknownFormatError, match="found a file of SWE-bench predictions"):
            recognise(content)


def call_mini_swe_agent(id: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}


def mini(role: str, content: Any, **extra: Any) -> Json:
    fields: Json = {name: extra.pop(name) for name in ("tool_calls", "tool_call_id") if name in extra}
    return {"role": role, "content": content, "extra": {"timestamp": 1767322800.5, **extra}, **fields}


RESPONSE = {
    "model": "m-1",
    "usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}},
    "choices": [{"finish_reason": "tool_calls"}],
}
MINI = [
    {"role": "system", "content": "Be helpful."},
    mini("user", "Fix the shop."),
    mini(
        "assistant",
        "I look.",
        tool_calls=[call_mini_swe_agent("c1")],
        actions=[{"command": "ls"}],
        cost=0.5,
        response=RESPONSE,
    ),
    mini("tool", "<output>a.txt</output>", tool_call_id="c1", raw_output="a.txt", returncode=1),
    mini("user", "Stop that.", interrupt_type="UserInterruption"),
]


def trajectory(*messages: Json, **info: Any) -> Json:
    config = {"model": {"model_name": "m-0"}, "environment": {"cwd": "/shop"}}
    about = {"mini_version": "2.0.0", "config": config, **info}
    return {"info": about, "messages": list(messages), "trajectory_format": "mini-swe-agent-1.1"}


@pytest.mark.parametrize(
    ("status", "category"),
    [("LimitsExceeded", "budget"), ("RepeatedFormatError", "invalid_response"), ("TimeExceeded", "timeout")],
)
@pytest.mark.parametrize("has_exit", [True, False])
def test_a_failed_run_of_mini_swe_agent_ends_with_one_error(
    into: Import, status: str, category: str, has_exit: bool
) -> None:
    end = [{"role": "exit", "content": status, "extra": {"exit_status": status}}] if has_exit else []
    into.file(json.dumps(trajectory(*MINI, *end, exit_status=status)).encode())
    errors = [event for event in into.said if isinstance(event, LlmError)]

    assert [(error.category, error.message) for error in errors] == [(category, status)]


def test_a_bare_list_is_of_mini_swe_agent_by_the_command_that_its_prompt_names() -> None:
    prompt = "To end, run `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."
    bare = [{"role": "system", "content": prompt}, {"role": "user", "content": "Fix it."}]

    assert recognise(json.dumps(bare).encode()) == "swe-agent"
    assert recognise(json.dumps([{**bare[0], "content": "Be helpful."}, bare[1]]).encode()) == "openai-chat"
