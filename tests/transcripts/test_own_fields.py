"""What only its provider understands of a part is kept, goes back to its family, and is named to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, TextPart, Tool, ToolCall, ToolResult, UserMessage
from stenolog.parts import AssistantPart, ProviderPart
from stenolog.requests import FORMATS, validate
from tests.transcripts.given import Import, assistant, text, tool_result, tool_use, user

CITED = {"type": "web_search_result_location", "url": "u", "encrypted_index": "I", "cited_text": "c"}
SEARCH: dict[str, Any] = {
    "type": "search_result",
    "source": "https://e",
    "title": "Bread",
    "content": [{"type": "text", "text": "Rye rises slowly."}],
    "citations": {"enabled": True},
}
WEB: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "q()"}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
MCP: list[dict[str, Any]] = [
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
]
COMPACTION = {"type": "compaction", "content": "All of it, in short."}
PROGRAM = {"type": "program", "id": "pg_1", "call_id": "call_p", "code": "q()", "fingerprint": "F"}
OUTPUT = {"type": "program_output", "id": "po_1", "call_id": "call_p", "result": "7", "status": "completed"}


def own(raw: Any, provider: str = "anthropic", model: str = "claude-opus-4-8") -> ProviderPart:
    return ProviderPart(provider=provider, model=model, raw=json.dumps(raw))


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        log["x"].join("a", model="claude-opus-4-8", tools=[Tool(name="mcp__x__y")])
        log["x"].append(UserMessage("Search"))
        yield log["x"]


def say(talk: Conversation, *parts: AssistantPart, model: str = "claude-opus-4-8") -> None:
    talk.append(AssistantMessage(agent="a", model=model, parts=parts))


def sent(talk: Conversation, api: str = "anthropic") -> list[Any]:
    request = talk.request("a", api=api)
    assert list(validate(api, request.body)) == []
    return list(request.body["messages" if api == "anthropic" else "input"])


def lost(talk: Conversation, api: str) -> list[tuple[str, str]]:
    return [(each.rule, each.what) for each in talk.request("a", api=api).omissions]


def test_a_session_keeps_citations_callers_and_references_and_sends_them_back(into: Import) -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    into.records(
        user("u", None, "Search"),
        assistant("a", "u", {**text("So."), "citations": [CITED]}, *WEB, {**tool_use("t"), "caller": caller}),
        user("r", "a", [tool_result("t", [{"type": "tool_reference", "tool_name": "Bash"}, SEARCH])]),
    )
    _, answer, results = into.conversation.request("claude", api="anthropic").body["messages"]

    assert answer["content"][0]["citations"] == [CITED]
    assert answer["content"][1:3] == WEB
    assert answer["content"][3]["caller"] == caller
    assert results["content"][0]["content"] == [{"type": "tool_reference", "tool_name": "Bash"}, SEARCH]


def test_a_caller_goes_back_only_with_its_program(talk: Conversation) -> None:
    raw = '{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}'
    say(talk, ToolCall(id="t", name="q", provider="anthropic", raw=raw))
    talk.append(ToolResult(call_id="t", text="rows"))

    assert "caller" not in sent(talk)[1]["content"][0]
    assert lost(talk, "anthropic") == [("fields-not-carried", "caller")]


def test_the_file_of_a_citation_is_not_sent_back(talk: Conversation) -> None:
    cited = {"type": "char_location", "cited_text": "c", "document_index": 0, "file_id": None}
    say(talk, TextPart("So.", provider="anthropic", raw=json.dumps({"citations": [cited]})))
    talk.append(UserMessage("Go on"))

    assert "file_id" not in sent(talk)[1]["content"][0]["citations"][0]


@pytest.mark.parametrize("blocks", [WEB, MCP, [COMPACTION]])
def test_what_anthropics_own_tools_and_compactions_said_goes_back(talk: Conversation, blocks: Any) -> None:
    say(talk, *map(own, blocks), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[1]["content"] == [*blocks, {"type": "text", "text": "Done."}]


def test_a_call_of_its_own_tools_may_have_its_result_in_the_next_message_of_the_turn(
    talk: Conversation,
) -> None:
    say(talk, own(WEB[0]))
    say(talk, own(WEB[1]), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[1]["content"] == [*WEB, {"type": "text", "text": "Done."}]


def test_a_reference_to_a_tool_that_is_not_declared_is_left_out_by_name(talk: Conversation) -> None:
    known, unknown = ({"type": "tool_reference", "tool_name": name} for name in ("mcp__x__y", "gone"))
    say(talk, ToolCall(id="t", name="ToolSearch"))
    talk.append(ToolResult(call_id="t", parts=[own(known, model=""), own(unknown, model="")]))

    assert sent(talk)[2]["content"][0]["content"] == [known]
    assert ("opaque-not-carried", "tool_reference") in lost(talk, "anthropic")


def test_a_program_of_openai_goes_back_with_its_calls_and_its_end(talk: Conversation) -> None:
    caller = {"type": "program", "caller_id": "call_p"}
    talk.join("a", model="gpt-5.5")
    call = ToolCall(id="c", name="q", provider="openai", raw=json.dumps({"caller": caller}))
    say(talk, own(PROGRAM, "openai", "gpt-5.5"), call, model="gpt-5.5")
    talk.append(ToolResult(call_id="c", text="rows"))
    say(talk, own(OUTPUT, "openai", "gpt-5.5"), TextPart("7"), model="gpt-5.5")
    talk.append(UserMessage("Go on"))
    _, program, made, result, output, *_ = sent(talk, "openai-responses")

    assert (program, output) == (PROGRAM, OUTPUT)
    assert (made["caller"], result["caller"]) == (caller, caller)


@pytest.mark.parametrize("api", [api for api in FORMATS if api not in ("anthropic", "plain")])
def test_others_are_told_by_name_what_they_are_not_sent(talk: Conversation, api: str) -> None:
    say(talk, TextPart("So.", provider="anthropic", raw=json.dumps({"citations": [CITED]})))
    say(talk, ToolCall(id="t", name="q"))
    reference = own({"type": "tool_reference", "tool_name": "q"}, model="")
    talk.append(
        ToolResult(
            call_id="t", parts=[TextPart("Rye", provider="anthropic", raw=json.dumps(SEARCH)), reference]
        )
    )
    talk.append(UserMessage("Go on"))

    assert {
        ("fields-not-carried", "citations"),
        ("fields-not-carried", "search_result"),
        ("opaque-not-carried", "tool_reference"),
    } <= set(lost(talk, api))


def test_a_paused_answer_is_sent_back_as_the_last_message(talk: Conversation) -> None:
    paused = AssistantMessage(
        agent="a", model="claude-opus-4-8", parts=[own(WEB[0])], finish_reason="pause_turn"
    )
    talk.append(paused)
    first, last = sent(talk)

    assert (last["role"], last["content"]) == ("assistant", WEB[:1])
    assert talk.request("a", api="anthropic").sendable
    assert talk.state().lane("a").status == "awaiting_llm"

    say(talk, own(WEB[1]), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[:2] == [
        first,
        {"role": "assistant", "content": [*WEB, {"type": "text", "text": "Done."}]},
    ]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "gemini"])
def test_a_paused_answer_is_ended_by_a_note_for_those_that_cannot_go_on_with_it(
    talk: Conversation, api: str
) -> None:
    said: list[AssistantPart] = [TextPart("Looking"), own(WEB[0])]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=said, finish_reason="pause_turn"))
    request = talk.request("a", api=api)

    assert request.sendable
    assert list(validate(api, request.body)) == []
    assert "it is your turn" in request.bytes.decode()


def test_words_after_a_paused_answer_leave_its_open_call_out(talk: Conversation) -> None:
    said: list[AssistantPart] = [TextPart("Looking"), own(WEB[0])]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=said, finish_reason="pause_turn"))
    talk.append(UserMessage("Never mind"))

    assert sent(talk)[1]["content"] == [{"type": "text", "text": "Looking"}]


def test_an_answer_that_anthropic_refused_is_taken_out_before_going_on(talk: Conversation) -> None:
    parts = [TextPart("I would")]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=parts, finish_reason="refusal"))
    talk.append(UserMessage("Then something else"))

    assert [turn["role"] for turn in sent(talk)] == ["user"]
    assert ("refused-answer", "") in lost(talk, "anthropic")
