"""What an import of Claude Code and Codex knows about a session: its title, where it ran, who said what."""

from __future__ import annotations

from typing import Any

from stenolog import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from tests.transcripts.given import (
    SESSION,
    Import,
    Json,
    assistant,
    codex,
    item,
    message,
    meta,
    record,
    screen,
    text,
    tool_result,
    tool_use,
    user,
)

LONG = "Please add the age of each person to the table " * 5


def places(into: Import, system: str) -> list[Any]:
    """Return folder and branch, as the settings have them."""
    told: list[Any] = [switch.meta.get(system, {}) for switch in into.settings]
    return [(about.get("cwd"), about.get("branch")) for about in told if about]


def queue(operation: str, **fields: str) -> Json:
    return {"type": "queue-operation", "operation": operation, "sessionId": SESSION, **fields}


def test_the_first_words_of_a_person_are_the_title_until_the_file_tells_one(into: Import) -> None:
    first = user("u2", "u1", f"{LONG}\nand more")
    into.records(user("u1", None, "Caveat", isMeta=True), first, assistant("a1", "u2", text("Yes")))

    title = into.conversation.settings().title
    assert title.startswith("Please add the age of each person")
    assert title.endswith("…")
    assert len(title) <= 100
    assert "\n" not in title

    ai_title = {"type": "ai-title", "aiTitle": "Ages", "sessionId": SESSION}
    into.records(user("u1", None, "Caveat", isMeta=True), first, assistant("a1", "u2", text("Yes")), ai_title)
    assert into.conversation.settings().title == "Ages"


def test_a_title_at_the_end_of_a_file_is_kept_once_however_often_it_is_imported(into: Import) -> None:
    said = [user("u1", None, "Go"), assistant("a1", "u1", text("Yes"))]
    titled: Json = {"type": "custom-title", "customTitle": "Going", "sessionId": SESSION}
    into.records(*said, titled)
    into.records(*said, titled, user("u2", "a1", "On"))
    into.records(*said, titled, user("u2", "a1", "On"))

    assert into.conversation.settings().title == "Going"
    assert len(into.settings) == 3
    assert into.report.conversations[0].appended == 0


def test_a_command_is_titled_as_it_was_typed(into: Import) -> None:
    typed = "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n"
    into.records(user("u1", None, f"{typed}<command-args>12</command-args>"))

    assert into.conversation.settings().title == "/review 12"


def test_the_folder_and_the_branch_of_a_session_stand_in_its_settings(into: Import) -> None:
    here = {"cwd": "/home/user/shop", "gitBranch": "main"}
    into.records(
        user("u1", None, "Go", **here),
        assistant("a1", "u1", text("Yes"), **here),
        user("u2", "a1", "On", cwd="/home/user/shop/web", gitBranch="main"),
    )

    assert places(into, "claude-code") == [("/home/user/shop", "main"), ("/home/user/shop/web", "main")]


def test_the_folder_the_branch_and_the_title_of_a_rollout_stand_in_its_settings(into: Import) -> None:
    into.records(
        meta(cwd="/home/user/shop", git={"branch": "fix"}),
        codex("turn_context", cwd="/home/user/shop", model="gpt-x", approval_policy="never"),
        message("user", "<environment_context>here</environment_context>"),
        message("user", "Mend the\nshop"),
    )

    assert places(into, "codex")[0] == ("/home/user/shop", "fix")
    assert into.conversation.settings().title == "Mend the shop"


def test_a_rollout_that_was_imported_before_stays_as_it_is_when_more_of_it_is_kept(into: Import) -> None:
    def rollout(**git: str) -> list[Json]:
        return [meta(cwd="/home/user/shop", git=git), message("user", "Mend the shop")]

    into.records(*rollout(branch="fix"))
    before = [entry.digest for entry in into.conversation.entries()]
    into.records(*rollout(branch="fix", commit_hash="c0ffee", repository_url="https://example.org/shop.git"))

    assert [entry.digest for entry in into.conversation.entries()] == before


def test_the_commit_and_the_repository_of_a_rollout_stand_in_its_settings(into: Import) -> None:
    git = {"branch": "fix", "commit_hash": "c0ffee", "repository_url": "https://example.org/shop.git"}
    into.records(meta(cwd="/home/user/shop", git=git), message("user", "Mend the shop"))
    (first, *_) = into.conversation.entries()

    assert isinstance(first.event, ModeSwitch)
    assert first.event.meta["codex"] == {
        "cwd": "/home/user/shop",
        "branch": "fix",
        "commit": "c0ffee",
        "repository": "https://example.org/shop.git",
    }


def test_a_tool_result_has_the_name_of_the_tool_that_was_called(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1", "Read")),
        user("u2", "a1", [tool_result("t1"), tool_result("t9", "of nothing")]),
    )
    assert [event.name for event in into.said if isinstance(event, ToolResult)] == ["Read", ""]

    into.records(
        {**meta(), "payload": {"id": "rollout"}},
        item("function_call", name="shell", call_id="c1", arguments="{}"),
        item("function_call_output", call_id="c1", output="done"),
    )
    assert [event.name for event in into.said if isinstance(event, ToolResult)] == ["shell"]


def test_a_prompt_that_is_queued_and_taken_out_at_once_is_said_once(into: Import) -> None:
    into.records(
        queue("enqueue", content="Count to three"),
        queue("dequeue"),
        user("u1", None, "Count to three"),
        assistant("a1", "u1", text("1, 2, 3")),
    )

    assert [event.text for event in into.said if isinstance(event, UserMessage)] == ["Count to three"]


def test_queued_words_at_the_end_of_a_file_are_kept_until_they_are_delivered(into: Import) -> None:
    waiting = [queue("enqueue", content="Count to three"), queue("dequeue")]
    into.records(*waiting)
    assert [(m.text, m.in_context) for m in into.said if isinstance(m, UserMessage)] == [
        ("Count to three", False)
    ]

    into.records(*waiting, user("u1", None, "Count to three"))
    into.records(*waiting, user("u1", None, "Count to three"))
    said = [(m.text, m.in_context) for m in into.said if isinstance(m, UserMessage)]
    assert said == [("Count to three", False), ("Count to three", True)]


def synthetic(words: str, **fields: Any) -> Json:
    said = assistant("a1", "u1", text(words), **fields)
    said["message"]["model"] = "<synthetic>"
    return said


def test_words_that_claude_code_puts_in_the_place_of_an_answer_are_no_answer(into: Import) -> None:
    into.records(user("u1", None, "Go"), synthetic("Credit balance is too low"), user("u2", "a1", "On"))

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert (error.category, error.message) == ("budget", "Credit balance is too low")
    assert not any(isinstance(event, AssistantMessage) for event in into.said)


def test_that_no_response_was_requested_is_a_note_and_nothing_that_was_said(into: Import) -> None:
    into.records(user("u1", None, "Go"), synthetic("No response requested."), user("u2", "a1", "On"))

    note = into.said[1]
    assert isinstance(note, UserMessage)
    assert (note.author_kind, note.in_context) == ("system", False)
    assert "No response" not in str(into.conversation.request("claude").body)


def test_a_turn_of_codex_that_ends_with_an_error_is_an_error_once(into: Import) -> None:
    into.records(
        meta(),
        screen("task_started"),
        message("user", "Go"),
        screen("task_complete", last_agent_message=None, error={"message": "429 Too Many Requests"}),
        screen("task_started"),
        message("user", "On"),
        screen("error", message="stream disconnected"),
        screen("task_complete", error="stream disconnected"),
        screen("task_started"),
        message("user", "And now"),
        message("assistant", "Done"),
        screen("task_complete", last_agent_message="Done"),
    )

    errors = [event for event in into.said if isinstance(event, LlmError)]
    assert [(error.category, error.message) for error in errors] == [
        ("rate_limited", "429 Too Many Requests"),
        ("network", "stream disconnected"),
    ]


def test_a_call_that_was_open_when_codex_compacted_leaves_the_request(into: Import) -> None:
    into.records(
        meta(),
        message("user", "Go"),
        item("function_call", name="shell", call_id="c1", arguments='{"cmd": "sleep"}'),
        codex("compacted", message="What was done", replacement_history=[]),
        message("user", "On"),
    )

    body = str(into.conversation.request("codex", api="openai-responses").body)
    assert "What was done" in body
    assert "sleep" not in body


def test_records_without_a_folder_leave_the_settings_as_they_were(into: Import) -> None:
    into.records(user("u1", None, "Go"), record("system", "s1", "u1", subtype="turn_duration"))

    assert [switch.meta for switch in into.settings] == [{}]
