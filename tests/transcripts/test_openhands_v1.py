"""Conversations of OpenHands V1, made up by the SDK's schemas: on lines, in a list, and in a folder."""

from __future__ import annotations

from pathlib import Path

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.events import LlmError, Usage
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import (
    assert_accepted,
)
from tests.transcripts.given import Import, Json, lines
from tests.transcripts.openhands_given import ONE, act, answered, asked, event, observed


def test_calls_of_one_response_are_one_message_with_reasoning_tokens_and_costs(into: Import) -> None:
    into.records(*ONE)
    first, second, third, last = (event for event in into.said if isinstance(event, AssistantMessage))
    card = into.conversation.settings().card_of("openhands")

    assert [type(part) for part in first.parts] == [ReasoningPart, TextPart, ToolCall, ToolCall]
    assert (first.parts[0].text, first.parts[0].signature) == ("Two at once.", "c2ln")  # type: ignore[union-attr]
    assert [call.id for call in first.tool_calls] == ["c1", "c2"]
    assert first.usage == Usage(input=100, output=10, cost=250_000)
    assert second.usage == Usage(input=200, output=20, cost=250_000)
    assert (third.usage, last.text, last.model) == (None, "Done.", "m-1")
    assert card.persona == "You are OpenHands.\n\nThe folder is /shop."
    assert [tool.name for tool in card.tools or ()] == ["terminal", "think"]


def test_results_have_their_calls_and_failed_ones_are_errors(into: Import) -> None:
    into.records(*ONE)
    results = [event for event in into.said if isinstance(event, ToolResult)]

    assert [(result.call_id, result.is_error, result.call is not None) for result in results] == [
        ("c1", False, True),
        ("c2", True, True),
        ("c3", True, True),
        ("c4", True, True),
    ]
    assert results[0].text == "a.txt\n[exit code 0]"
    assert [results[2].text, results[3].text] == ["Not that.", "Unknown tool."]


def test_words_that_the_context_adds_to_a_message_are_by_the_system(into: Import) -> None:
    into.records(*ONE)
    messages = [event for event in into.said if isinstance(event, UserMessage)]

    assert [(message.text, message.author_kind) for message in messages] == [
        ("Build it.", "person"),
        ("Remember the house rules.", "system"),
        ("Thanks.", "person"),
    ]


def test_a_condensation_is_a_summary_and_forgets_an_earlier_one_by_its_name(
    into: Import, tmp_path: Path
) -> None:
    def condensed(id: str, *forgotten: str, summary: str) -> Json:
        ids = {"forgotten_event_ids": list(forgotten), "summary": summary, "summary_offset": 1}
        return event("Condensation", id, "environment", llm_response_id="r9", **ids)

    records = [
        *ONE,
        condensed("k1", "e2", "e3", "e4", "e5", summary="Both were looked at."),
        asked("e12", "Go on."),
        answered("e13", "I do."),
        condensed("k2", "k1-summary", "e6", "e7", "e12", summary="All was looked at."),
        asked("e14", "And?"),
    ]
    into.records(*records)
    body = str(into.conversation.request("openhands", api="anthropic").body)

    assert [words in body for words in ("Build it.", "All was looked at.", "Done.", "And?")] == [True] * 4
    assert not any(words in body for words in ("a.txt", "Both were looked at.", "Not that.", "Go on."))
    assert into.report.conversations[0].decisions == {"condensation as a summary": 2}
    path = tmp_path / "condensed.jsonl"
    path.write_bytes(lines(*records))
    assert_accepted(path)


def test_a_response_is_forgotten_as_a_whole_and_no_message_by_two_summaries(into: Import) -> None:
    def condensed(id: str, *forgotten: str, summary: str) -> Json:
        ids = {"forgotten_event_ids": list(forgotten), "summary": summary, "llm_response_id": "r9"}
        return event("Condensation", id, "environment", **ids)

    into.records(
        *ONE,
        condensed("k1", "e3", "e4", "e5", summary="Both were looked at."),
        condensed("k2", "e5", "e6", "e7", summary="Another was refused."),
    )
    first, second = (
        event.covers
        for event in into.said
        if isinstance(event, AssistantMessage) and event.purpose == "summary"
    )
    answer = next(entry for entry in into.entries if isinstance(entry.event, AssistantMessage))

    assert first[0].first == answer.position
    assert first[-1].last < second[0].first
    assert into.conversation.state().anomalies == 0


def test_a_summary_never_covers_a_call_whose_result_is_still_to_come(into: Import) -> None:
    forgotten = {"forgotten_event_ids": ["e1", "e2"], "summary": "They met.", "llm_response_id": "r"}
    into.records(
        asked("e1", "Hi."),
        act("e2", "c1", "r1"),
        event("Condensation", "k", "environment", **forgotten),
        observed("e3", "c1", "e2", "late"),
        asked("e4", "And?"),
    )

    assert into.conversation.state().anomalies == 0
    assert "They met." in str(into.conversation.request("openhands", api="anthropic").body)


def test_going_back_hides_the_branch_and_keeps_it_as_a_fork(into: Import, tmp_path: Path) -> None:
    chain = [asked("a", "One."), answered("b", "Uno.", parent_id="a"), asked("c", "Two.", parent_id="b")]
    into.records(*chain, answered("d", "Due.", parent_id="c"), asked("e", "Three.", parent_id="b"))
    body = str(into.conversation.request("openhands", api="openai-chat").body)

    assert [words in body for words in ("One.", "Uno.", "Two.", "Due.", "Three.")] == [
        True, True, False, False, True,
    ]  # fmt: skip
    assert len(into.report.conversations[0].forks) == 1
    assert_accepted(tmp_path / "talk.jsonl")


def test_going_back_to_the_root_hides_all(into: Import) -> None:
    into.records(asked("a", "One."), answered("b", "Uno."), asked("c", "Two.", parent_id="__root__"))
    body = str(into.conversation.request("openhands", api="openai-chat").body)

    assert ("One." in body, "Two." in body) == (False, True)


def test_errors_and_interrupts_are_errors_of_the_model(into: Import) -> None:
    into.records(
        asked("a", "One."),
        event(
            "ConversationErrorEvent", "b", "environment", code="LLMRateLimitError", detail="Too many requests"
        ),
        event("InterruptEvent", "c", "user"),
        event("PauseEvent", "d", "user"),
    )
    errors = [event for event in into.said if isinstance(event, LlmError)]

    assert [error.category for error in errors] == ["rate_limited", "cancelled"]
    assert errors[0].message == "LLMRateLimitError: Too many requests"
    assert into.report.conversations[0].ignored == {"PauseEvent": 1}


def test_calls_of_an_agent_behind_acp_are_written_once_they_are_finished(into: Import) -> None:
    call: Json = {
        "tool_call_id": "t1",
        "title": "Read a.txt",
        "tool_kind": "read",
        "raw_input": {"path": "a.txt"},
    }
    into.records(
        asked("a", "One."),
        event("ACPToolCallEvent", "b", status="in_progress", **call),
        event("ACPToolCallEvent", "c", status="completed", raw_output="Alpha", **call),
    )
    answer, result = into.said[1:]

    assert isinstance(answer, AssistantMessage)
    assert (answer.tool_calls[0].name, answer.tool_calls[0].arguments) == ("read", '{"path":"a.txt"}')
    assert isinstance(result, ToolResult)
    assert (result.text, result.meta) == ("Alpha", {"openhands": {"title": "Read a.txt"}})


def test_pictures_are_blobs(into: Import) -> None:
    see = {"role": "user", "content": [{"type": "image", "image_urls": ["data:image/png;base64,aGk="]}]}
    into.records(event("MessageEvent", "a", "user", llm_message=see))
    (message,) = into.said

    assert isinstance(message, UserMessage)
    assert [type(part) for part in message.parts] == [ImagePart]
