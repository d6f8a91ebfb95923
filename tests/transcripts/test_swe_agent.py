"""Trajectories and demonstrations of SWE-agent: real ones, and what the real ones lack."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.errors import MissingExtraError, UnknownFormatError
from stenolog.events import LlmError, ModeSwitch
from stenolog.importers import files_in, import_file, recognise
from stenolog.parts import ReasoningPart, TextPart
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    assert_accepted,
    digests_of,
)
from tests.transcripts.given import Import, Json, lines

REAL = sorted((SHARED / "transcripts" / "swe_agent").glob("*.traj*"))
real = pytest.mark.skipif(not REAL, reason="the transcripts are not beside this checkout")
ABSENT = [Path("absent")]


@real
@pytest.mark.parametrize("path", [*REAL[:2], *REAL[-1:]] or ABSENT, ids=lambda path: path.name[-30:])
def test_a_run_that_is_imported_while_it_goes_on_gives_the_same_requests(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_text())
    whole = digests_of(tmp_path / "run.traj", json.dumps(document).encode())
    answers = [n for n, m in enumerate(document["history"]) if m["role"] == "assistant"]

    for nth, cut in enumerate(answers[1:], 1):
        part = {**document, "history": document["history"][:cut], "trajectory": document["trajectory"][:nth]}
        versions = (json.dumps({**part, "info": {}}).encode(), json.dumps(document).encode())
        assert digests_of(tmp_path / "run.traj", *versions) == whole, f"cut behind message {cut}"


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


def run(into: Import, **document: Any) -> None:
    into.file(json.dumps({"environment": "main", **document}).encode(), "shop.traj")


def test_one_observation_answers_all_calls_that_it_lists(into: Import) -> None:
    run(into, history=HISTORY, trajectory=[step("I look.", "a.txt", execution_time=0.25)], info={})
    results = [event for event in into.said if isinstance(event, ToolResult)]

    assert [(result.call_id, result.text, result.name, result.duration_ms) for result in results] == [
        ("c1", "a.txt", "bash", 250),
        ("c2", "a.txt", "bash", 250),
    ]
    assert all(result.call is not None for result in results)
    assert not any(into.conversation.state().open_calls())


def test_the_first_message_that_is_no_demonstration_is_the_persons(into: Import) -> None:
    run(into, history=HISTORY, trajectory=[], info={})
    messages = [event for event in into.said if isinstance(event, UserMessage)]
    settings = into.conversation.settings()

    assert [(each.text, each.author_kind) for each in messages] == [
        ("Example: ls", "system"),
        ("Fix the shop.", "person"),
    ]
    assert (settings.title, into.conversation.name) == ("Fix the shop.", "shop")
    assert settings.card_of("swe-agent").persona == "You are an engineer."


def test_the_last_observation_which_no_message_tells_is_the_result_of_the_open_call(into: Import) -> None:
    history = [*HISTORY, message("assistant", "I submit.", tool_calls=[call("c3", "submit")])]
    steps = [step("I look.", "a.txt"), step("I submit.", "diff --git")]
    run(
        into, history=history, trajectory=steps, info={"exit_status": "submitted", "submission": "diff --git"}
    )
    last = into.said[-1]

    assert isinstance(last, ToolResult)
    assert (last.call_id, last.text) == ("c3", "diff --git")
    assert into.settings[-1].meta["swe-agent"] == {"exit_status": "submitted", "submission": "diff --git"}


def test_a_step_that_was_taken_back_is_kept_and_no_model_is_sent_it(into: Import) -> None:
    steps = [step("I cannot parse.", "Format error"), step("I look.", "a.txt")]
    run(into, history=HISTORY, trajectory=steps, info={})
    taken_back = [event for event in into.said if not getattr(event, "in_context", True)]

    assert [event.text for event in taken_back] == ["I cannot parse.\nls", "Format error"]  # type: ignore[union-attr]
    assert "I cannot parse." not in str(into.conversation.request("swe-agent", api="openai-chat").body)


def test_an_answer_that_the_step_words_differently_keeps_the_steps_words(into: Import) -> None:
    run(into, history=HISTORY, trajectory=[step("I look around.", "a.txt")], info={})
    answer = next(event for event in into.said if isinstance(event, AssistantMessage))

    assert answer.meta["swe-agent"] == {"action": "ls; pwd", "response": "I look around."}


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("exit_context", "context_length"),
        ("submitted (exit_cost)", "budget"),
        ("exit_format", "invalid_response"),
        ("exit_total_execution_time", "timeout"),
        ("exit_error", "other"),
    ],
)
def test_a_run_that_failed_ends_with_an_error(into: Import, status: str, category: str) -> None:
    run(into, history=HISTORY, trajectory=[], info={"exit_status": status})
    error = into.said[-1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message) == (category, status)


def test_steps_alone_are_a_conversation_too(into: Import) -> None:
    run(into, history=[], trajectory=[step("I look.\n```\nls\n```", "a.txt"), step("Done.")])

    assert [getattr(event, "text", "") for event in into.said] == [
        "I look.\n```\nls\n```",
        "a.txt",
        "Done.\nls",
    ]


def test_each_attempt_of_a_run_is_a_conversation(into: Import) -> None:
    attempt = {"history": HISTORY, "trajectory": [], "info": {"exit_status": "exit_cost"}}
    other = {"history": HISTORY[:3], "trajectory": [], "info": {"exit_status": "submitted"}}
    run(
        into,
        **other,
        attempts=[attempt, other],
        replay_config=json.dumps({"agent": {"model": {"name": "m-1"}}}),
    )

    assert [found.name for found in into.report.conversations] == ["attempt-0", "attempt-1"]
    assert into.conversation.settings().card_of("swe-agent").model == "m-1"


def test_another_agent_of_the_history_has_a_lane_of_its_own(into: Import) -> None:
    sub = [{**message("assistant", "I edit."), "agent": "editor"}]
    run(into, history=[*HISTORY, *sub], trajectory=[], info={})

    assert into.said[-1].agent == "editor"  # type: ignore[union-attr]
    assert "I edit." not in str(into.conversation.request("swe-agent", api="openai-chat").body)


def test_thinking_blocks_are_reasoning_with_their_signature(into: Import) -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    run(into, history=[*HISTORY[:3], message("assistant", "Ho.", thinking_blocks=[block])], trajectory=[])

    assert into.said[-1].parts == (  # type: ignore[union-attr]
        ReasoningPart(text="Hm.", provider="anthropic", signature="c2ln"),
        TextPart(text="Ho."),
    )


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


def test_the_settings_that_a_run_was_made_with_are_in_its_opening(into: Import) -> None:
    repository = {"repo": {"github_url": "https://example.org/a/b", "base_commit": "HEAD"}}
    config = {"agent": {"model": {"name": "m-1", "api_key": "sk-secret"}}, "env": repository}
    run(into, history=HISTORY, trajectory=[step("I look.")], info={}, replay_config=config)
    opening = into.entries[0].event

    assert isinstance(opening, ModeSwitch)
    assert opening.meta["swe-agent"] == {
        "environment": "main",
        "repository": "https://example.org/a/b",
        "commit": "HEAD",
        "cwd": "/shop",
    }
    assert "sk-secret" not in str(into.entries)


def test_a_trajectory_of_another_file_name_is_imported_by_its_content(into: Import, tmp_path: Path) -> None:
    file = tmp_path / "unnamed"
    file.write_text(json.dumps({"history": HISTORY}))

    assert import_file(into.log, file).format == "swe-agent"
