"""Changes of settings, of the time and of the form of a history, that break a prompt cache or do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.analysis.cache_break import APIS, LONG, MARK, NEXT, TEXTS, Break, Expected
from tests.recording.programs import WORDS, Json


def put(**fields: Any) -> Callable[[Json], object]:
    return lambda body: body.update(fields)


def of_settings() -> Iterator[Break]:
    """Yield changes of settings that a provider takes for another prompt."""
    yield Break(
        "anthropic",
        "a tool must be called",
        put(tool_choice={"type": "any"}),
        Expected("setting", "changed", "/tool_choice", -1, "none"),
    )
    yield Break(
        "anthropic",
        "thinking was switched off",
        put(thinking={"type": "disabled"}),
        Expected("setting", "changed", "/thinking/type", 0, "card"),
    )
    yield Break(
        "anthropic",
        "thinking is left out",
        lambda body: body.pop("thinking"),
        Expected("setting", "changed", "/thinking", -1, "card"),
    )
    yield Break(
        "anthropic",
        "it is to be fast",
        put(speed="fast"),
        Expected("setting", "changed", "/speed", -1, "none"),
    )
    yield Break(
        "openai-responses",
        "the cache has another key",
        put(prompt_cache_key="other"),
        Expected("setting", "changed", "/prompt_cache_key", 0, "none"),
    )
    yield Break(
        "openai-responses",
        "a schema came",
        put(text={"format": {"type": "json_object"}}),
        Expected("setting", "added", "/text/format", -1, "card"),
    )
    yield Break(
        "openai-chat",
        "a schema came",
        put(response_format={"type": "json_object"}),
        Expected("setting", "changed", "/response_format", -1, "card"),
    )
    yield Break(
        "gemini",
        "tools are switched off",
        put(toolConfig={"functionCallingConfig": {"mode": "NONE"}}),
        Expected("setting", "changed", "/toolConfig", -1, "none"),
    )


def of_models() -> Iterator[Break]:
    """Yield calls to other models."""
    for api, model in (
        ("anthropic", "claude-haiku-4"),
        ("openai-chat", "gpt-5"),
        ("openai-responses", "gpt-5-mini"),
    ):
        yield Break(
            api,
            "another model is asked",
            put(model=model),
            Expected("model", "changed", "/model", -1, "card"),
        )


def harmless_ones() -> Iterator[Break]:
    """Yield changes of settings that break nothing."""
    harmless: dict[str, list[Json]] = {
        "anthropic": [
            {"max_tokens": 1_000},
            {"temperature": 0.2},
            {"top_p": 0.9},
            {"stop_sequences": ["END"]},
            {"metadata": {"user_id": "other"}},
            {"stream": False},
            {"context_management": {"edits": []}},
        ],
        "openai-chat": [
            {"temperature": 0.2},
            {"max_tokens": 5},
            {"tool_choice": "required"},
            {"stream": False},
        ],
        "openai-responses": [{"tool_choice": "required"}, {"max_output_tokens": 9}, {"store": True}],
        "gemini": [{"generationConfig": {"temperature": 0.1}}, {"generationConfig": {"maxOutputTokens": 9}}],
    }
    for api, given in harmless.items():
        for fields in given:
            yield Break(api, f"{fields}, which breaks nothing", put(**fields))


def _hour(body: Json) -> None:
    for holder in (body["system"][2], body["messages"][-1]["content"][-1]):
        if "cache_control" in holder:
            holder["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def _nothing(body: Json) -> None:
    pass


def of_time() -> Iterator[Break]:
    """Yield pauses, short and long."""
    over = Expected("expired")
    yield Break("anthropic", "six minutes went by", _nothing, over, 360)
    yield Break("anthropic", "an hour went by", _nothing, over, 3_600)
    yield Break("anthropic", "four minutes went by", _nothing, Expected(), 240)
    yield Break("anthropic", "six minutes of an hour went by", _nothing, Expected(), 360, _hour)
    yield Break("anthropic", "more than its hour went by", _nothing, over, 3_700, _hour)
    for api in APIS[1:]:
        yield Break(api, "twenty minutes went by", _nothing, over, 1_200)
        yield Break(api, "five minutes went by", _nothing, Expected(), 300)


def _unmarked(body: Json) -> None:
    for each in (*body["system"], *(block for m in body["messages"] for block in m["content"])):
        each.pop("cache_control", None)


def _marked_at(where: int) -> Callable[[Json], None]:
    def change(body: Json) -> None:
        _unmarked(body)
        body["tools"][-1]["cache_control"] = MARK
        body["system"][1]["cache_control"] = MARK
        body["messages"][where]["content"][0]["cache_control"] = MARK

    return change


def _far(body: Json) -> None:
    body["messages"][-1]["content"][-1].pop("cache_control")
    new = [{"type": "text", "text": f"Note {n}. {WORDS}"} for n in range(24)]
    body["messages"][-1]["content"] += [*new, {"type": "text", "text": NEXT, "cache_control": MARK}]


def _long(body: Json) -> None:
    for message in body["messages"][:5]:
        message["content"][0]["text"] += LONG * 2


def of_marks() -> Iterator[Break]:
    """Yield marks of the cache that moved, or went, and prompts that are too short."""
    for where in (6, 7, 8, 4):
        yield Break("anthropic", f"the marks moved, the last one to message {where}", _marked_at(where))
    yield Break("anthropic", "there is no mark any more", _unmarked, Expected("no mark"))
    yield Break("anthropic", "the mark is too far away", _far, Expected("too far"), before=_long)
    yield Break(
        "anthropic",
        "it is too short for the model",
        _nothing,
        Expected("too short"),
        before=lambda body: body.update(model="claude-opus-4-5"),
        least=4_096,
    )


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Alpha", "input": {"path": "a"}}


def _with_work(body: Json) -> None:
    """Have the second and third message be a call with thinking, and its result."""
    thought = {"type": "thinking", "thinking": f"I wonder. {WORDS}", "signature": "c2ln"}
    body["messages"][1]["content"] = [thought, {"type": "text", "text": TEXTS[1]}, CALL]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"RESULT {LONG}"}
    body["messages"][2]["content"] = [result, {"type": "text", "text": TEXTS[2]}]


def of_forms() -> Iterator[Break]:
    """Yield what Claude Code does to a history by itself."""

    def without_thinking(body: Json) -> None:
        del body["messages"][1]["content"][0]

    def cleared(body: Json) -> None:
        body["messages"][2]["content"][0]["content"] = "[Old tool result content cleared]"

    def as_text(body: Json) -> None:
        for message in body["messages"]:
            if len(message["content"]) == 1 and "cache_control" not in message["content"][0]:
                message["content"] = message["content"][0]["text"]

    yield Break(
        "anthropic",
        "thinking was removed",
        without_thinking,
        Expected("history", "thinking removed", "/messages/1/content/0", -1, "wonder"),
        before=_with_work,
    )
    yield Break(
        "anthropic",
        "a result was cleared",
        cleared,
        Expected("history", "cleared", "/messages/2/content/0/content", 0, "RESULT"),
        before=_with_work,
    )
    yield Break("anthropic", "texts alone are no lists", as_text)
    yield Break("anthropic", "nothing changed, with calls", _nothing, before=_with_work)
