"""Claude Code: what each record of a session becomes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from stenolog import AssistantMessage, LlmError, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.events import CallRef, PositionRange, Usage
from stenolog.parts import ImagePart, ProviderPart, ReasoningPart
from tests.transcripts.given import (
    SESSION,
    Import,
    assistant,
    record,
    text,
    tool_result,
    tool_use,
    user,
)


def test_the_conversation_is_named_by_its_session_and_opens_with_mode_and_agent(into: Import) -> None:
    opening = into.records(user("u1", None, "Hi", permissionMode="plan")).settings[0]

    assert list(into.log) == [SESSION]
    assert (opening.mode, opening.scope, opening.joins) == ("plan", "addressed", ("claude",))
    assert into.entries[1].time == datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def test_records_of_one_message_that_follow_each_other_become_one_message(into: Import) -> None:
    usage = {
        "input_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3},
    }
    first = assistant("a1", "u1", {"type": "thinking", "thinking": "Hm", "signature": "sig"}, id="m1")
    second = assistant("a2", "a1", text("Let me look"), id="m1")
    third = assistant("a3", "a2", tool_use("t1", cmd="ls"), id="m1")
    third["message"]["usage"] = {**usage, "output_tokens": 5}
    reason = {"type": "tools_changed", "cache_missed_input_tokens": 12_016}
    third["message"]["diagnostics"] = {"cache_miss_reason": reason}
    third["message"]["stop_reason"] = "tool_use"
    hook = record("progress", "p1", "a1", data={"type": "hook_progress"})

    said = into.records(user("u1", None, "Go"), first, hook, second, third).said[1]

    assert isinstance(said, AssistantMessage)
    assert said.parts == (
        ReasoningPart(text="Hm", provider="anthropic", signature="sig"),
        TextPart(text="Let me look"),
        ToolCall(id="t1", name="Bash", arguments='{"cmd":"ls"}'),
    )
    counts = {"input": 9, "output": 5, "cache_read": 3, "cache_write": 4, "cache_write_hour": 3}
    assert said.usage == Usage(**counts, cache_verdict="tools_changed", cache_missed=12_016)
    assert (said.model, said.finish_reason) == ("claude-x", "tool_use")
    assert said.source is not None
    assert (said.source.id, said.source.lines) == ("m1", ("a1", "a2", "a3"))


def test_blocks_that_come_after_a_result_become_a_further_message_of_the_same_source(into: Import) -> None:
    said = into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1"), id="m1"),
        user("r1", "a1", [tool_result("t1")]),
        assistant("a2", "a1", tool_use("t2"), id="m1"),
        user("r2", "a2", [tool_result("t2")]),
    ).said

    answers = [event for event in said if isinstance(event, AssistantMessage)]
    assert [answer.source.id for answer in answers if answer.source] == ["m1", "m1"]
    assert [event.call for event in said if isinstance(event, ToolResult)] == [
        CallRef(entry="a1", index=0),
        CallRef(entry="a2", index=0),
    ]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "as the file grows"])
def test_tokens_that_each_part_of_a_message_tells_are_counted_once(into: Import, at_once: bool) -> None:
    records = [
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1"), id="m1"),
        user("r1", "a1", [tool_result("t1")]),
        assistant("a2", "a1", tool_use("t2"), id="m1"),
        user("r2", "a2", [tool_result("t2")]),
    ]
    records[1]["message"]["usage"] = {"input_tokens": 2, "cache_read_input_tokens": 30, "output_tokens": 1}
    records[3]["message"]["usage"] = {"input_tokens": 2, "cache_read_input_tokens": 30, "output_tokens": 9}

    if not at_once:
        into.records(*records[:3])
    said = into.records(*records).said

    answers = [event for event in said if isinstance(event, AssistantMessage)]
    assert [answer.usage for answer in answers] == [
        Usage(input=32, output=1, cache_read=30),
        Usage(output=8),
    ]


def test_a_result_belongs_to_the_latest_unanswered_call_of_its_id(into: Import) -> None:
    said = into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t", cmd="1"), tool_use("t", cmd="2")),
        user("r1", "a1", [tool_result("t", "one"), tool_result("t", "two")]),
        assistant("a2", "r1", tool_use("t", cmd="3")),
        user("r2", "a2", [tool_result("t", "three"), tool_result("t", "four")]),
    ).said

    assert [(event.text, event.call) for event in said if isinstance(event, ToolResult)] == [
        ("one", CallRef(entry="a1", index=0)),
        ("two", CallRef(entry="a1", index=1)),
        ("three", CallRef(entry="a2", index=0)),
        ("four", None),
    ]


def test_results_text_and_pictures_of_one_record_become_events_of_their_own(into: Import) -> None:
    data = base64.b64encode(b"a picture").decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}
    result, words = into.records(
        user("u1", None, [tool_result("t1", [text("seen"), image], is_error=True), text("Look"), image])
    ).said

    picture = ImagePart(media_type="image/jpeg", blob=sha256(b"a picture").hexdigest())
    assert isinstance(result, ToolResult)
    assert (result.parts, result.is_error, result.call) == ((TextPart(text="seen"), picture), True, None)
    assert isinstance(words, UserMessage)
    assert words.parts == (TextPart(text="Look"), picture)
    assert into.log.blobs[picture.blob] == b"a picture"


def test_what_is_encrypted_or_unknown_is_kept_for_its_provider(into: Import) -> None:
    redacted = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    server = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "ü"}}
    said = into.records(user("u1", None, "Go"), assistant("a1", "u1", redacted, server)).said[1]

    raw = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"q":"ü"}}'
    assert isinstance(said, AssistantMessage)
    assert said.parts == (
        ReasoningPart(provider="anthropic", encrypted="c2VjcmV0"),
        ProviderPart(provider="anthropic", model="claude-x", raw=raw),
    )


def test_what_claude_code_says_itself_is_the_systems_and_the_rest_is_the_persons(into: Import) -> None:
    said = into.records(
        user("u1", None, "Caveat: The messages below were generated by the user", isMeta=True),
        user("u2", "u1", "<command-name>/model</command-name>"),
        user("u3", "u2", "<local-command-stdout>Set</local-command-stdout>"),
        user("u4", "u3", [text("<system-reminder>Be brief</system-reminder>"), text("Hi")]),
    ).said

    kinds = [event.author_kind for event in said if isinstance(event, UserMessage)]
    assert kinds == ["system", "person", "system", "system", "person"]


def test_an_interruption_is_a_cancelled_call_of_the_model(into: Import) -> None:
    error = into.records(
        user("u1", None, "Go"), user("u2", "u1", [text("[Request interrupted by user]")])
    ).said[1]

    assert isinstance(error, LlmError)
    assert (error.agent, error.category, error.message) == (
        "claude",
        "cancelled",
        "[Request interrupted by user]",
    )


def test_a_failed_call_tells_its_category_attempt_and_when_it_is_tried_again(into: Import) -> None:
    overloaded = {"error": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}
    error = into.records(
        user("u1", None, "Go"),
        record(
            "system",
            "e1",
            "u1",
            subtype="api_error",
            error={"status": 529, **overloaded},
            retryInMs=1500.25,
            retryAttempt=2,
        ),
    ).said[1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message, error.attempt) == ("overloaded", "529 Overloaded", 2)
    assert error.retry_at == datetime(2026, 1, 2, 3, 4, 7, 178250, UTC)


def test_an_error_shown_as_a_message_is_an_error(into: Import) -> None:
    shown = assistant("a1", "u1", text("API Error: 429 rate limit"), isApiErrorMessage=True)
    shown["message"]["model"] = "<synthetic>"
    error = into.records(user("u1", None, "Go"), shown).said[1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message) == ("rate_limited", "API Error: 429 rate limit")


def test_a_compaction_is_a_summary_of_all_the_agent_saw_but_open_calls(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1")),
        user("r1", "a1", [tool_result("t1")]),
        assistant("a2", "r1", tool_use("t2"), tool_use("t3")),
        user("r2", "a2", [tool_result("t2")]),
        record("system", "b1", None, subtype="compact_boundary", logicalParentUuid="r2"),
        user("s1", "b1", "Summary: all went well", isCompactSummary=True),
        assistant("a3", "s1", text("On we go")),
    )

    summary = into.said[-2]
    assert isinstance(summary, AssistantMessage)
    assert (summary.purpose, summary.text) == ("summary", "Summary: all went well")
    assert summary.covers == (PositionRange(first=2, last=5),)
    assert into.entries[5].id == "a2", "the message with the open call stands right behind"


def test_a_later_compaction_covers_what_the_earlier_one_covered(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", text("Yes")),
        user("s1", "a1", "Summary 1", isCompactSummary=True),
        user("u2", "s1", "More"),
        assistant("a2", "u2", text("Done")),
        user("s2", "a2", "Summary 2", isCompactSummary=True),
    )

    covers = [event.covers for event in into.said if isinstance(event, AssistantMessage) and event.covers]
    assert covers == [(PositionRange(first=2, last=4),), (PositionRange(first=2, last=7),)]


def test_modes_models_and_titles_become_mode_switches_before_what_is_said_next(into: Import) -> None:
    other = assistant("a2", "u2", text("Two"))
    other["message"]["model"] = "claude-y"
    into.records(
        user("u1", None, "One"),
        assistant("a1", "u1", text("One")),
        {"type": "permission-mode", "permissionMode": "acceptEdits", "sessionId": SESSION},
        {"type": "ai-title", "aiTitle": "Counting", "sessionId": SESSION},
        user("u2", "a1", "Two"),
        other,
        {"type": "permission-mode", "permissionMode": "default", "sessionId": SESSION},
    )

    settings = into.conversation.settings()
    assert [entry.position for entry in into.entries if entry.event.kind == "mode_switch"] == [1, 3, 5, 7]
    assert (settings.mode, settings.title, settings.cards["claude"].model) == (
        "acceptEdits",
        "Counting",
        "claude-y",
    )


def test_a_summary_record_is_a_title_only_where_it_names_a_record_of_this_session(into: Import) -> None:
    into.records(
        {"type": "summary", "summary": "Another talk", "leafUuid": "elsewhere"},
        user("u1", None, "One"),
        {"type": "summary", "summary": "This talk", "leafUuid": "u1"},
        user("u2", "u1", "Two"),
    )

    assert [switch.title for switch in into.settings if switch.title is not None][-1] == "This talk"


def test_what_is_no_message_is_counted_by_its_type(into: Import) -> None:
    into.records(
        user("u1", None, "One", toolUseResult={"stdout": "x"}),
        {"type": "file-history-snapshot", "snapshot": {}},
        record("system", "s1", "u1", subtype="turn_duration"),
        record("brand-new", "n1", "s1"),
    )

    assert into.report.conversations[0].ignored == {
        "toolUseResult": 1,
        "file-history-snapshot": 1,
        "system/turn_duration": 1,
        "brand-new": 1,
    }


def test_a_record_that_comes_again_is_recognised_by_its_uuid(into: Import) -> None:
    once = user("u1", None, "One")

    assert len(into.records(once, once, once).said) == 1
    assert into.report.conversations[0].ignored == {"repeated record": 2}


def test_two_sessions_in_one_file_are_two_conversations(into: Import) -> None:
    into.records(user("u1", None, "One"), user("v1", None, "Uno", sessionId="other"), user("u2", "u1", "Two"))

    assert list(into.log) == [SESSION, "other"]
    assert [event.text for event in into.said if isinstance(event, UserMessage)] == ["One", "Two"]


def test_the_file_order_is_the_order_though_times_run_backwards(into: Import) -> None:
    into.records(
        user("u1", None, "One", timestamp="2026-01-02T00:00:02Z"),
        user("u2", "u1", "Two", timestamp="2026-01-02T00:00:01Z"),
        user("u3", "u2", "Three", timestamp="no time at all"),
    )

    assert [entry.time.second for entry in into.entries if entry.event.kind == "user_message"] == [2, 1, 1]


def test_calls_and_results_as_records_of_their_own_are_taken_too(into: Import) -> None:
    call = {
        "type": "tool_use",
        "sessionId": SESSION,
        "uuid": "t1",
        "name": "bash",
        "input": {"command": "ls"},
    }
    result = {"type": "tool_result", "sessionId": SESSION, "uuid": "r1", "name": "bash", "output": "README"}
    said = into.records(user("u1", None, "Go"), call, result).said

    assert isinstance(said[1], AssistantMessage)
    assert said[1].parts == (ToolCall(id="t1", name="bash", arguments='{"command":"ls"}'),)
    assert isinstance(said[2], ToolResult)
    assert (said[2].text, said[2].call) == ("README", CallRef(entry="t1", index=0))
