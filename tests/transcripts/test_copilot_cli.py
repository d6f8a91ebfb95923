"""Sessions of GitHub Copilot CLI, `events.jsonl`."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.parts import ImagePart, ReasoningPart, TextPart
from tests.transcripts.copilot_given import answer, call, result, session, shown, user
from tests.transcripts.given import Import, Json
from tests.transcripts.soundness import assert_sound


def test_what_copilot_puts_around_typed_words_is_by_the_system(into: Import) -> None:
    sent = "<current_datetime>now</current_datetime>\n\nHi\n\n<system_reminder>Two tables.</system_reminder>"
    into.records(
        *session(
            ("system.message", {"role": "system", "content": "You are Copilot."}),
            user("Hi", transformedContent=sent),
            answer("Ho.", outputTokens=7, messageId="m1"),
        )
    )
    *asked, said = into.said
    settings = into.conversation.settings()

    assert [
        (event.author_kind, event.text.strip()[:20]) for event in asked if isinstance(event, UserMessage)
    ] == [
        ("system", "<current_datetime>no"),
        ("person", "Hi"),
        ("system", "<system_reminder>Two"),
    ]
    assert isinstance(said, AssistantMessage)
    assert (said.text, said.model, said.source and said.source.id) == ("Ho.", "gpt-x", "m1")
    assert said.usage is not None
    assert said.usage.output == 7
    assert (into.report.conversations[0].name, settings.title) == ("s-1", "Hi")
    assert (settings.card_of("copilot").persona, settings.card_of("copilot").model) == (
        "You are Copilot.",
        "gpt-x",
    )
    about = {"cwd": "/home/user/shop", "branch": "main", "commit": "abc", "repository": "me/shop"}
    assert into.settings[0].meta == {"copilot-cli": {**about, "version": "1.0.64"}}


def test_words_that_the_model_got_in_another_form_are_taken_in_that_form(into: Import) -> None:
    into.records(*session(user("/plan it", transformedContent="Make a plan."), answer("Done.")))

    assert [getattr(event, "text", "") for event in into.said] == ["Make a plan.", "Done."]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "person"),
        ({"source": "user"}, "person"),
        ({"source": "skill-pdf"}, "system"),
        ({"source": "schedule-1"}, "schedule"),
        ({"isAutopilotContinuation": True}, "system"),
    ],
)
def test_a_message_in_the_users_name_tells_who_wrote_it(into: Import, fields: Json, kind: str) -> None:
    into.records(*session(user("Go on.", **fields)))
    (asked,) = into.said

    assert isinstance(asked, UserMessage)
    assert asked.author_kind == kind


def test_a_call_has_its_result_and_a_failed_one_its_error(into: Import) -> None:
    raw = {**call("c2"), "arguments": "{raw", "type": "custom"}
    failed = {"toolCallId": "c2", "success": False, "error": {"message": "no such shell", "code": "x"}}
    into.records(
        *session(
            user("List it."),
            answer("I look.", call("c1", command="ls"), raw),
            ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {}}),
            result("c1", "a.txt"),
            ("tool.execution_complete", failed),
        )
    )
    said, first, second = into.said[1:]

    assert isinstance(said, AssistantMessage)
    assert [(each.arguments, each.form) for each in said.tool_calls] == [
        ('{"command":"ls"}', ""),
        ("{raw", "custom"),
    ]
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert (first.name, first.text, first.is_error) == ("bash", "a.txt", False)
    assert (second.text, second.is_error, second.call is not None) == ("no such shell", True, True)


def test_pictures_are_blobs_wherever_the_session_keeps_their_bytes(into: Import) -> None:
    asset = {"assetId": "sha256:1", "data": "aGk=", "mimeType": "image/png", "byteLength": 2, "type": "image"}
    attached = [
        {"type": "blob", "assetId": "sha256:1", "mimeType": "image/png"},
        {"type": "file", "path": "/x/a.py", "displayName": "a.py"},
    ]
    shot = {"content": "a screen", "binaryResultsForLlm": [{"data": "aG8=", "mimeType": "image/png"}]}
    into.records(
        *session(
            ("session.binary_asset", asset),
            user("See", attachments=attached),
            answer("", call("c1", "screenshot")),
            result("c1", result=shot),
        )
    )
    asked, _, output = into.said

    assert isinstance(asked, UserMessage)
    assert [type(part) for part in asked.parts] == [TextPart, ImagePart]
    assert asked.meta == {"copilot-cli": {"attachments": attached}}
    assert isinstance(output, ToolResult)
    assert [type(part) for part in output.parts] == [TextPart, ImagePart]
    assert shown(into, "a screen") == [True]


def test_reasoning_that_an_answer_repeats_is_there_once(into: Import) -> None:
    into.records(
        *session(
            user("Hi"),
            ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
            answer("Ho.", reasoningText="Hm.", reasoningOpaque="sig"),
            ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
            ("assistant.reasoning", {"reasoningId": "r2", "content": "And now?"}),
            ("abort", {"reason": "user_initiated"}),
        )
    )
    said, thought, stopped = into.said[1:]

    assert isinstance(said, AssistantMessage)
    assert said.parts[0] == ReasoningPart(text="Hm.", provider="copilot", signature="sig")
    assert isinstance(thought, AssistantMessage)
    assert thought.parts == (ReasoningPart(text="And now?", provider="copilot"),)
    assert isinstance(stopped, LlmError)
    assert (stopped.category, stopped.message) == ("cancelled", "user_initiated")
    assert_sound(into.log)


def test_reasoning_at_the_end_of_a_file_waits_for_its_answer(into: Import) -> None:
    records = session(
        user("Hi"),
        ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
        answer("Ho.", reasoningText="Hm."),
    )
    waits = into.records(*records[:3]).report.conversations[0].ignored
    assert waits["reasoning without an answer yet"] == 1
    into.records(*records)
    parts = [part for event in into.said if isinstance(event, AssistantMessage) for part in event.parts]

    assert [type(part) for part in parts] == [ReasoningPart, TextPart]


@pytest.mark.parametrize(
    ("kind", "data", "category"),
    [
        ("session.error", {"errorType": "quota", "message": "no more"}, "budget"),
        ("session.error", {"errorType": "query", "message": "Hm", "statusCode": 429}, "rate_limited"),
        ("model.call_failure", {"errorMessage": "fetch failed"}, "network"),
    ],
)
def test_an_error_has_its_category(into: Import, kind: str, data: Json, category: str) -> None:
    into.records(*session(user("Hi"), (kind, data)))
    failed = into.said[1]

    assert isinstance(failed, LlmError)
    assert failed.category == category


def test_mode_model_and_title_are_settings(into: Import) -> None:
    into.records(
        *session(
            ("session.model_change", {"newModel": "gpt-y", "reasoningEffort": "high"}),
            ("session.mode_changed", {"newMode": "plan", "previousMode": "interactive"}),
            ("session.title_changed", {"title": "the bell"}),
            user("Hi"),
        )
    )
    settings = into.conversation.settings()

    assert (settings.mode, settings.title, settings.card_of("copilot").model) == ("plan", "the bell", "gpt-y")
