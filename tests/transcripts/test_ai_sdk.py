"""UI messages of the AI SDK: real ones, made by its versions 5 and 7, and what they hold beyond that.

The files in `sessions/` are what `readUIMessageStream` made of a `streamText` with a thought, two tools, one
of which failed, and a second step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, LlmError, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.events import ModeSwitch, Usage
from stenolog.importers import import_file, recognise
from stenolog.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import (
    digests_of,
)
from tests.transcripts.given import Import, Json, lines

HERE = Path(__file__).parent / "sessions"
FILES = [HERE / "ai-sdk-5.json", HERE / "ai-sdk-7.json"]


def user(phrase: str, id: str = "u1", **fields: Any) -> Json:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": phrase}], **fields}


def assistant(*parts: Json, id: str = "a1", **fields: Any) -> Json:
    return {"id": id, "role": "assistant", "parts": [{"type": "step-start"}, *parts], **fields}


def text(phrase: str, state: str = "done") -> Json:
    return {"type": "text", "text": phrase, "state": state}


def tool(state: str, id: str = "c1", **fields: Any) -> Json:
    return {"type": "tool-look-up", "toolCallId": id, "state": state, "input": {"q": "x"}, **fields}


def chat(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"id": "chat-1", "messages": list(messages), **fields}).encode()


def events_in(conversation: Conversation) -> list[Any]:
    return [entry.event for entry in conversation if not isinstance(entry.event, ModeSwitch)]


def texts(into: Import) -> list[str]:
    return [getattr(event, "text", "") for event in into.said]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_real_chat_is_the_conversation_that_it_was(into: Import, path: Path) -> None:
    (found,) = import_file(into.log, path).conversations
    conversation = into.log["chat-1"]
    asked, first, good, bad, last = events_in(conversation)

    assert found.name == "chat-1"
    assert [type(part) for part in asked.parts] == [TextPart, ImagePart]
    assert into.log.blobs[asked.parts[1].blob] == b"hi"
    assert first.parts == (
        ReasoningPart(text="I look both up.", provider="anthropic", signature="c2ln"),
        TextPart(text="Let me look."),
        ToolCall(id="call_1", name="weather", arguments='{"city":"Riga"}'),
        ToolCall(id="call_2", name="broken", arguments='{"city":"Oslo"}'),
    )
    assert [(r.name, r.is_error, r.call.index) for r in (good, bad)] == [
        ("weather", False, 0),
        ("broken", True, 1),
    ]
    assert (last.text, last.usage) == ("Riga has 21 degrees.", Usage(input=20, output=10))
    assert last.meta["ai-sdk"]["metadata"]["createdAt"] == 1767322800000
    assert (first.model, conversation.settings().card_of("assistant").model) == (
        "claude-opus-5",
        "claude-opus-5",
    )
    assert conversation.settings().title == "How warm is it in Riga and Oslo?"
    assert conversation[-1].time.year == 2026


def test_a_chat_that_grows_gives_the_same_requests(tmp_path: Path) -> None:
    pending, done = tool("input-available"), tool("output-available", output="found")
    more = user("More", "u2")
    states = [
        [user("Hi")],
        [user("Hi"), assistant(text("Hel", "streaming"))],
        [user("Hi"), assistant(text("Hello"))],
        [user("Hi"), assistant(text("Hello"), tool("input-streaming", input=None))],
        [user("Hi"), assistant(text("Hello"), pending)],
        [user("Hi"), assistant(text("Hello"), done)],
        [user("Hi"), assistant(text("Hello"), done, {"type": "step-start"}, text("Found"))],
        [user("Hi"), assistant(text("Hello"), done, {"type": "step-start"}, text("Found")), more],
    ]
    versions = [chat(*messages) for messages in states]
    copy = tmp_path / "chat.json"
    complete = digests_of(copy, versions[-1])

    for version in versions:
        assert digests_of(copy, version, versions[-1]) == complete, version
    assert digests_of(copy, *versions) == complete


def test_an_answer_that_was_left_off_is_an_error_with_what_had_come(into: Import) -> None:
    conversation = into.file(chat(user("Hi"), assistant(text("Hel", "streaming")))).conversation
    cut = into.said[1]
    into.file(chat(user("Hi"), assistant(text("Hello"))))

    assert isinstance(cut, LlmError)
    assert (cut.category, cut.text) == ("cancelled", "Hel")
    assert [event.kind for event in events_in(conversation)] == [
        "user_message",
        "llm_error",
        "assistant_message",
    ]
    assert "Hel'" not in str(conversation.request("assistant", api="openai-chat").body)


def test_a_message_that_another_one_replaced_is_hidden_and_stays_in_the_log(into: Import) -> None:
    into.file(chat(user("Hi"), assistant(text("Ho"), id="a1")))
    conversation = into.file(chat(user("Hi"), assistant(text("Hey"), id="a2"))).conversation
    found = into.report.conversations[0]
    again = into.file(chat(user("Hi"), assistant(text("Hey"), id="a2"))).report
    body = str(conversation.request("assistant", api="openai-chat").body)

    into.file(chat(user("Hi"), assistant(text("Ho"), id="a1")))
    back = str(conversation.request("assistant", api="openai-chat").body)

    assert (found.appended, found.decisions) == (2, {"taken out of the chat": 1})
    assert again.conversations[0].appended == 0
    assert [event.text for event in events_in(conversation)] == ["Hi", "Ho", "Hey"]
    assert ("Hey" in body, "Ho'" in body) == (True, False)
    assert ("Hey" in back, "Ho'" in back) == (False, True)


def test_a_message_that_was_edited_under_its_id_takes_the_place_of_the_old_one(into: Import) -> None:
    into.file(chat(user("Hi"), assistant(text("Ho")), user("One?", "u2"), assistant(text("1"), id="a2")))
    edited = chat(user("Hi"), assistant(text("Ho")), user("Two?", "u2"), assistant(text("2"), id="a3"))
    conversation = into.file(edited).conversation
    again = into.file(edited).report
    body = str(conversation.request("assistant", api="openai-chat").body)

    assert [event.text for event in events_in(conversation)] == ["Hi", "Ho", "One?", "1", "Two?", "2"]
    assert [phrase in body for phrase in ("Ho", "One?", "Two?")] == [True, False, True]
    assert again.conversations[0].appended == 0


def test_another_list_of_messages_under_the_same_name_is_refused(into: Import) -> None:
    first, other = ([user(phrase), assistant(text("Ho"))] for phrase in ("Hi", "Good morning"))
    into.file(json.dumps(first).encode(), "chat.json")
    (found,) = into.file(json.dumps(other).encode(), "chat.json").report.conversations

    assert "is it another chat? Then give it another name" in found.failed
    assert found.appended == 0


def test_a_refused_call_has_failed_with_the_reason_and_one_that_waits_is_open(into: Import) -> None:
    no = {"id": "p1", "approved": False, "reason": "too dear"}
    conversation = into.file(
        chat(
            user("Buy"),
            assistant(
                tool("output-denied", "c1", approval={"id": "p1", "approved": False}),
                tool("approval-responded", "c2", approval=no),
                tool("approval-requested", "c3", approval={"id": "p3"}),
                tool("output-available", "c4", output="so far", preliminary=True),
            ),
        )
    ).conversation
    results = [event for event in events_in(conversation) if event.kind == "tool_result"]

    assert [(r.call_id, r.is_error, r.text) for r in results] == [
        ("c1", True, "Tool call execution denied."),
        ("c2", True, "too dear"),
    ]
    assert results[0].name == "look-up"


def test_what_an_mcp_server_returned_is_parts(into: Import) -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    output = {"content": [{"type": "text", "text": "a map"}, picture], "isError": True}
    into.file(chat(user("Hi"), assistant(tool("output-available", output=output))))
    result: Any = into.said[2]

    assert [type(part) for part in result.parts] == [TextPart, ImagePart]
    assert (into.log.blobs[result.parts[1].blob], result.is_error) == (b"hi", True)


def test_parts_that_no_api_knows_stay_as_their_json(into: Import) -> None:
    parts: list[Json] = [
        {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        {"type": "data-chart", "data": {"points": [1]}},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
        {
            "type": "dynamic-tool",
            "toolName": "mcp",
            "toolCallId": "d1",
            "state": "output-error",
            "errorText": "no",
        },
    ]
    answer = into.file(chat(user("Hi"), assistant(*parts, text("See")))).said[1]

    assert isinstance(answer, AssistantMessage)
    assert [type(part) for part in answer.parts] == [ProviderPart] * 3 + [ToolCall, TextPart]
    assert json.loads(getattr(answer.parts[1], "raw", "")) == parts[1]
    assert [call.name for call in answer.tool_calls] == ["mcp"]


def test_files_of_a_person_are_blobs_addresses_or_ids(into: Import) -> None:
    parts = [
        {
            "type": "file",
            "mediaType": "application/pdf",
            "filename": "a.pdf",
            "url": "data:application/pdf;base64,aGk=",
        },
        {"type": "file", "mediaType": "image/*", "url": "https://example.org/a.png"},
        {"type": "file", "mediaType": "text/plain", "url": "", "providerReference": {"openai": "file-1"}},
        {"type": "data-place", "data": {"city": "Riga"}},
    ]
    entries = into.file(chat({"id": "u", "role": "user", "parts": parts}, assistant(text("Yes")))).said[0]

    assert isinstance(entries, UserMessage)
    assert [type(part) for part in entries.parts] == [FilePart, ImagePart, FilePart, ProviderPart]
    assert (getattr(entries.parts[0], "name", ""), getattr(entries.parts[2], "id", "")) == ("a.pdf", "file-1")


def test_instructions_are_on_the_card_and_later_ones_a_message_by_the_system(into: Import) -> None:
    system = {"role": "system", "parts": [{"type": "text", "text": "Be brief."}]}
    conversation = into.file(
        chat({**system, "id": "s1"}, user("Hi"), {**system, "id": "s2"}, assistant(text("Ho")))
    ).conversation

    assert conversation.settings().card_of("assistant").persona == "Be brief."
    assert [getattr(e, "author_kind", "") for e in events_in(conversation)] == ["person", "system", ""]


def test_a_list_of_messages_rows_of_several_chats_and_lines_are_read(into: Import) -> None:
    messages = [user("Hi"), assistant(text("Ho"))]
    rows = [message | {"chatId": id} for id in ("x", "y") for message in messages]
    in_list = into.file(json.dumps(messages).encode(), "list.json").report
    in_rows = into.file(json.dumps(rows).encode(), "rows.json").report
    on_lines = into.file(lines(*messages), "lines.jsonl").report
    chats = into.file(lines(*(json.loads(chat(*messages)) | {"id": id} for id in "ab")), "chats.jsonl").report

    assert [found.name for found in in_list.conversations] == ["list"]
    assert [found.name for found in in_rows.conversations] == ["x", "y"]
    assert [found.name for found in on_lines.conversations] == ["lines"]
    assert [found.name for found in chats.conversations] == ["a", "b"]


@pytest.mark.parametrize(
    ("expected", "other"),
    [
        ("openai-chat", [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]),
        ("openai-chat", [{"id": "1", "role": "user", "content": "Hi"}]),
        (
            "openai-chat",
            {"id": "c", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        ),
        ("", [{"role": "user", "parts": [{"text": "Hi"}]}]),
        ("", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
        ("", [{"role": "user", "parts": []}]),
    ],
)
def test_messages_of_a_provider_are_not_taken_for_ui_messages(
    tmp_path: Path, expected: str, other: Any
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    try:
        found = recognise(path)
    except UnknownFormatError:
        found = ""

    assert found == expected
