"""Anthropic's models, through the real SDK against a server that speaks their API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stenolog import TextPart, ToolCall
from stenolog.adapters.models.anthropic import Anthropic
from stenolog.events import Usage
from stenolog.models import ModelResponse, ResponseDelta
from stenolog.parts import ProviderPart, ReasoningPart
from stenolog.projections.messages.body_digest import compact
from tests.llms import wire_anthropic as api
from tests.llms.listening import ask, failure, streamed
from tests.llms.server import Reply, Server
from tests.llms.talking import talked

KEY = "sk-ant-0123456789abcdef"
MODEL = "claude-opus-5"
TOKENS = Usage(input=120, output=30, cache_read=90, cache_write=10, reasoning=20)
THOUGHT = ReasoningPart(text="First look.\n\nThen say.", provider="anthropic", signature="EqQB+/c2ln==")
HIDDEN = ReasoningPart(provider="anthropic", encrypted="EmwK+/ZGF0YQ==")
LS = ToolCall(id="toolu_1", name="shell", arguments='{"cmd":  "ls -l"}')
PWD = ToolCall(id="toolu_2", name="shell", arguments='{"cmd": "pwd"}')


def opaque(raw: dict[str, Any]) -> ProviderPart:
    return ProviderPart(provider="anthropic", model=MODEL, raw=compact(raw))


SEARCH = opaque(
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "bug"}}
)
FOUND = opaque(
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "url": "https://example.org", "encrypted_content": "Eo8"}],
    }
)


def at(server: Server, **options: Any) -> Anthropic:
    """Return the model at the server."""
    return Anthropic(MODEL, base_url=server.url, **{"api_key": KEY, **options})


def answer(*parts: Any, finish_reason: str = "end_turn", usage: Usage | None = TOKENS) -> ModelResponse:
    return ModelResponse(parts, MODEL, finish_reason, usage)


def events(*of_blocks: dict[str, Any]) -> Iterator[bytes]:
    """Yield a stream with these events between its beginning and its end."""
    yield api.event(api.start())
    yield from (api.event(event) for event in of_blocks)
    yield api.event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    yield api.event(api.STOP)


def test_a_refusal_with_nothing_said_is_refused_in_the_providers_words(server: Server) -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "This could enable harm."}
    delta = {"stop_reason": "refusal", "stop_details": why}
    stopped = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}
    server.add(Reply(map(api.event, [api.start(), stopped, api.STOP])))

    failed = failure(at(server))

    assert (failed.category, failed.message) == ("refused", "This could enable harm.")


def test_tokens_that_the_last_event_leaves_out_or_has_as_null_are_those_of_the_first(server: Server) -> None:
    first = {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
    last = {"input_tokens": None, "output_tokens": 30}
    said = list(api.block(TextPart(text="Hello")))
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}
    server.add(Reply(map(api.event, [api.start(MODEL, first), *said, end, api.STOP])))

    assert ask(at(server)).answer.usage == Usage(input=12, cache_read=5, output=30)


def test_what_is_written_for_an_hour_is_a_part_of_what_is_written(server: Server) -> None:
    counted = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 900,
        "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 700},
        "output_tokens": 5,
    }
    said = list(api.block(TextPart(text="Hello")))
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    server.add(Reply(map(api.event, [api.start(MODEL, counted), *said, end, api.STOP])))

    expected = Usage(input=903, output=5, cache_write=900, cache_write_hour=700)
    assert ask(at(server)).answer.usage == expected


@pytest.mark.parametrize(
    ("opened", "changed", "expected"),
    [
        ({"input": {}}, [], "{}"),
        ({"input": {}}, [""], "{}"),
        ({"input": {"b": 1, "a": 2}}, [], '{"b":1,"a":2}'),
        ({}, ['{"cmd": ', '"l'], '{"cmd": "l'),
        ({}, ["not JSON"], "not JSON"),
    ],
)
def test_the_input_of_a_call_is_its_raw_text(
    server: Server, opened: dict[str, Any], changed: list[str], expected: str
) -> None:
    begun = api.opened({"type": "tool_use", "id": "toolu_1", "name": "shell", **opened})
    deltas = [api.changed("input_json_delta", partial_json=some) for some in changed]
    server.add(Reply(events(begun, *deltas, {"type": "content_block_stop", "index": 0})))

    said, whole = ask(at(server))

    assert whole.parts == (ToolCall(id="toolu_1", name="shell", arguments=expected),)
    assert streamed(said) == [ResponseDelta(0, "tool_call", expected, "toolu_1", "shell")]


def test_a_call_without_an_id_gets_one(server: Server) -> None:
    calls = [
        event | {"index": index}
        for index in (0, 1)
        for event in (api.opened({"type": "tool_use", "name": "shell"}), {"type": "content_block_stop"})
    ]
    server.add(Reply(events(*calls)))

    assert [part.id for part in ask(at(server)).answer.parts if isinstance(part, ToolCall)] == [
        "call_0",
        "call_1",
    ]


def test_a_block_of_a_kind_yet_unknown_is_kept_as_it_came(server: Server) -> None:
    block = {"type": "compaction", "content": None}
    delta = api.changed("compaction_delta", content="So far …", encrypted_content="Eo8")
    text = [event | {"index": 1} for event in api.block(TextPart(text="Hello"))]
    server.add(Reply(events(api.opened(block), delta, {"type": "content_block_stop", "index": 0}, *text)))

    assert ask(at(server)).answer.parts == (
        opaque({"type": "compaction", "content": "So far …", "encrypted_content": "Eo8"}),
        TextPart(text="Hello"),
    )


def test_citations_are_kept_beside_the_text_that_they_are_of(server: Server) -> None:
    begun, *said, stop = api.block(TextPart(text="Hello"))
    cited = api.changed("citations_delta", citation={"type": "char_location", "cited_text": "x"})
    server.add(Reply(events(begun, *said, cited, stop)))

    raw = '{"citations":[{"type":"char_location","cited_text":"x"}]}'
    assert ask(at(server)).answer.parts == (TextPart(text="Hello", provider="anthropic", raw=raw),)


def test_halves_of_characters_in_a_block_are_mended(server: Server) -> None:
    block = {"type": "future", "note": "\ud83d\ude00 \ud83d"}
    call = [event | {"index": 1} for event in api.block(ToolCall(id="t", name="shell"))]
    call[0]["content_block"] |= {"id": "t\udc00"}
    server.add(Reply(events(api.opened(block), {"type": "content_block_stop", "index": 0}, *call)))

    assert ask(at(server)).answer.parts == (
        opaque({"type": "future", "note": "\N{GRINNING FACE} \ufffd"}),
        ToolCall(id="t\ufffd", name="shell"),
    )


@pytest.mark.parametrize(
    "of_blocks",
    [
        [api.changed("text_delta", text="x")],
        [{"type": "content_block_stop", "index": 0}],
        [api.opened({"type": "text", "text": 7}), api.changed("text_delta", text=["x"])],
        [{"type": "content_block_start", "index": [], "content_block": "x"}],
    ],
)
def test_blocks_of_other_shapes_are_an_invalid_response(
    server: Server, of_blocks: list[dict[str, Any]]
) -> None:
    server.add(Reply(events(*of_blocks)))

    assert failure(at(server)).category == "invalid_response"


def test_thoughts_and_what_its_own_tools_did_go_back_unharmed(server: Server) -> None:
    first = answer(THOUGHT, HIDDEN, SEARCH, FOUND, LS, PWD, finish_reason="tool_use")
    second = answer(THOUGHT, TextPart(text="There is one file: a.py"))
    server.add(*(Reply(api.frames(each)) for each in (first, second)))

    assert talked(at(server)) == [first, second]

    _, went_back, results = server.bodies[1]["messages"]
    assert went_back["content"] == [
        {"type": "thinking", "thinking": THOUGHT.text, "signature": THOUGHT.signature},
        {"type": "redacted_thinking", "data": HIDDEN.encrypted},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "bug"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"type": "web_search_result", "url": "https://example.org", "encrypted_content": "Eo8"}
            ],
        },
        {"type": "tool_use", "id": LS.id, "name": "shell", "input": {"cmd": "ls -l"}},
        {"type": "tool_use", "id": PWD.id, "name": "shell", "input": {"cmd": "pwd"}},
    ]
    assert [block["tool_use_id"] for block in results["content"]] == [LS.id, PWD.id]
