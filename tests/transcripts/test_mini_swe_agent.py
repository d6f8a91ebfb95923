"""Trajectories of mini-SWE-agent, of Chat Completions and of the Responses API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult
from stenolog.events import LlmError, Usage
from stenolog.importers import recognise
from stenolog.parts import ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import assert_accepted
from tests.transcripts.given import Import, Json


def call(id: str) -> Json:
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
        tool_calls=[call("c1")],
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


def test_a_trajectory_of_mini_swe_agent_has_its_times_costs_and_results(into: Import, tmp_path: Path) -> None:
    done = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
    into.file(json.dumps(trajectory(*MINI, done, exit_status="Submitted")).encode(), "shop.traj.json")
    task, answer, result, interrupt, end = into.said

    assert into.conversation.name == "shop"
    assert isinstance(answer, AssistantMessage)
    assert (answer.model, answer.finish_reason) == ("m-1", "tool_calls")
    assert answer.usage == Usage(input=100, output=9, cache_read=60, cost=500_000)
    assert isinstance(result, ToolResult)
    assert (result.is_error, result.name, result.meta) == (True, "bash", {"swe-agent": {"returncode": 1}})
    assert [getattr(each, "author_kind", "") for each in (task, interrupt, end)] == [
        "person",
        "person",
        "system",
    ]
    assert (getattr(end, "in_context", True), into.entries[-2].time.year) == (False, 2026)
    assert "/shop" in str(into.settings[0].meta["swe-agent"])
    assert_accepted(tmp_path / "shop.traj.json")


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


def test_items_of_the_responses_api_are_answers_and_results(into: Import, tmp_path: Path) -> None:
    output = [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "e",
        },
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command":"ls"}'},
    ]
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]}
    response = {"object": "response", "model": "m-1", "status": "completed", "output": output}
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.txt", "extra": {"returncode": 0}}
    into.file(
        json.dumps(trajectory(MINI[0], asked, {**response, "extra": {"actions": []}}, result)).encode(),
        "r.json",
    )
    task, answer, found = into.said

    assert isinstance(answer, AssistantMessage)
    assert [type(part) for part in answer.parts] == [ReasoningPart, TextPart, ToolCall]
    assert (task.text, found.text, found.call is not None) == ("Fix it.", "a.txt", True)  # type: ignore[union-attr]
    assert_accepted(tmp_path / "r.json")


def test_a_bare_list_is_of_mini_swe_agent_by_the_command_that_its_prompt_names() -> None:
    prompt = "To end, run `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."
    bare = [{"role": "system", "content": prompt}, {"role": "user", "content": "Fix it."}]

    assert recognise(json.dumps(bare).encode()) == "swe-agent"
    assert recognise(json.dumps([{**bare[0], "content": "Be helpful."}, bare[1]]).encode()) == "openai-chat"


def test_a_call_in_its_old_form_is_a_call_of_the_answer(into: Import) -> None:
    answer = {**mini("assistant", "I look."), "function_call": call("")["function"]}
    into.file(json.dumps(trajectory(*MINI[:2], answer)).encode(), "old.traj.json")
    _, said = into.said

    assert [part.name for part in said.parts if isinstance(part, ToolCall)] == ["bash"]  # type: ignore[union-attr]
