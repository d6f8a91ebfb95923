"""Words that stand in unusual places of a session, and that the model was or was not sent."""

from __future__ import annotations

import json

from stenolog import AssistantMessage, LlmError, UserMessage
from stenolog.importers import import_file
from stenolog.parts import ReasoningPart, TextPart
from tests.transcripts.given import (
    Import,
    assistant,
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

REFUSED = record(
    "system",
    "s",
    "a",
    subtype="model_refusal_fallback",
    apiRefusalCategory="cyber",
    apiRefusalExplanation="Refused for policy reasons.",
    retractedMessageUuids=["a"],
)


def test_an_answer_that_a_refusal_took_back_is_not_sent_and_the_reason_is_kept(into: Import) -> None:
    into.records(
        user("u", None, "Go"),
        assistant("a", "u", text("Taken back"), tool_use("t")),
        user("r", "a", [tool_result("t", "rows")]),
        REFUSED,
        assistant("b", "s", text("The other model's")),
        user("v", "b", "And?"),
    )
    sent = json.dumps(into.conversation.request("claude", api="anthropic").body)

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert (error.category, error.message) == ("refused", "cyber: Refused for policy reasons.")
    assert not any(words in sent for words in ("Taken back", "rows"))
    assert "The other model's" in sent
    assert into.conversation.state().anomalies == 0


def test_a_message_that_is_a_text_is_read(into: Import) -> None:
    into.records(user("u", None, "Go"), record("user", "v", "u", message="Plain"))

    assert [event.text for event in into.said if isinstance(event, UserMessage)] == ["Go", "Plain"]


def test_what_streamed_before_an_interruption_is_in_its_error(into: Import) -> None:
    reasoning = item("reasoning", summary=[{"type": "summary_text", "text": "Old thought"}])
    into.records(
        meta(),
        message("user", "Fix it"),
        screen("agent_reasoning", text="Old thought"),
        reasoning,
        message("assistant", "Said"),
        screen("agent_message", message="Said"),
        screen("agent_reasoning", text="New thought"),
        screen("agent_message", message="I begin"),
        screen("turn_aborted", reason="interrupted"),
        message("user", "Go on"),
    )

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert error.parts == (ReasoningPart(text="New thought", provider="openai"), TextPart("I begin"))


def test_the_words_of_an_error_may_be_one_level_deeper(into: Import) -> None:
    into.records(meta(), message("user", "Hi"), screen("error", error={"message": "overloaded"}))

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert error.message == "overloaded"


def test_messages_of_gemini_cli_without_ids_are_known_by_their_places(into: Import) -> None:
    said = [{"type": "user", "content": "hello"}, {"type": "gemini", "content": "Hi", "model": "gemini-x"}]
    chat = {"sessionId": "s", "projectHash": "h", "messages": said}
    into.file(json.dumps(chat).encode(), "chat.json")
    grown = {**chat, "messages": [*said, {"type": "user", "content": "And?"}]}
    (into._folder / "chat.json").write_text(json.dumps(grown))

    assert import_file(into.log, into._folder / "chat.json").conversations[0].appended == 1
    assert [getattr(event, "text", "") for event in into.said] == ["hello", "Hi", "And?"]
    assert any(isinstance(event, AssistantMessage) for event in into.said)
