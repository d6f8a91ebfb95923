"""What OpenAI Responses is sent: items without ids, nothing stored, the provider's own parts as they came."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    ModeSwitch,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.events import PositionRange
from stenolog.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, RefusalPart
from stenolog.requests import build, validate
from stenolog.testing import entries
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.requests.histories import PNG
from tests.transcripts.given import Import, codex, item, message, meta

ASKED = UserMessage(text="List the files")
CALL = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
RESULT = ToolResult(call_id="c1", text="a.py")
THOUGHT = ReasoningPart(text="hm", encrypted="gAAA", provider="openai", id="rs_1")
SEARCHED = '{"type":"web_search_call","id":"ws_1","status":"completed","metadata":{"turn_id":"t"}}'


def card(**fields: Any) -> ModeSwitch:
    return ModeSwitch(cards={"coder": AgentCard(**{"model": "gpt-5.5", **fields})})


def answer(*parts: Any, model: str = "gpt-5.4") -> AssistantMessage:
    return AssistantMessage(agent="coder", parts=parts, model=model)


def sent(*events: Event, **blobs: bytes) -> Request:
    request = build(entries(*events), "coder", api="openai-responses", blobs={PNG: b"png", **blobs})
    assert list(validate(request.api, request.body)) == []
    return request


def kinds(request: Request) -> list[str]:
    return [item.get("role") or item["type"] for item in request.body["input"]]


def left_out(request: Request) -> list[str]:
    return [run.rule for run in request.omissions]


def test_a_conversation_is_items_without_ids_and_nothing_is_stored() -> None:
    tool = Tool(name="shell", description="Runs a command", parameters={"type": "object"})

    body = sent(card(persona="You are a coder.", tools=(tool,)), ASKED, answer(CALL), RESULT).body

    assert body == {
        "model": "gpt-5.5",
        "store": False,
        "instructions": "You are a coder.",
        "tools": [
            {
                "type": "function",
                "name": "shell",
                "description": "Runs a command",
                "parameters": {"properties": {}, "type": "object"},
                "strict": False,
            }
        ],
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"type": "message", "role": "user", "content": "List the files"},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd": "ls"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        ],
    }


def test_what_changes_least_stands_first() -> None:
    first = sent(card(persona="You are a coder."), ASKED, answer(CALL), RESULT)
    second = sent(
        card(persona="You are a coder."), ASKED, answer(CALL), RESULT, answer(TextPart(text="ok")), ASKED
    )

    assert list(second.body)[-1] == "input"
    assert second.bytes.startswith(first.bytes[: -len(b"]}")])


def test_notes_of_the_system_are_a_developers_wherever_they_stand() -> None:
    note = UserMessage(text="Mode: agent", author_kind="system")

    request = sent(note, ASKED, answer(CALL), RESULT, note)

    assert kinds(request) == ["developer", "user", "function_call", "function_call_output", "developer"]


def test_reasoning_goes_back_encrypted_to_the_family_that_thought_it() -> None:
    same = sent(card(model="gpt-5"), ASKED, answer(THOUGHT, TextPart(text="ok")), ASKED)
    other = sent(card(model="gpt-5-mini"), ASKED, answer(THOUGHT, TextPart(text="ok")), ASKED)

    assert same.body["input"][1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }
    assert (kinds(other), left_out(other)) == (["user", "assistant", "user"], ["foreign-reasoning"])


@pytest.mark.parametrize(
    "thought",
    [
        ReasoningPart(text="hm", provider="openai", id="rs_1"),
        ReasoningPart(text="hm", encrypted="gAAA", provider="anthropic"),
        ReasoningPart(text="hm", signature="sig", provider="openai"),
    ],
)
def test_reasoning_that_openai_could_not_read_is_left_out(thought: ReasoningPart) -> None:
    request = sent(card(), ASKED, answer(thought, TextPart(text="ok")), ASKED)

    assert (kinds(request), left_out(request)) == (["user", "assistant", "user"], ["foreign-reasoning"])


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    request = sent(card(), ASKED, answer(TextPart(text="ok"), THOUGHT, THOUGHT), ASKED)

    assert (kinds(request), left_out(request)) == (["user", "assistant", "user"], ["trailing-thinking"] * 2)


def test_calls_follow_a_message_that_came_behind_them_and_else_keep_their_place() -> None:
    two = ToolCall(id="c2", name="shell")
    results = (RESULT, ToolResult(call_id="c2", text="b"))

    mixed = sent(card(), ASKED, answer(THOUGHT, CALL, TextPart(text="and"), two), *results)
    native = sent(card(), ASKED, answer(THOUGHT, CALL, THOUGHT, two), *results)

    outputs = ["function_call_output"] * 2
    assert kinds(mixed)[1:] == ["reasoning", "assistant", "function_call", "function_call", *outputs]
    assert kinds(native)[1:] == ["reasoning", "function_call", "reasoning", "function_call", *outputs]


def test_a_refusal_stands_beside_the_text_of_its_message() -> None:
    request = sent(ASKED, answer(TextPart(text="Hm."), RefusalPart(text="I will not.")), ASKED)

    assert request.body["input"][1]["content"] == [
        {"type": "output_text", "text": "Hm."},
        {"type": "refusal", "refusal": "I will not."},
    ]


def test_pictures_and_files_are_inputs_in_messages_and_in_outputs() -> None:
    parts: list[Any] = [
        TextPart(text="see"),
        ImagePart(blob=PNG),
        FilePart(name="a.pdf", media_type="application/pdf", blob=PNG),
    ]
    shown = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,cG5n", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cG5n"},
    ]

    body = sent(UserMessage(parts=parts), answer(CALL), ToolResult(call_id="c1", parts=parts)).body

    assert (body["input"][0]["content"], body["input"][2]["output"]) == (shown, shown)


def test_a_picture_by_its_address_is_sent_as_that_and_one_that_is_gone_as_a_line() -> None:
    here, gone = ImagePart(url="https://example.org/a.png"), ImagePart(blob="1" * 64)

    content = sent(UserMessage(parts=[here, gone]), answer(CALL), RESULT).body["input"][0]["content"]

    assert content == [
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_text", "text": "[image (image/png) is not available]"},
    ]


@pytest.mark.parametrize(
    ("api", "most"),
    [("openai-chat", 37_500_000), ("openai-responses", 37_500_000), ("gemini", 15 * 1024 * 1024)],
)
def test_a_picture_that_is_larger_than_the_api_takes_is_a_line_of_text(api: str, most: int) -> None:
    log = entries(UserMessage(parts=[ImagePart(blob=PNG)]), answer(CALL), RESULT)

    request = build(log, "coder", api=api, blobs={PNG: bytes(most + 1)})

    assert "[image (image/png) is too large to be shown]" in request.bytes.decode()
    assert request.parts[0].rule == "media-too-large"


def test_a_failed_tool_that_said_nothing_says_that_there_was_no_output() -> None:
    request = sent(ASKED, answer(CALL), ToolResult(call_id="c1", is_error=True))

    assert request.body["input"][-1]["output"] == "[no output]"
    assert request.parts[-2].rule == "empty-error"


def test_an_item_of_openais_own_goes_back_as_it_came_without_an_id_that_it_does_not_need() -> None:
    request = sent(
        card(), ASKED, answer(ProviderPart(provider="openai", raw=SEARCHED), TextPart(text="ok")), ASKED
    )

    assert request.body["input"][1] == {"type": "web_search_call", "status": "completed"}
    assert left_out(request) == []


def test_an_item_that_needs_its_id_keeps_it_once() -> None:
    listed = ProviderPart(provider="openai", raw='{"type": "mcp_list_tools", "id": "mcpl_1", "tools": []}')

    request = sent(
        card(), ASKED, answer(listed, TextPart(text="ok")), ASKED, answer(listed, TextPart(text="ok")), ASKED
    )

    assert [item.get("id") for item in request.body["input"] if item["type"] == "mcp_list_tools"] == [
        "mcpl_1"
    ]
    assert left_out(request) == ["opaque-not-carried"]


@pytest.mark.parametrize(
    "opaque",
    [
        ProviderPart(provider="anthropic", raw=SEARCHED),
        ProviderPart(provider="openai", model="o3", raw=SEARCHED),
        ProviderPart(provider="openai", raw='{"type": "computer_call", "call_id": "c7"}'),
        ProviderPart(provider="openai", raw='{"type": "mcp_call", "id": "no good"}'),
        ProviderPart(provider="openai", raw='{"type": "compaction"}'),
        ProviderPart(provider="openai", raw='["odd"]'),
        ProviderPart(provider="openai", raw="no json"),
    ],
)
def test_an_item_that_cannot_stand_alone_or_is_of_others_is_left_out(opaque: ProviderPart) -> None:
    request = sent(card(), ASKED, answer(opaque, TextPart(text="ok")), ASKED)

    assert (kinds(request), left_out(request)) == (["user", "assistant", "user"], ["opaque-not-carried"])


@pytest.mark.parametrize(("model", "asks"), [("gpt-5", True), ("o3", True), ("gpt-4o", False), ("x", False)])
def test_encrypted_reasoning_is_asked_of_models_that_reason(model: str, asks: bool) -> None:
    assert ("include" in sent(card(model=model), ASKED).body) is asks


def test_an_answer_that_is_to_be_a_json_object_is_asked_for_with_the_word_from_the_start() -> None:
    as_object = card(parameters={"text": {"format": {"type": "json_object"}}})

    request = sent(as_object, ASKED)

    assert request.body["input"][0] == {"type": "message", "role": "developer", "content": "[answer in JSON]"}
    assert [part.rule for part in request.repairs] == ["json-note"]


def test_every_part_of_an_answer_is_explained_at_its_own_item() -> None:
    request = sent(card(), ASKED, answer(THOUGHT, TextPart(text="ok"), CALL), RESULT)

    explained = [
        (part.message, part.positions, part.tokens_in) for part in request.parts if part.message >= 0
    ]
    assert explained == [(0, (2,), 4), (1, (3,), 2), (2, (3,), 1), (3, (3,), 6), (4, (4,), 1)]
    assert json.loads(request.bytes) == request.body


def _compacted(model: str = "gpt-5.4", **fields: Any) -> list[Event]:
    made = ProviderPart(
        provider="openai", model=model, raw='{"type":"compaction","id":"cmp_1","encrypted_content":"gAAA"}'
    )
    summary = AssistantMessage(
        agent="coder", purpose="summary", covers=[PositionRange(first=2, last=3)], parts=[made], **fields
    )
    return [card(), ASKED, answer(TextPart(text="ok")), summary, ASKED]


def test_a_compaction_goes_back_in_the_place_of_what_it_covers() -> None:
    request = sent(*_compacted())

    assert request.body["input"][0] == {"type": "compaction", "encrypted_content": "gAAA"}
    assert kinds(request) == ["compaction", "user"]
    assert left_out(request) == ["covered"]


def test_a_compaction_that_the_model_cannot_read_is_named_in_words() -> None:
    request = sent(*_compacted(model="o3"))

    assert "only the provider that wrote it can read it" in request.body["input"][0]["content"]
    assert left_out(request) == ["covered", "opaque-not-carried"]


def test_what_else_openai_made_beside_a_summary_does_not_stand_for_it() -> None:
    searched = ProviderPart(provider="openai", model="gpt-5.4", raw='{"type":"web_search_call","id":"ws_1"}')
    summary = AssistantMessage(agent="coder", covers=[PositionRange(first=2, last=3)], parts=[searched])

    request = sent(*_compacted()[:3], summary)

    assert kinds(request) == ["web_search_call", "user"]


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "gemini", "plain"])
def test_other_apis_name_a_compaction_in_words_and_list_it(api: str) -> None:
    request = build(entries(*_compacted()), "coder", api=api)

    assert "only the provider that wrote it can read it" in request.bytes.decode()
    assert left_out(request) == ["covered", "opaque-not-carried"]


def test_another_agents_compaction_is_not_sent() -> None:
    joined = ModeSwitch(cards={"reviewer": AgentCard(model="gpt-5.4")})

    request = build(entries(joined, *_compacted()[1:]), "reviewer", api="openai-responses")

    assert "compaction" not in kinds(request)


def test_a_codex_rollout_comes_back_as_the_items_it_is_made_of(tmp_path: Path) -> None:
    searched = {"status": "completed", "action": {"type": "search", "query": "x"}}
    output = {"call_id": "c1", "output": [{"type": "input_text", "text": "a.py"}]}
    with stenolog.open(":memory:") as log:
        conversation = (
            Import(log, tmp_path)
            .records(
                meta(base_instructions={"text": "You are Codex."}),
                codex("turn_context", model="gpt-5.5"),
                message("user", "go"),
                item(
                    "reasoning",
                    id="rs_1",
                    summary=[{"type": "summary_text", "text": "hm"}],
                    encrypted_content="gAAA",
                ),
                item("web_search_call", **searched),
                item("function_call", id="fc_1", call_id="c1", name="shell", arguments='{"a": 1}'),
                item("function_call_output", **output),
                item("reasoning", id="rs_2", summary=[], encrypted_content="gBBB"),
                message("assistant", "done"),
                message("user", "more"),
            )
            .conversation
        )
        request = conversation.request("codex", api="openai-responses")

    assert request.body["instructions"] == "You are Codex."
    assert request.body["input"] == [
        {"type": "message", "role": "user", "content": "go"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "gAAA",
        },
        {"type": "web_search_call", **searched},
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gBBB"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        {"type": "message", "role": "user", "content": "more"},
    ]
    assert left_out(request) == []


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the transcripts are not beside this checkout")
def test_the_calls_and_outputs_of_a_real_codex_rollout_come_back_word_for_word() -> None:
    file = next(file for file in files("codex") if "5547781e25cf" in file.name)
    conversation = conversations(file)[0]
    taken = [json.loads(line)["payload"] for line in file.read_text().splitlines()]

    sent = build(conversation.entries, "codex", api="openai-responses", blobs=conversation.blobs).body[
        "input"
    ]

    assert _calls(sent) >= _calls(taken)
    assert len(_calls(taken)) > 100


def _calls(items: list[Any]) -> Counter[str]:
    """Return the function calls and their outputs, without what only their store knows."""
    kinds = ("function_call", "function_call_output")
    kept = ("type", "call_id", "name", "arguments", "output")
    return Counter(
        json.dumps({key: item[key] for key in kept if key in item})
        for item in items
        if item.get("type") in kinds
    )
