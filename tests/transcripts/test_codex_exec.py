"""What `codex exec --json` writes to stdout."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.parts import ImagePart
from tests.transcripts.given import Import, Json, codex, lines, message

pytestmark = pytest.mark.usefixtures("sound")


def item(id: str, type: str, event: str = "completed", **fields: Any) -> Json:
    return {"type": f"item.{event}", "item": {"id": id, "type": type, **fields}}


def used(input: int, cached: int, output: int) -> Json:
    counts = {"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": counts}


BEGINNING = {"type": "thread.started", "thread_id": "0199-thread"}
SHELF: Json = {"server": "shop", "tool": "shelf", "arguments": {"bread": "rye"}}
BLOCKS = [
    {"type": "text", "text": "12 loaves"},
    {"type": "image", "data": b64encode(b"png").decode(), "mimeType": "image/png"},
]
RUN = [
    BEGINNING,
    {"type": "turn.started"},
    item("item_0", "reasoning", text="I look."),
    item("item_1", "agent_message", text="A moment."),
    item("item_2", "command_execution", "started", command="ls", aggregated_output="", status="in_progress"),
    item("item_3", "mcp_tool_call", "started", **SHELF, result=None, status="in_progress"),
    item(
        "item_2", "command_execution", command="ls", aggregated_output="rye", exit_code=0, status="completed"
    ),
    item("item_3", "mcp_tool_call", **SHELF, result={"content": BLOCKS}, error=None, status="completed"),
    item("item_4", "file_change", changes=[{"path": "a.py", "kind": "update"}], status="failed"),
    item("item_5", "todo_list", items=[{"text": "bake", "completed": True}]),
    item("item_6", "web_search", query="rye", action={"type": "search"}),
    item("item_7", "error", message="a warning of the client"),
    item("item_8", "agent_message", text="Rye."),
    used(1_000, 600, 50),
    {"type": "turn.started"},
    item("item_9", "agent_message", text="Bye."),
    used(1_500, 1_000, 60),
]


def test_items_are_parts_of_answers_calls_and_their_results(into: Import) -> None:
    into.records(*RUN)
    answers = [event for event in into.said if isinstance(event, AssistantMessage)]
    results = [event for event in into.said if isinstance(event, ToolResult)]

    assert into.conversation.name == "0199-thread"
    assert [part.type for part in answers[0].parts] == ["reasoning", "text", "tool_call", "tool_call"]
    assert [(call.name, call.arguments) for call in answers[0].tool_calls] == [
        ("command_execution", '{"command":"ls"}'),
        ("shop__shelf", '{"bread":"rye"}'),
    ]
    assert [(each.text, each.is_error, each.call is not None) for each in results] == [
        ("rye", False, True),
        ("12 loaves", False, True),
        ("failed", True, True),
        ('[{"text":"bake","completed":true}]', False, True),
        ("completed", False, True),
    ]
    assert [isinstance(part, ImagePart) for part in results[1].parts] == [False, True]
    warnings = [event for event in into.said if isinstance(event, UserMessage)]
    assert [(each.text, each.in_context) for each in warnings] == [("a warning of the client", False)]
    assert into.report.conversations[0].ignored == {"thread.started": 1, "missing: the prompt of a turn": 2}


def test_the_threads_tokens_are_counted_once_each_turn_on_its_last_answer(into: Import) -> None:
    into.records(*RUN)
    counted = [e.usage for e in into.said if isinstance(e, AssistantMessage) and e.usage is not None]

    assert [(use.input, use.cache_read, use.output) for use in counted] == [(1_000, 600, 50), (500, 400, 10)]


def test_a_turn_that_failed_is_an_error_and_what_was_tried_again_is_not(into: Import) -> None:
    words = "exceeded retry limit, last status: 429 Too Many Requests"
    failed = {"type": "turn.failed", "error": {"message": words}}
    into.records(
        BEGINNING, {"type": "turn.started"}, {"type": "error", "message": "Reconnecting... 1/5"}, failed
    )

    (error,) = into.said
    assert isinstance(error, LlmError)
    assert (error.category, error.message) == ("rate_limited", words)


def test_a_later_run_of_a_thread_goes_on_in_its_conversation(into: Import) -> None:
    into.records(*RUN)
    later = [
        BEGINNING,
        {"type": "turn.started"},
        item("item_0", "agent_message", text="Again."),
        used(9, 0, 9),
    ]
    into.file(lines(*later), "later.jsonl")

    assert into.log.names() == ["0199-thread"]
    assert [getattr(event, "text", "") for event in into.said][-2:] == ["Bye.", "Again."]


def run(words: str, total: int) -> list[Json]:
    return [
        BEGINNING,
        {"type": "turn.started"},
        item("item_0", "agent_message", text=words),
        used(total, 0, 1),
    ]


@pytest.mark.parametrize("words", ["Done.", "Done again."])
def test_a_resumed_run_is_kept_and_counts_only_its_own_tokens_in_any_file(into: Import, words: str) -> None:
    first, second, third = run("Done.", 100), run(words, 250), run("Done.", 300)
    into.file(lines(*first), "one.jsonl").file(lines(*second), "two.jsonl")
    into.file(lines(*first, *second, *third), "all.jsonl")
    for name, records in (("one", first), ("two", second), ("all", [*first, *second, *third])):
        again = into.file(lines(*records), f"{name}-copy.jsonl").report
        assert again.conversations[0].appended == 0

    answers = [event for event in into.said if isinstance(event, AssistantMessage)]
    assert [(answer.text, answer.usage and answer.usage.input) for answer in answers] == [
        ("Done.", 100),
        (words, 150),
        ("Done.", 50),
    ]


def test_a_run_that_has_no_end_yet_is_taken_up_by_its_grown_file(into: Import) -> None:
    both = [*run("Done.", 100), *run("Done.", 250)]
    for length in range(1, len(both) + 1):
        into.file(lines(*both[:length]), f"{length}.jsonl")

    answers = [event for event in into.said if isinstance(event, AssistantMessage)]
    assert [answer.text for answer in answers] == ["Done.", "Done."]


ROLLOUT = [
    codex("session_meta", id=BEGINNING["thread_id"]),
    message("user", "Bake."),
    message("assistant", "Done."),
]


def test_a_thread_is_not_told_twice_by_its_rollout_and_by_what_exec_wrote(into: Import) -> None:
    into.file(lines(*ROLLOUT), "rollout.jsonl").file(lines(*run("Done.", 100)), "exec.jsonl")

    assert [getattr(event, "text", "") for event in into.said] == ["Bake.", "Done."]
    assert into.report.conversations[0].ignored == {"line of a thread whose rollout is in the log": 4}


def test_a_rollout_of_a_thread_that_exec_told_is_refused_with_what_to_do(into: Import) -> None:
    into.file(lines(*run("Done.", 100)), "exec.jsonl").file(lines(*ROLLOUT), "rollout.jsonl")

    assert [getattr(event, "text", "") for event in into.said] == ["Done."]
    assert "give it another name" in into.report.conversations[0].failed


def test_a_call_without_an_end_stays_open_until_the_rest_has_come(into: Import) -> None:
    into.records(*RUN[:6])
    assert [type(event).__name__ for event in into.said] == ["AssistantMessage"]
    into.records(*RUN)

    assert [event.text for event in into.said if isinstance(event, ToolResult)][:2] == ["rye", "12 loaves"]
