"""ATIF trajectories: real ones, and sub-agents, pictures and lines of them by the format's specification."""

from __future__ import annotations

import json
from typing import Any

from tests.transcripts.given import Import, Json


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


def test_a_step_that_was_copied_from_another_trajectory_is_not_counted_again(into: Import) -> None:
    document(into, *STEPS[:2], step(3, "agent", "Done.", metrics=METRICS, is_copied_context=True))

    assert [entry.event.usage is None for entry in into.entries if hasattr(entry.event, "usage")] == [True]
    assert into.report.conversations[0].decisions == {"copied context, not counted again": 1}
