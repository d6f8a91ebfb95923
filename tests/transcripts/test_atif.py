"""ATIF trajectories: real ones, and sub-agents, pictures and lines of them by the format's specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.events import Usage
from stenolog.parts import ImagePart, ProviderPart, ReasoningPart, TextPart, ToolCall
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    assert_accepted,
    assert_again_adds_nothing,
    digests_of,
)
from tests.transcripts.given import Import, Json, lines

REAL = sorted((SHARED / "transcripts" / "atif").glob("*.json"))
real = pytest.mark.skipif(not REAL, reason="the transcripts are not beside this checkout")
ABSENT = [Path("absent")]


@real
@pytest.mark.parametrize("path", REAL or ABSENT, ids=lambda path: path.name[-30:])
def test_a_trajectory_that_grows_step_by_step_gives_the_same_requests(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_text())
    whole = digests_of(tmp_path / "run.json", json.dumps(document).encode())

    for cut in range(1, len(document["steps"])):
        part = {**document, "steps": document["steps"][:cut], "final_metrics": None}
        versions = (json.dumps(part).encode(), json.dumps(document).encode())
        assert digests_of(tmp_path / "run.json", *versions) == whole, f"cut behind step {cut}"


def step(id: int, source: str, message: Any, **fields: Any) -> Json:
    return {
        "step_id": id,
        "timestamp": "2026-01-02T03:04:05Z",
        "source": source,
        "message": message,
        **fields,
    }


def called(id: str, **arguments: Any) -> Json:
    return {"tool_call_id": id, "function_name": "bash", "arguments": arguments}


def results(*found: Json) -> Json:
    return {"results": list(found)}


TOOL = {
    "type": "function",
    "function": {"name": "bash", "description": "Runs.", "parameters": {"type": "object"}},
}
METRICS = {
    "prompt_tokens": 520,
    "completion_tokens": 80,
    "cached_tokens": 200,
    "cost_usd": 0.00045,
    "logprobs": [-0.1],
    "extra": {"reasoning_tokens": 12},
}
STEPS = [
    step(1, "system", "Be helpful."),
    step(2, "user", "Fix the shop."),
    step(
        3,
        "agent",
        "I look.",
        reasoning_content="Two at once.",
        tool_calls=[called("c1", command="ls"), called("c2", command="pwd")],
        observation=results(
            {"source_call_id": "c1", "content": "a.txt"}, {"source_call_id": "c2", "content": "/"}
        ),
        metrics=METRICS,
        model_name="m-2",
    ),
    step(4, "system", "Context was trimmed."),
    step(5, "agent", "Done."),
]


def trajectory(*steps: Json, **fields: Any) -> Json:
    about = {"name": "terminus", "version": "2.0", "model_name": "m-1", "tool_definitions": [TOOL]}
    return {"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": about, "steps": list(steps), **fields}


def document(into: Import, *steps: Json, **fields: Any) -> None:
    into.file(json.dumps(trajectory(*steps, **fields)).encode(), "run.json")


def test_a_step_of_the_agent_is_an_answer_with_its_results(into: Import) -> None:
    document(into, *STEPS)
    task, answer, first, second, note, last = into.said
    card = into.conversation.settings().card_of("terminus")

    assert isinstance(answer, AssistantMessage)
    assert [type(part) for part in answer.parts] == [ReasoningPart, TextPart, ToolCall, ToolCall]
    assert answer.tool_calls[0].arguments == '{"command":"ls"}'
    assert answer.usage == Usage(input=520, output=80, cache_read=200, reasoning=12, cost=450)
    assert [getattr(each, "text", "") for each in (first, second)] == ["a.txt", "/"]
    assert [getattr(each, "author_kind", "") for each in (task, note)] == ["person", "system"]
    assert (answer.model, last.model) == ("m-2", "m-1")  # type: ignore[union-attr]
    assert (card.persona, [tool.name for tool in card.tools or ()]) == ("Be helpful.", ["bash"])
    assert into.report.conversations[0].ignored == {"metrics.logprobs": 1}


def test_facts_beside_the_steps_are_meta_and_the_session_names_the_conversation(into: Import) -> None:
    document(into, *STEPS, notes="A test.", final_metrics={"total_steps": 5})
    about = [each.meta["atif"] for each in into.settings if "atif" in each.meta]

    assert (into.conversation.name, into.conversation.settings().title) == ("s1", "Fix the shop.")
    assert about == [
        {"schema_version": "ATIF-v1.7", "session_id": "s1", "version": "2.0"},
        {"notes": "A test.", "final_metrics": {"total_steps": 5}},
    ]


def test_results_without_ids_belong_to_the_calls_in_their_order_or_to_no_call(into: Import) -> None:
    two = [called("c1"), called("c2")]
    document(
        into,
        step(1, "user", "Hi."),
        step(2, "agent", "", tool_calls=two, observation=results({"content": "A"}, {"content": "B"})),
        step(3, "agent", "ls", observation=results({"content": "Terminal output"})),
    )
    found = [(event.call_id, event.text) for event in into.said if isinstance(event, ToolResult)]
    output = into.said[-1]

    assert found == [("c1", "A"), ("c2", "B")]
    assert isinstance(output, UserMessage)
    assert (output.text, output.author_kind) == ("Terminal output", "system")


def sub_agent(id: str, *steps: Json, **fields: Any) -> Json:
    return {
        **trajectory(*steps),
        "session_id": "s1",
        "trajectory_id": id,
        "agent": {"name": "helper"},
        **fields,
    }


def test_a_sub_agent_in_the_document_is_a_lane_whose_brief_names_the_call(
    into: Import, tmp_path: Path
) -> None:
    reference = {
        "source_call_id": "c1",
        "subagent_trajectory_ref": [{"trajectory_id": "t9", "session_id": "s1"}],
    }
    inner = sub_agent("t9", step(1, "user", "Count to 3."), step(2, "agent", "One, two, three."))
    loose = sub_agent("t10", step(1, "user", "Sum it up."), step(2, "agent", "A sum."))
    document(
        into,
        step(1, "user", "Hi."),
        step(2, "agent", "I ask.", tool_calls=[called("c1")], observation=results(reference)),
        step(3, "agent", "Thanks."),
        subagent_trajectories=[inner, loose],
    )
    call = next(entry for entry in into.entries if isinstance(entry.event, AssistantMessage))
    briefs = [each for each in into.said if isinstance(each, UserMessage) and each.author_kind == "agent"]
    said = [(event.agent, event.text) for event in into.said if isinstance(event, AssistantMessage)]
    result = next(event for event in into.said if isinstance(event, ToolResult))

    assert [(brief.to, brief.author, brief.cause) for brief in briefs] == [
        (("helper-t9",), "terminus", call.position),
        (("helper-t10",), "terminus", None),
    ]
    assert said == [
        ("terminus", "I ask."),
        ("helper-t9", "One, two, three."),
        ("terminus", "Thanks."),
        ("helper-t10", "A sum."),
    ]
    assert result.meta["atif"] == {"subagent_trajectory_ref": reference["subagent_trajectory_ref"]}
    assert "One, two, three." not in str(into.conversation.request("terminus", api="anthropic").body)
    assert_accepted(tmp_path / "run.json")
    assert_again_adds_nothing(tmp_path / "run.json")


def test_a_sub_agent_in_another_file_is_counted_as_missing(into: Import) -> None:
    reference = {
        "content": "Done.",
        "subagent_trajectory_ref": [{"trajectory_path": "sub.json", "session_id": "x"}],
    }
    document(into, step(1, "user", "Hi."), step(2, "system", "", observation=results(reference)))

    assert into.report.conversations[0].ignored == {"missing: trajectory of a sub-agent": 1}


def test_pictures_are_blobs_and_files_beside_the_trajectory_stay_named(into: Import, tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64,aGk="}}
    beside = {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}}
    document(
        into, step(1, "user", [{"type": "text", "text": "See."}, picture, beside]), step(2, "agent", "I see.")
    )
    message = into.said[0]

    assert isinstance(message, UserMessage)
    assert [type(part) for part in message.parts] == [TextPart, ImagePart, ProviderPart]
    assert_accepted(tmp_path / "run.json")


def test_each_trajectory_of_a_list_or_of_lines_is_a_conversation(into: Import) -> None:
    two = [trajectory(*STEPS), {**trajectory(*STEPS), "trajectory_id": "t2"}]
    into.file(lines(*two, {"schema_version": "ATIF-v1.7"}), "lines.jsonl")
    names, skipped = [found.name for found in into.report.conversations], into.report.skipped
    into.file(json.dumps([*two, 1]).encode(), "list.json")

    assert (names, [each.line for each in skipped]) == (["s1", "t2"], [3])
    assert [(found.appended, found.already) for found in into.report.conversations] == [(0, 9), (0, 9)]
    assert [(each.line, each.unit) for each in into.report.skipped] == [(3, "item")]


def test_another_trajectory_of_the_same_session_is_not_taken_for_the_first(into: Import) -> None:
    document(into, *STEPS)
    first = len(into.entries)
    document(into, *({**each, "message": f"Other: {each['message']}"} for each in STEPS))
    failed = into.report.conversations[0].failed
    document(into, *({**each, "timestamp": "2026-01-03T00:00:00Z"} for each in STEPS))
    document(into, *STEPS[1:3])
    other = trajectory(*({**each, "message": "Other"} for each in STEPS))
    into.file(json.dumps({**other, "agent": {"name": "a", "extra": {"continuation_index": 1}}}).encode())

    assert "is it another transcript? Then give it another name" in failed
    assert (len(list(into.log["s1"])), into.report.conversations[0].name) == (first, "s1-1")


def test_sub_agents_that_refer_to_each_other_are_written_once(into: Import) -> None:
    reference = results({"subagent_trajectory_ref": [{"trajectory_id": "t1"}, {"trajectory_id": "t1"}]})
    inner = sub_agent("t1", step(1, "user", "Go."), step(2, "agent", "Gone.", observation=reference))
    document(
        into,
        step(1, "user", "Hi."),
        step(2, "agent", "Ho.", observation=reference),
        subagent_trajectories=[inner],
    )

    assert [event.text for event in into.said if isinstance(event, AssistantMessage)] == ["Ho.", "Gone."]
