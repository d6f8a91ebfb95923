"""What real programs write, to the parts of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.agents.answer_buffer import LARGEST_NOTE, ResponseBuilder
from stenolog.adapters.agents.command import Command
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS, split_command
from stenolog.adapters.agents.output_parser import LinesParser, OutputParser, TextParser
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import ProviderPart, ReasoningPart, TextPart
from stenolog.domain.values import Usage
from stenolog.models import ModelResponse, ResponseDelta

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1 failed"}
COUNTED = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 20,
    "output_tokens": 5,
}
USAGE = Usage(input=33, output=5, cache_read=20, cache_write=10)


def heard(format: str, *lines: dict[str, Any]) -> tuple[ModelResponse, list[ResponseDelta]]:
    """Return the answer that the lines are, and its pieces."""
    ear = LinesParser(ResponseBuilder(format), OUTPUT_FORMATS[format].read)
    ear.feed("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    assert ear.turn.ended
    return ear.turn.answer, [piece for piece in ear.turn.pieces() if isinstance(piece, ResponseDelta)]


def message(*content: dict[str, Any], id: str = "msg_1", **more: Any) -> dict[str, Any]:
    """Return a line of Claude Code with (some of) a message."""
    said = {"id": id, "type": "message", "role": "assistant", "model": "claude-x", "content": list(content)}
    return {"type": "assistant", "message": said, "parent_tool_use_id": None, "session_id": "s1"} | more


def event(**told: Any) -> dict[str, Any]:
    """Return a line of Claude Code with a piece of a message."""
    return {"type": "stream_event", "event": told, "parent_tool_use_id": None, "session_id": "s1"}


INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-x", "tools": ["Bash"]}
USER = {"type": "user", "message": {"role": "user", "content": [RESULT]}, "session_id": "s1"}
END = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "It is fixed.",
    "session_id": "s1",
}
THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
FOUND = (
    ReasoningPart(text="Let me see.", provider="claude-code", signature="c2ln"),
    TextPart(text="I run them."),
    ProviderPart(provider="claude-code", raw=json.dumps(CALL, separators=(",", ":"))),
    ProviderPart(provider="claude-code", raw=json.dumps(RESULT, separators=(",", ":"))),
    TextPart(text="It is fixed."),
)


def test_claude_code_says_its_messages_and_what_it_did_is_kept_but_never_run() -> None:
    answer, said = heard(
        "claude-code",
        INIT,
        message(THOUGHT),
        message({"type": "text", "text": "I run them."}),
        message(CALL),
        message({"type": "text", "text": "of a sub-agent"}, parent_tool_use_id="toolu_9"),
        USER,
        message({"type": "text", "text": "It is fixed."}, id="msg_2"),
        END | {"usage": COUNTED, "stop_reason": "end_turn"},
    )

    assert answer == ModelResponse(FOUND, "claude-x", "end_turn", USAGE, "s1")
    assert said == [
        ResponseDelta(0, "reasoning", "Let me see."),
        ResponseDelta(1, "text", "I run them."),
        ResponseDelta(2, "act", json.dumps(CALL, separators=(",", ":")), "claude-code"),
        ResponseDelta(3, "act", json.dumps(RESULT, separators=(",", ":")), "claude-code"),
        ResponseDelta(4, "text", "It is fixed."),
    ]


def test_claude_code_with_partial_messages_says_nothing_twice() -> None:
    text = {"type": "text", "text": ""}
    answer, said = heard(
        "claude-code",
        event(type="message_start", message={"id": "msg_1"}),
        event(type="content_block_start", index=0, content_block={"type": "thinking"}),
        event(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Let me "}),
        event(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "see."}),
        event(type="content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2ln"}),
        message(THOUGHT),
        event(type="content_block_start", index=1, content_block=text),
        event(type="content_block_delta", index=1, delta={"type": "text_delta", "text": "I run "}),
        event(type="content_block_delta", index=1, delta={"type": "text_delta", "text": "them."}),
        message({"type": "text", "text": "I run them."}),
        event(type="content_block_start", index=2, content_block=CALL),
        event(type="content_block_delta", index=2, delta={"type": "input_json_delta", "partial_json": "{"}),
        message(CALL),
        USER,
        message({"type": "text", "text": "It is fixed."}, id="msg_2"),
        END,
    )

    assert answer == ModelResponse(FOUND, "claude-x", session="s1")
    words = [piece.text for piece in said if piece.kind != "act"]
    assert words == ["Let me ", "see.", "I run ", "them.", "It is fixed."]


def test_a_result_that_was_not_said_before_is_the_answer() -> None:
    answer, said = heard("claude-code", INIT, END)

    assert (answer.parts, said) == (
        (TextPart(text="It is fixed."),),
        [ResponseDelta(0, "text", "It is fixed.")],
    )


@pytest.mark.parametrize(
    ("line", "category", "words"),
    [
        (
            {"is_error": True, "result": "Invalid API key · Please run /login"},
            "unauthorized",
            "Invalid API key",
        ),
        ({"is_error": True, "result": "Prompt is too long"}, "context_length", "Prompt is too long"),
        ({"is_error": True, "result": "API Error: 529 Overloaded"}, "overloaded", "API Error: 529"),
        ({"subtype": "error_max_turns", "result": None}, "other", "error max turns"),
    ],
)
def test_a_failure_of_claude_code_has_its_category(line: dict[str, Any], category: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        heard("claude-code", INIT, END | line)

    assert raised.value.category == category


def test_codex_says_its_messages_and_what_it_did_is_kept_but_never_run() -> None:
    did = {
        "id": "item_1",
        "type": "command_execution",
        "command": "ls",
        "exit_code": 0,
        "status": "completed",
    }
    answer, said = heard(
        "codex",
        {"type": "thread.started", "thread_id": "0199"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "**Looking**"}},
        {"type": "item.started", "item": did | {"status": "in_progress"}},
        {"type": "item.completed", "item": did},
        {"type": "error", "message": "stream disconnected; retrying 1/5"},
        {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "A README."}},
        {"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": "No more."}},
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2},
        },
    )

    assert answer == ModelResponse(
        (
            ReasoningPart(text="**Looking**", provider="codex"),
            ProviderPart(provider="codex", raw=json.dumps(did, separators=(",", ":"))),
            TextPart(text="A README."),
            TextPart(text="No more."),
        ),
        usage=Usage(input=9, output=2, cache_read=4),
        session="0199",
        usage_is_total=True,
    )
    assert [(piece.part, piece.text) for piece in said] == [
        (0, "**Looking**"),
        (1, json.dumps(did, separators=(",", ":"))),
        (2, "A README."),
        (3, "No more."),
    ]


def test_a_failed_turn_of_codex_has_its_category() -> None:
    failed = {"type": "turn.failed", "error": {"message": "You've hit your usage limit."}}
    with pytest.raises(ModelError, match="usage limit") as raised:
        heard("codex", failed)

    assert raised.value.category == "rate_limited"


@pytest.mark.parametrize("format", OUTPUT_FORMATS)
@pytest.mark.parametrize("odd", [None, 7, "x", [], [1], {}, {"type": 5}, {"content": 5}])
def test_fields_of_another_type_are_no_fault(format: str, odd: object) -> None:
    kinds = (
        "assistant",
        "user",
        "stream_event",
        "system",
        "item.completed",
        "thread.started",
        "text",
        "note",
    )
    fields = ("message", "event", "item", "text", "session_id", "thread_id", "id")

    ear = LinesParser(ResponseBuilder(format), OUTPUT_FORMATS[format].read)
    for kind in kinds:
        for field in fields:
            ear.feed(json.dumps({"type": kind, field: odd}).encode() + b"\n")

    assert not ear.turn.ended


def test_a_large_thing_that_an_agent_did_is_kept_with_its_texts_shortened() -> None:
    turn = ResponseBuilder("x")
    turn.add_note({"id": 1, "input": {"command": "cat"}, "output": ["y" * LARGEST_NOTE]})

    (note,) = turn.answer.parts

    assert isinstance(note, ProviderPart)
    assert json.loads(note.raw) == {
        "id": 1,
        "input": {"command": "cat"},
        "output": ["y" * 1000 + "… (64,000 characters in all)"],
    }


def test_half_a_character_in_json_becomes_a_replacement() -> None:
    ear = LinesParser(ResponseBuilder("x"), OUTPUT_FORMATS["jsonl"].read)
    ear.feed(b'{"type": "text", "text": "a\\ud83d b\\ud83d\\ude00"}\n{"type": "note", "x": "\\udc00"}\n')

    assert ear.turn.answer.parts == (
        TextPart(text="a\ufffd b😀"),
        ProviderPart(provider="x", raw='{"type":"note","x":"\ufffd"}'),
    )


def test_words_that_are_all_blank_are_no_part() -> None:
    answer, _ = heard("jsonl", {"type": "text", "text": " \n"}, {"type": "reasoning"}, {"type": "result"})

    assert answer.parts == ()


def test_own_programs_tell_usage_model_and_finish_reason() -> None:
    counted = {"input": 5, "output": 2, "cache_read": 1, "cache_write": 0, "reasoning": 1, "new": 9}
    end = {
        "type": "result",
        "text": "Hi",
        "usage": counted,
        "model": "m",
        "finish_reason": "stop",
        "session": "s",
    }

    answer, _ = heard("jsonl", end)

    usage = Usage(input=5, output=2, cache_read=1, reasoning=1)
    assert answer == ModelResponse((TextPart(text="Hi"),), "m", "stop", usage, "s")


def test_a_failure_with_an_unknown_category_is_sorted_by_its_words() -> None:
    with pytest.raises(ModelError) as raised:
        heard("jsonl", {"type": "error", "message": "overloaded", "category": "tired"})

    assert raised.value.category == "overloaded"


@pytest.mark.parametrize(
    ("given", "mode", "expected"),
    [
        (
            "claude -p",
            "claude-code",
            "claude -p --output-format stream-json --verbose --include-partial-messages --resume s1",
        ),
        (
            "claude -p --output-format stream-json --verbose --model x",
            "claude-code",
            "claude -p --output-format stream-json --verbose --model x --resume s1",
        ),
        ("codex exec", "codex", "codex exec --json resume s1 -"),
        ("codex exec --json", "codex", "codex exec --json resume s1 -"),
    ],
)
def test_a_known_program_is_told_to_speak_its_form_and_to_take_up_its_session(
    given: str, mode: str, expected: str
) -> None:
    form = OUTPUT_FORMATS[mode]

    command = Command.of(given).with_options(form.speak)

    assert command.arguments("Hi", "s1", form.resume) == expected.split()


def test_options_stand_before_a_prompt_that_is_an_argument() -> None:
    form = OUTPUT_FORMATS["claude-code"]
    command = Command.of(["claude", "-p", "{prompt}"]).with_options(form.speak, form.listen)

    words = [*form.speak, "--input-format", "stream-json", "--resume", "s1"]
    assert command.arguments("a {prompt}", "s1", form.resume) == ["claude", "-p", *words, "a {prompt}"]
    assert command.arguments("a {prompt}", "", form.resume) == ["claude", "-p", *words[:-2], "a {prompt}"]


# What is answered does not depend on how the bytes arrive.


LAST = "<end>"
SCRAPS = ("a", "<en", "<end>", "d>", "\n", "\r\n", "\x1b[1m", "\x1b]0;t\x07", "\x1b", "é", "𝄞", "{", " ")
OUTPUT = st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join)
CUTS = st.lists(st.integers(1, 5), max_size=40)


def answered(ear: OutputParser, output: bytes, cuts: list[int]) -> tuple[ModelResponse, bool, str]:
    """Return the answer, whether it has told its end, and all pieces as one."""
    for cut in cuts:
        ear.feed(output[:cut])
        output = output[cut:]
    ear.feed(output)
    if not ear.turn.ended:
        ear.close()
    return (
        ear.turn.answer,
        ear.turn.ended,
        "".join(piece.text for piece in ear.turn.pieces() if isinstance(piece, ResponseDelta)),
    )


@given(OUTPUT, CUTS)
def test_text_is_heard_the_same_in_whatever_pieces_it_comes(output: str, cuts: list[int]) -> None:
    for end in ("", LAST):
        whole = answered(TextParser(ResponseBuilder("x"), end), output.encode(), [])

        assert answered(TextParser(ResponseBuilder("x"), end), output.encode(), cuts) == whole


@given(st.lists(st.text(max_size=6).filter(lambda text: "\x1b" not in text), max_size=6), CUTS)
def test_text_up_to_the_line_that_is_the_end_is_the_answer(lines: list[str], cuts: list[int]) -> None:
    said = "\n".join(lines)
    before = f"{said}\n" if said else ""

    found, ended, _ = answered(
        TextParser(ResponseBuilder("x"), LAST), f"{before}{LAST}\nand more".encode(), cuts
    )

    expected = said.rstrip("\r\n")
    assert (ended, [part.text for part in found.parts if part.type == "text"]) == (
        True,
        [expected] if expected.strip() else [],
    )


@given(st.lists(st.text(max_size=6), max_size=6), CUTS)
def test_json_lines_are_heard_the_same_in_whatever_pieces_they_come(
    texts: list[str], cuts: list[int]
) -> None:
    lines = [json.dumps({"type": "text", "text": text}, ensure_ascii=False) for text in texts]
    output = "\n".join([*lines, "noise", '{"type": "result"}', "noise"]).encode("utf-8", "replace")

    found, ended, said = answered(
        LinesParser(ResponseBuilder("x"), OUTPUT_FORMATS["jsonl"].read), output, cuts
    )

    assert (ended, said) == (True, "".join(texts))
    assert [part.text for part in found.parts if part.type == "text"] == ([said] if said.strip() else [])


# Programs whose format is known by their name.


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("claude", ("claude -p", "claude-code")),
        ("bin/claude --print --model opus", ("bin/claude --print --model opus", "claude-code")),
        ("claude -p --output-format text", ("claude -p --output-format text", "text")),
        ("codex", ("codex exec", "codex")),
        ("codex exec --full-auto", ("codex exec --full-auto", "codex")),
        ("codex -m gpt-5", ("codex exec -m gpt-5", "codex")),
        ("gemini --yolo", ("gemini --yolo", "gemini-cli")),
        ("bin/qwen -m qwen3", ("bin/qwen -m qwen3", "qwen-code")),
        ("gemini -o text", ("gemini -o text", "text")),
        ("my-agent 'a b'", ("my-agent 'a b'", "text")),
    ],
)
def test_a_program_is_known_by_its_name(command: str, expected: tuple[str, str]) -> None:
    assert split_command(command) == expected
