"""OTLP JSON as VS Code and collectors write it: spans of agents by the conventions for generative AI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stenolog.contrib.otlp.wire import pairs_of
from tests.transcripts.given import Import, Json, lines

TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
BEGUN = 1_767_323_045_000_000_000


def text(role: str, words: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def span(id: int, parent: int, operation: str, start: int, end: int, **attributes: Any) -> Json:
    """Return a span; attributes that are lists of objects are written as JSON."""
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
    told = {
        name: json.dumps(value) if isinstance(value, list) and value and isinstance(value[0], dict) else value
        for name, value in named.items()
    }
    return {
        "traceId": TRACE,
        "spanId": f"{id:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": operation,
        "kind": 1,
        "startTimeUnixNano": str(BEGUN + start * 1_000_000_000),
        "endTimeUnixNano": str(BEGUN + end * 1_000_000_000),
        "attributes": pairs_of({"gen_ai.operation.name": operation, "gen_ai.conversation.id": "c-1"} | told),
        "status": {},
    }


def request(*spans: Json) -> Json:
    """Return an export request."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


CALL = {"type": "tool_call", "id": "call_1", "name": "runSubagent", "arguments": {"task": "Count."}}
ASKED = [text("system", "Be brief."), text("user", "Which loaves are left?")]
CALLED = {"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "Two."}]}
LEFT = {**text("assistant", "Rye and oat."), "finish_reason": "stop"}
COUNTED = {**text("assistant", "Two."), "finish_reason": "stop"}
USED: Json = {"usage__input_tokens": 90, "usage__output_tokens": 12, "usage__cache_read__input_tokens": 40}
SPANS = [
    span(
        2, 1, "chat", 1, 2, agent__name="copilot", request__model="gpt-x", response__model="gpt-x-1",
        input__messages=ASKED, output__messages=[CALLED], **USED,
    ),
    span(
        5, 4, "chat", 3, 4, agent__name="Explore", request__model="small",
        input__messages=[text("user", "Count the loaves.")], output__messages=[COUNTED],
    ),
    span(4, 3, "invoke_agent", 3, 5, agent__name="Explore"),
    span(
        3, 1, "execute_tool", 2, 6, agent__name="copilot", tool__name="runSubagent", tool__call__id="call_1",
        tool__call__result="Two.",
    ),
    span(
        6, 1, "chat", 7, 8, agent__name="copilot", request__model="gpt-x",
        input__messages=[*ASKED, CALLED, RESULT], output__messages=[LEFT],
    ),
    span(1, 0, "invoke_agent", 0, 9, agent__name="copilot"),
]  # fmt: skip


def on_lines(folder: Path, records: list[Any]) -> Path:
    """Write a file as a collector does, an export request on each line."""
    values = [request(each) if isinstance(each, dict) else each for each in records]
    (path := folder / "spans.jsonl").write_bytes(lines(*(json.dumps(each) for each in values)))
    return path


def test_messages_that_each_call_repeats_are_taken_once_and_a_sub_agent_has_its_call_as_cause(
    into: Import,
) -> None:
    into.file(json.dumps(request(*SPANS)).encode(), "spans.json")

    said = [
        (getattr(event, "agent", "") or event.kind, getattr(event, "text", ""))
        for entry in into.entries
        if (event := entry.event).kind != "mode_switch"
    ]
    assert said == [
        ("user_message", "Which loaves are left?"),
        ("copilot", ""),
        ("user_message", "Count the loaves."),
        ("Explore", "Two."),
        ("tool_result", "Two."),
        ("copilot", "Rye and oat."),
    ]
    brief = next(entry.event for entry in into.entries if getattr(entry.event, "author", "") == "copilot")
    call = next(entry for entry in into.entries if getattr(entry.event, "tool_calls", ()))
    assert (brief.author_kind, brief.cause) == ("agent", call.position)  # type: ignore[union-attr]
    assert call.event.usage.cache_read == 40  # type: ignore[union-attr]
    assert into.log["c-1"].settings().card_of("copilot").persona == "Be brief."


def test_spans_without_content_are_answers_with_their_tokens(into: Import) -> None:
    silent = span(2, 0, "chat", 1, 2, request__model="gpt-x", response__model="gpt-x-1", **USED)
    into.file(json.dumps(request(silent)).encode(), "spans.json")

    (answer,) = [entry.event for entry in into.entries if entry.event.kind == "assistant_message"]
    assert (answer.model, answer.usage.input) == ("gpt-x-1", 90)  # type: ignore[union-attr]
    assert into.report.conversations[0].ignored == {"answer: its words were not exported": 1}


def test_the_words_of_an_answer_may_come_with_the_next_request_or_with_the_agents_span(into: Import) -> None:
    spans = [
        span(2, 1, "chat", 1, 2, response__model="gpt-x-1", input__messages=ASKED, **USED),
        span(6, 1, "chat", 7, 8, response__model="gpt-x-2", input__messages=[*ASKED, CALLED, RESULT]),
        span(1, 0, "invoke_agent", 0, 9, agent__name="copilot", output__messages=[LEFT]),
    ]
    into.file(json.dumps(request(*spans)).encode(), "spans.json")

    answers = [entry.event for entry in into.entries if entry.event.kind == "assistant_message"]
    assert [(each.model, each.text) for each in answers] == [  # type: ignore[union-attr]
        ("gpt-x-1", ""),
        ("gpt-x-2", "Rye and oat."),
    ]
    assert [len(each.tool_calls) for each in answers] == [1, 0]  # type: ignore[union-attr]
