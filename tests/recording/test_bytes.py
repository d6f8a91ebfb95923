"""Whatever a client sends is rebuilt from the log, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stenolog import ToolResult
from stenolog.projections.requests.recipe import Source, recipe_of, value_of
from tests.recording.given import (
    PATHS,
    SYSTEM,
    TOOL,
    Json,
    Tap,
    anthropic,
    assistant,
    call,
    compact,
    marked,
    outcomes,
    result,
    said,
    sse,
    thought,
    user,
)

HI = "How many loaves are in the oven, and when will the last of them be done?"


def test_a_turn_with_a_tool_is_rebuilt_and_its_events_are_what_happened(tap: Tap) -> None:
    first = anthropic(user("<system-reminder>\nToday is Friday.\n</system-reminder>", HI))
    tap.send(first, said("I look.", call("t1", cmd="ls"), thinking="Where?"))
    answered = assistant(thought("Where?"), "I look.", call("t1", cmd="ls"))
    tap.send(anthropic(*first["messages"], answered, user(result("t1", is_error=False))), said("Three."))

    assert tap.told() == [
        ("user_message", "<system-reminder>\nToday is Friday.\n</system-reminder>"),
        ("user_message", HI),
        ("assistant_message", "I look."),
        ("tool_result", "3 loaves"),
        ("assistant_message", "Three."),
    ]
    assert outcomes(tap.proofs()) == {"same"}
    assert [tool.name for tool in tap.conversation.settings().card_of("claude").tools or ()] == ["bash"]
    assert tap.conversation.settings().card_of("claude").persona == SYSTEM


def test_the_bodies_are_given_back_as_they_were_with_the_marks_of_the_cache(tap: Tap) -> None:
    first = marked(anthropic(user(HI)), ["system", 0], ["messages", 0, "content", 0])
    tap.send(first, said("Three."))
    again = anthropic(user(HI), assistant("Three."), user("Sure?"))
    second = marked(again, ["system", 0], ["messages", 2, "content", 0])
    tap.send(second)

    assert tap.sent_bodies() == [first, second]
    assert [json.dumps(body) for body in tap.sent_bodies()] == [json.dumps(first), json.dumps(second)]


def test_moving_the_marks_of_the_cache_is_nothing_new(tap: Tap) -> None:
    tap.send(marked(anthropic(user(HI)), ["messages", 0, "content", 0]), said("Three."))
    before = len(tap.entries())
    more = anthropic(user(HI), assistant("Three."), user("Sure?"))
    tap.send(marked(more, ["messages", 1, "content", 0]))

    assert [entry.event.kind for entry in tap.entries()[before:]] == ["user_message", "assistant_message"]


def chat(*messages: Json) -> Json:
    tools = [{"type": "function", "function": {"name": "bash", "description": "", "parameters": TOOL}}]
    return {
        "model": "gpt-5.2",
        "messages": [{"role": "system", "content": SYSTEM}, *messages],
        "tools": tools,
    }


def chat_answer(words: str, *calls: Json) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-5.2"}
    delta: Json = {"role": "assistant", "content": words or None}
    if calls:
        delta["tool_calls"] = [{"index": n, **each} for n, each in enumerate(calls)]
    first = {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if calls else "stop"
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return sse(first, last) + b"data: [DONE]\n\n"


def chat_call(id: str, arguments: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}


def test_chat_completions_are_rebuilt() -> None:
    tap = Tap(headers={"user-agent": "OpenAI/Python 3.5.0"})
    asked = {"role": "user", "content": HI}
    made = chat_call("c1", '{"cmd": "ls"}')
    tap.send(chat(asked), chat_answer("", made), path=PATHS["openai-chat"])
    answered = {"role": "assistant", "content": None, "tool_calls": [made]}
    tool = {"role": "tool", "content": "3 loaves", "tool_call_id": "c1"}
    tap.send(chat(asked, answered, tool), chat_answer("Three."), path=PATHS["openai-chat"])

    assert outcomes(tap.proofs()) == {"same"}
    assert [kind for kind, _ in tap.told()] == [
        "user_message", "assistant_message", "tool_result", "assistant_message",
    ]  # fmt: skip


def test_responses_that_go_on_from_a_stored_one_are_rebuilt() -> None:
    tap = Tap(headers={"user-agent": "OpenAI/Python 3.5.0"})
    words = {"type": "output_text", "text": "Three.", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [words]}
    response = {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-5.2",
        "status": "completed",
        "output": [item],
    }
    answer = sse(
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    )
    body = {"model": "gpt-5.2", "instructions": SYSTEM, "input": HI}
    tap.send(body, answer, path=PATHS["openai-responses"])
    item2 = {"role": "user", "content": "Sure?"}
    later = {"model": "gpt-5.2", "previous_response_id": "resp_1", "input": [item2]}
    tap.send(later, answer.replace(b"resp_1", b"resp_2"), path=PATHS["openai-responses"])

    assert outcomes(tap.proofs()) == {"same"}
    assert [words for _, words in tap.told()] == [HI, "Three.", "Sure?", "Three."]


def gemini_answer(*parts: Json) -> bytes:
    content = {"role": "model", "parts": list(parts)}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"})


@pytest.mark.parametrize("made_by_client", [False, True], ids=["no ids", "ids that the client made"])
def test_gemini_calls_without_ids_are_paired_with_their_results_and_rebuilt(made_by_client: bool) -> None:
    tap = Tap(headers={"user-agent": "GeminiCLI/0.61.0 (linux)"})
    declared = {
        "functionDeclarations": [{"name": "bash", "description": "Run.", "parametersJsonSchema": TOOL}]
    }
    front = {"systemInstruction": {"role": "user", "parts": [{"text": SYSTEM}]}, "tools": [declared]}
    asked = {"role": "user", "parts": [{"text": HI}]}
    made = [{"functionCall": {"name": "bash", "args": {"cmd": cmd}}} for cmd in ("ls", "pwd")]
    tap.send({"contents": [asked], **front}, gemini_answer(*made), path=PATHS["gemini"])
    ids: list[Json] = [{"id": f"bash_{n}"} if made_by_client else {} for n in range(2)]
    made = [{"functionCall": {**id, **each["functionCall"]}} for id, each in zip(ids, made, strict=True)]
    results = [
        {"functionResponse": {**id, "name": "bash", "response": {"output": words}}}
        for id, words in zip(ids, ("3 loaves", "/oven"), strict=True)
    ]
    history = [asked, {"role": "model", "parts": made}, {"role": "user", "parts": results}]
    tap.send({"contents": history, **front}, gemini_answer({"text": "Three."}), path=PATHS["gemini"])
    history += [
        {"role": "model", "parts": [{"text": "Three."}]},
        {"role": "user", "parts": [{"text": "And?"}]},
    ]
    tap.send({"contents": history, **front}, gemini_answer({"text": "Four."}), path=PATHS["gemini"])
    calls = [e.event.call for e in tap.entries() if isinstance(e.event, ToolResult) and e.event.call]

    assert outcomes(tap.proofs()) == {"same"}
    assert [each.index for each in calls] == [0, 1]
    assert len({each.entry for each in calls}) == 1
    assert tap.conversation.state().anomalies == 0


PLAIN, GERMAN = compact(anthropic(user(HI))), anthropic(user("Größe & <b>"))
AS_GO = compact(GERMAN).replace(b"&", b"\\u0026").replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
LIMIT = b'"max_tokens":4096'


@pytest.mark.parametrize(
    ("style", "content"),
    [
        ("compact", compact(GERMAN)),
        ("spaced", json.dumps(GERMAN).encode()),
        ("html", AS_GO),
        ("raw", PLAIN.replace(LIMIT, b'"max_tokens":1,' + LIMIT)),
        ("raw", PLAIN.replace(LIMIT, LIMIT + b',"top_p":1e-7')),
        ("raw", PLAIN.replace(b"How many", b"\\ud83d How many")),
        ("raw", json.dumps(anthropic(user(HI)), indent=2).encode()),
    ],
    ids=["compact", "spaced", "Go", "duplicate key", "float", "half a pair", "indented"],
)
def test_bytes_of_any_serialiser_are_rebuilt_and_kept_raw_only_where_none_gives_them(
    style: str, content: bytes, tap: Tap
) -> None:
    tap.send(content)
    receipt = tap.entries()[-1].event.receipt  # type: ignore[union-attr]

    assert outcomes(tap.proofs()) == {"same"}
    assert receipt is not None
    assert receipt.transport.get("style", "compact") == style


def test_a_turn_that_is_like_the_one_before_costs_a_few_hundred_bytes() -> None:
    tap, history, sizes = Tap(), [user(HI)], []
    for number in range(40):
        id = f"t{number}"
        tap.send(anthropic(*history), said("", call(id, cmd="ls")))
        history += [assistant(call(id, cmd="ls")), user(result(id, "x" * 300))]
        sizes.append(len(json.dumps(dict(tap.entries()[-1].event.receipt.plan))))  # type: ignore[union-attr]

    assert outcomes(tap.proofs()) == {"same"}
    assert max(sizes[1:]) < 600


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, JSON)
def test_a_recipe_makes_its_value_of_any_source(value: Any, source: Any) -> None:
    blobs: dict[str, bytes] = {}
    recipe = recipe_of(value, Source(source), blobs)

    assert json.dumps(value_of(json.loads(json.dumps(recipe)), source, blobs)) == json.dumps(value)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_requests_with_anything_in_them_are_rebuilt(data: st.DataObject) -> None:
    tap = Tap()
    extra = data.draw(st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=3))
    blocks = [*data.draw(st.lists(st.text(max_size=90), min_size=1, max_size=3))]
    odd = data.draw(st.lists(st.dictionaries(st.text(max_size=6), JSON, max_size=3), max_size=2))
    body = {**anthropic(user(*blocks), *({"role": "user", "content": [each]} for each in odd)), "x": extra}
    tap.send(body)
    tap.send({**body, "messages": [*body["messages"], assistant("Done."), user("More.")]})

    assert outcomes(tap.proofs()) == {"same"}
