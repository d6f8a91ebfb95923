"""Message histories of pydantic-ai are taken down, and come back as they were."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import (
    Agent,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RequestUsage,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import CompactionPart, RetryFeedbackPart, RetryInfo
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
    VersionConflictError,
)
from stenolog.events import Usage
from stenolog.frameworks import append_pydantic_ai, to_pydantic_ai
from stenolog.parts import ImagePart
from tests.frameworks.pydantic_ai_runs import as_json, run
from tests.strategies import json_values

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
PIXEL = b"\xff\xfe\xfb\xef"


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call two tools, and then answer."""
    returns = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returns:
        return ModelResponse(parts=[TextPart("; ".join(str(part.content) for part in returns))])
    thought = ThinkingPart("Both pages.", signature="c2ln", provider_name="anthropic")
    calls = [ToolCallPart("fetch", {"page": page}, tool_call_id=f"c-{page}-{len(messages)}") for page in "ab"]
    return ModelResponse(
        parts=[thought, TextPart("I look."), *calls], usage=RequestUsage(input_tokens=9, output_tokens=4)
    )


def librarian() -> Agent[None, str]:
    agent = Agent(FunctionModel(scripted), instructions="You know all books.")

    @agent.tool_plain
    def fetch(page: str) -> dict[str, str]:
        return {"page": page}

    return agent


def test_what_an_agent_did_is_taken_down_and_goes_on_from_the_log(conversation: Conversation) -> None:
    first = run(librarian(), "Read")
    append_pydantic_ai(conversation, first.all_messages())
    history = to_pydantic_ai(conversation)
    second = run(librarian(), "Again", message_history=history)
    append_pydantic_ai(conversation, second.all_messages())

    assert as_json(history) == as_json(first.all_messages())
    assert as_json(to_pydantic_ai(conversation)) == as_json(second.all_messages())
    assert [entry.event.kind for entry in conversation.entries()] == ["mode_switch"] + 2 * [
        "user_message",
        "assistant_message",
        "tool_result",
        "tool_result",
        "assistant_message",
    ]


def test_the_events_are_those_of_any_other_conversation(conversation: Conversation) -> None:
    append_pydantic_ai(conversation, run(librarian(), "Read").all_messages())
    switch, asked, called, *results, answered = [entry.event for entry in conversation.entries()]

    assert isinstance(switch, ModeSwitch)
    assert switch.cards["assistant"].persona == "You know all books."  # type: ignore[union-attr]
    assert isinstance(asked, UserMessage)
    assert asked.text == "Read"
    assert isinstance(called, AssistantMessage)
    assert called.tool_calls[0] == ToolCall(id="c-a-1", name="fetch", arguments='{"page":"a"}')
    assert called.usage == Usage(input=9, output=4)
    assert [(result.name, result.text) for result in results if isinstance(result, ToolResult)] == [
        ("fetch", '{"page":"a"}'),
        ("fetch", '{"page":"b"}'),
    ]
    assert isinstance(answered, AssistantMessage)
    assert answered.model == "function:scripted:"


def test_appending_twice_appends_nothing_and_a_longer_history_only_what_is_new(
    conversation: Conversation,
) -> None:
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Hello", timestamp=AT)]),
        ModelResponse(parts=[TextPart("Yes?")], timestamp=AT),
    ]

    first = append_pydantic_ai(conversation, history)
    again = append_pydantic_ai(conversation, history)
    shorter = append_pydantic_ai(conversation, history[:1])
    more = append_pydantic_ai(
        conversation, [*history, ModelRequest(parts=[UserPromptPart("Go on", timestamp=AT)])]
    )

    assert [len(first), len(again), len(shorter), len(more)] == [3, 0, 0, 1]


def test_a_history_that_goes_on_elsewhere_is_refused_and_nothing_is_written(
    conversation: Conversation,
) -> None:
    one = run(librarian(), "One").all_messages()
    append_pydantic_ai(conversation, one)
    mine = run(librarian(), "Mine", message_history=one).all_messages()
    append_pydantic_ai(conversation, run(librarian(), "Another's", message_history=one).all_messages())
    position = conversation.position

    with pytest.raises(VersionConflictError):
        append_pydantic_ai(conversation, mine)

    assert conversation.position == position


def test_a_history_that_was_rewritten_takes_the_place_and_the_log_keeps_both(
    conversation: Conversation,
) -> None:
    one = run(librarian(), "One").all_messages()
    append_pydantic_ai(conversation, one)
    compacted: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("In short: one.")]), one[-1]]

    append_pydantic_ai(conversation, compacted, replace=True)

    assert as_json(to_pydantic_ai(conversation)) == as_json(compacted)
    assert [entry.event.text for entry in conversation.entries() if isinstance(entry.event, UserMessage)] == [
        "One",
        "In short: one.",
    ]


def test_a_request_of_the_conversation_shows_what_was_said(conversation: Conversation) -> None:
    append_pydantic_ai(conversation, run(librarian(), "Read").all_messages())

    body = conversation.request("assistant", at=5, api="anthropic").body

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["system"][0]["text"] == "You know all books."


def test_the_log_keeps_no_text_twice(conversation: Conversation) -> None:
    append_pydantic_ai(conversation, run(librarian(), "Read all of it").all_messages())

    stored = b"".join(record.payload for record in conversation.records())

    words = (b"Read all of it", b"Both pages.", b"I look.", b'\\"page\\":\\"a\\"}"', b"You know all books.")
    assert [stored.count(word) for word in words] == [1, 1, 1, 2, 1]


def test_pictures_of_prompts_and_of_results_are_blobs(conversation: Conversation) -> None:
    picture = BinaryContent(PIXEL, media_type="image/png")
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["Look", picture])]),
        ModelResponse(parts=[ToolCallPart("a", '{"x": 1}', tool_call_id="c1")]),
        ModelRequest(parts=[ToolReturnPart("a", ["seen", picture], "c1")]),
    ]
    append_pydantic_ai(conversation, history)

    pictures = [
        part
        for entry in conversation.entries()
        if isinstance(entry.event, UserMessage | ToolResult)
        for part in entry.event.parts
        if isinstance(part, ImagePart) and part.blob
    ]
    assert len(pictures) == 2
    assert as_json(to_pydantic_ai(conversation)) == as_json(history)


def test_what_others_have_written_is_given_as_messages(conversation: Conversation) -> None:
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest"}')
    entries = conversation.extend(
        [
            UserMessage(text="Which test fails?"),
            AssistantMessage(agent="coder", text="I look.", tool_calls=[call]),
            ToolResult(call_id="c1", text="FAILED", is_error=True),
        ]
    )
    asked, said, returned = to_pydantic_ai(conversation)

    assert asked.parts == [UserPromptPart("Which test fails?", timestamp=entries[0].time)]
    assert said.parts == [TextPart("I look."), ToolCallPart("shell", '{"cmd": "pytest"}', "c1")]
    assert returned.parts == [
        ToolReturnPart("shell", "FAILED", "c1", outcome="failed", timestamp=entries[2].time)
    ]


def test_calls_without_results_are_run_or_closed(conversation: Conversation) -> None:
    append_pydantic_ai(conversation, run(librarian(), "Read").all_messages()[:2])

    kept = run(librarian(), message_history=to_pydantic_ai(conversation))
    closed = run(librarian(), "What now?", message_history=to_pydantic_ai(conversation, pending="close"))
    outcomes = [p.outcome for m in closed.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]

    assert kept.output == "{'page': 'a'}; {'page': 'b'}"
    assert outcomes[:2] == ["interrupted"] * 2


texts = st.sampled_from(["", "a", "ü\n", "{}", "null", '{"a":1}'])
times = st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1))
binaries = st.builds(
    BinaryContent,
    st.binary(max_size=4),
    media_type=st.sampled_from(["image/png", "application/pdf"]),
    vendor_metadata=st.sampled_from([None, {"a": None}]),
)
prompts = texts | st.lists(
    texts
    | binaries
    | st.builds(ImageUrl, st.just("https://a/b.png"))
    | st.builds(DocumentUrl, st.just("https://a/b.pdf"), force_download=st.booleans())
    | st.builds(CachePoint)
    | st.builds(TextContent, texts, metadata=json_values()),
    max_size=3,
)
ids = st.sampled_from(["c1", "c2", "c3"])
details = st.none() | st.dictionaries(texts, json_values(), max_size=2)
request_parts: st.SearchStrategy[Any] = st.one_of(
    st.builds(SystemPromptPart, texts, timestamp=times, dynamic_ref=st.none() | texts),
    st.builds(UserPromptPart, prompts, timestamp=times),
    st.builds(RetryFeedbackPart, texts, retry=st.just(RetryInfo(cause="model_retry", attempt=1))),
    st.builds(
        ToolReturnPart,
        texts,
        json_values() | st.lists(texts | binaries, max_size=2),
        ids,
        metadata=json_values(),
        timestamp=times,
        outcome=st.sampled_from(["success", "failed", "denied", "interrupted"]),
    ),
)
provided = {"provider_name": st.sampled_from([None, "openai", "anthropic"]), "provider_details": details}
named = provided | {"id": st.none() | texts}
response_parts: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextPart, texts, **named),
    st.builds(ThinkingPart, texts, signature=st.none() | texts, **named),
    st.builds(
        ToolCallPart,
        texts,
        st.none() | texts | st.dictionaries(texts, json_values(), max_size=2),
        ids,
        **named,
    ),
    st.builds(NativeToolCallPart, texts, st.dictionaries(texts, json_values(), max_size=2), ids, **named),
    st.builds(NativeToolReturnPart, texts, json_values(), ids, timestamp=times),
    st.builds(CompactionPart, content=texts, id=texts),
    st.builds(FilePart, binaries, **named),
)
common = {"run_id": st.none() | texts, "conversation_id": st.none() | texts, "metadata": details}
requests = st.builds(
    ModelRequest,
    st.lists(request_parts, max_size=3),
    timestamp=st.none() | times,
    instructions=st.none() | texts,
    **common,
)
responses = st.builds(
    ModelResponse,
    st.lists(response_parts, max_size=3),
    usage=st.builds(
        RequestUsage,
        input_tokens=st.integers(0, 9),
        output_tokens=st.integers(0, 9),
        cache_read_tokens=st.integers(0, 9),
        details=st.sampled_from([{}, {"q": 1}]),
    ),
    model_name=st.none() | texts,
    timestamp=times,
    provider_response_id=st.none() | texts,
    provider_details=details,
    finish_reason=st.sampled_from([None, "stop", "tool_call"]),
    state=st.sampled_from(["complete", "interrupted"]),
    **common,
)


@given(histories=st.lists(st.lists(requests | responses, max_size=4), min_size=1, max_size=3))
def test_any_history_comes_back_however_it_was_appended(histories: list[list[ModelMessage]]) -> None:
    with stenolog.open(":memory:") as log:
        whole: list[ModelMessage] = []
        for more in histories:
            whole = [*whole, *more]
            append_pydantic_ai(log["any"], whole)
            found = as_json(to_pydantic_ai(log["any"]))
            again = append_pydantic_ai(log["any"], whole)

            assert json.dumps(found, sort_keys=True) == json.dumps(as_json(whole), sort_keys=True)
            assert again == []


@given(one=st.lists(requests | responses, max_size=4), other=st.lists(requests | responses, max_size=4))
def test_any_history_can_take_the_place_of_another(
    one: list[ModelMessage], other: list[ModelMessage]
) -> None:
    with stenolog.open(":memory:") as log:
        append_pydantic_ai(log["any"], one)
        append_pydantic_ai(log["any"], other, replace=True)
        found = as_json(to_pydantic_ai(log["any"]))

    assert found == as_json(other) or found[: len(other)] == as_json(other)
