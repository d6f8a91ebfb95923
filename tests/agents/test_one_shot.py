"""A program that is run for each request."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.agents import process
from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.command_line import CommandLine
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS, JsonLines
from stenolog.domain.errors import CallerError
from stenolog.domain.parts import TextPart
from stenolog.models import ModelResponse, ResponseDelta
from tests.agents import given
from tests.agents.given import asked, failed, once, prompt, run, words


def test_the_prompt_goes_to_stdin_and_stdout_is_the_answer() -> None:
    said = "User: Hi\n\nAssistant (Ada): Hello ✓"

    assert run(lambda model: asked(model, said), once("echo")) == ModelResponse((TextPart(text=said),))


def test_the_prompt_is_an_argument_where_the_command_says_so() -> None:
    assert words(run(lambda model: asked(model, "-v; echo $HOME"), once("argument", "{prompt}"))) == (
        "-v; echo $HOME"
    )


def test_a_command_may_be_a_line_of_words_that_no_shell_sees() -> None:
    model = CommandLine(f"{' '.join(given.PYTHON)} '{given.PROGRAM}' argument 'a  b; exit 1'")

    assert words(run(lambda model: asked(model, ""), model)) == "a  b; exit 1"


def test_what_it_says_is_streamed_while_it_comes() -> None:
    async def begun(model: CommandLine) -> str:
        async with aclosing(model.stream(prompt(""))) as stream:
            return await given.first(stream)  # it does not end before a minute has passed

    assert int(run(begun, once("family"))) > 0


def test_a_program_that_fails_says_so_and_what_it_had_said_is_kept() -> None:
    said, error = run(lambda model: failed(model, "Hi"), once("fail", env={"SECRET_KEY": "sk-1234"}))

    assert (said, error.category) == ("some of it", "process_exited")
    assert error.message == f"{given.NAME} ended with exit code 3: line / line / the key *** is wrong"


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (r"\033[31mno \033[1mquota\033[0m\033[", "no quota"),
        (r"error: bad option\n\nUsage: x\n\n  y\n\nsee --help\n", "error: bad option /  / Usage: x"),
    ],
)
def test_the_words_of_a_failure_are_plain_and_begin_with_the_fault(stderr: str, expected: str) -> None:
    model = CommandLine(["sh", "-c", f"printf '{stderr}' >&2; exit 3"])

    _, error = run(lambda model: failed(model, "Hi"), model)

    assert error.message == f"sh ended with exit code 3: {expected}"


def test_the_words_of_a_failure_may_come_after_the_end_of_the_program() -> None:
    model = CommandLine(["sh", "-c", "(sleep 0.2; echo 'out of memory' >&2) >/dev/null & exit 3"])

    _, error = run(lambda model: failed(model, "Hi"), model)

    assert error.message == "sh ended with exit code 3: out of memory"


@pytest.mark.parametrize("inherited", [True, False])
def test_no_value_of_the_environment_is_in_an_error_or_a_repr(
    inherited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if inherited:
        monkeypatch.setenv("SECRET_KEY", "sk-5678")
    model = once("fail", env={} if inherited else {"SECRET_KEY": "sk-5678"})

    _, error = run(lambda model: failed(model, ""), model)

    assert "sk-5678" not in f"{error} {error!r} {error.__cause__!r} {error.__context__!r} {model!r}"


def test_a_program_that_is_not_there_is_named() -> None:
    _, error = run(lambda model: failed(model, ""), CommandLine("no-such-agent --fast"))

    assert (error.category, error.message) == (
        "other",
        "no-such-agent could not be started: No such file or directory (no-such-agent)",
    )


def test_a_prompt_that_is_too_long_for_an_argument_is_refused_with_the_way_out() -> None:
    _, error = run(lambda model: failed(model, "x" * 3_000_000), once("argument", "{prompt}"))

    assert (error.category, error.message) == (
        "invalid_request",
        f"{given.NAME} could not be started: its arguments are too long; have it read the prompt from stdin",
    )


def test_a_nul_is_no_argument() -> None:
    _, error = run(lambda model: failed(model, "a\0b"), once("argument", "{prompt}"))

    assert (error.category, "NUL" in error.message) == ("invalid_request", True)


def test_a_prompt_of_5_mb_is_echoed_whole() -> None:
    long = "word " * 1_000_000 + "."

    assert words(run(lambda model: asked(model, long), once("echo"))) == long


@pytest.mark.parametrize("behaviour", ["flood", "deaf"])
def test_neither_a_flood_on_stderr_nor_a_stdin_that_is_closed_stops_it(behaviour: str) -> None:
    assert words(run(lambda model: asked(model, "x" * 5_000_000), once(behaviour))) == "done"


def test_a_program_that_never_reads_is_still_heard() -> None:
    answer = run(lambda model: asked(model, "x" * 5_000_000), once("many", "1000000"))

    assert words(answer) == "word " * 1_000_000


def test_closing_the_stream_ends_the_program_and_its_children() -> None:
    async def closed(model: CommandLine) -> int:
        async with aclosing(model.stream(prompt(""))) as stream:
            return int(await given.first(stream))

    assert given.gone(run(closed, once("family")))


def test_cancelling_who_waits_ends_the_program_and_its_children() -> None:
    async def cancelled(model: CommandLine) -> int:
        heard = asyncio.Queue[str]()

        async def listen() -> None:
            async with aclosing(model.stream(prompt(""))) as stream:
                await heard.put(await given.first(stream))
                await anext(stream)

        task = asyncio.create_task(listen())
        child = int(await heard.get())
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return child

    assert given.gone(run(cancelled, once("family")))


def test_a_child_left_behind_does_not_keep_the_answer_waiting_and_is_ended() -> None:
    answer = run(lambda model: asked(model, ""), once("orphan"))

    assert given.gone(int(words(answer)))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"caf\xe9 \xff!", "caf\ufffd \ufffd!"),
        ("naïve ✓ 𝄞".encode(), "naïve ✓ 𝄞"),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b(B\x1b[K", "red plain"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"one\r\n\r\ntwo\r\n\n", "one\r\n\r\ntwo"),
        (b"\n\n", ""),
    ],
)
@pytest.mark.parametrize("behaviour", ["raw", "bit_by_bit"])
def test_bytes_become_text_however_they_arrive(behaviour: str, output: bytes, expected: str) -> None:
    heard = run(lambda model: given.pieces(model, ""), once(behaviour, output.hex()))

    *said, answer = heard
    assert isinstance(answer, ModelResponse)
    assert (words(answer), "".join(piece.text for piece in said if isinstance(piece, ResponseDelta))) == (
        expected,
        expected,
    )


def test_a_line_of_12_mb_is_one_line() -> None:
    answer = run(lambda model: asked(model, ""), once("large", "12000000", format="jsonl"))

    assert words(answer) == "x" * 12_000_000


def test_nobody_is_sent_a_signal_once_the_process_and_its_group_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number may be that of another group by then."""

    async def ended(model: CommandLine) -> list[int]:
        late = await process.launch(model._command, model._command.args)
        while not late._over:
            await asyncio.sleep(0.01)
        sent: list[int] = []
        monkeypatch.setattr(os, "killpg", lambda _, number: sent.append(number))
        await late.stop(1)
        return sent

    assert run(ended, once("argument", "x")) == []


def test_a_slow_listener_misses_nothing_of_a_program_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LINGER", 0.01)

    async def slowly(model: CommandLine) -> str:
        heard = ""
        async with aclosing(model.stream(prompt(""))) as stream:
            async for piece in stream:
                if isinstance(piece, ResponseDelta):
                    heard += piece.text
                    await asyncio.sleep(0.1)
        return heard

    for count in (228_000, 1_000_000):  # the first leaves the last of it in the pipe, behind what is held
        assert run(slowly, once("many", str(count))) == "word " * count


def test_what_comes_after_the_end_of_an_answer_does_not_hold_it_up(tmp_path: Path) -> None:
    lines = [{"type": "result", "text": "Done."}, "x" * 3_000_000]

    async def soon(model: CommandLine) -> ModelResponse:
        async with asyncio.timeout(20):
            return await asked(model, "")

    assert words(run(soon, once(*says(tmp_path, *lines), format="jsonl", patience=60))) == "Done."


def says(folder: Path, *lines: object, code: int = 0) -> list[str]:
    """Return a program that says these lines, and ends with the code."""
    file = folder / "said"
    file.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
    return ["script", str(file), str(code)]


def test_noise_between_json_lines_is_passed_over(tmp_path: Path) -> None:
    lines = ["(node:1) Warning", {"type": "text", "text": "Hi"}, "", "[1, 2]", {"type": "new"}]

    assert words(run(lambda model: asked(model, ""), once(*says(tmp_path, *lines), format="jsonl"))) == "Hi"


def test_a_broken_object_is_an_invalid_response_and_what_came_before_is_kept(tmp_path: Path) -> None:
    lines = [{"type": "text", "text": "Hi"}, '{"type": "text", "te', {"type": "result"}]

    said, error = run(lambda model: failed(model, ""), once(*says(tmp_path, *lines), format="jsonl"))

    assert (said, error.category, error.message) == (
        "Hi",
        "invalid_response",
        'expected a JSON object in a line, found \'{"type": "text", "te\' (JSONDecodeError)',
    )


def test_noise_alone_is_an_invalid_response_that_shows_it(tmp_path: Path) -> None:
    _, error = run(lambda model: failed(model, ""), once(*says(tmp_path, "Please log in"), format="jsonl"))

    assert (error.category, error.message) == (
        "invalid_response",
        "expected JSON lines, found 'Please log in'",
    )


def test_a_program_that_only_fails_is_an_exit_and_not_an_invalid_response(tmp_path: Path) -> None:
    _, error = run(lambda model: failed(model, ""), once(*says(tmp_path, code=4), format="jsonl"))

    assert (error.category, error.message) == ("process_exited", f"{given.NAME} ended with exit code 4")


def test_an_answer_that_has_told_its_end_is_whole_whatever_the_exit_code(tmp_path: Path) -> None:
    lines = [{"type": "result", "text": "Done."}]

    answer = run(lambda model: asked(model, ""), once(*says(tmp_path, *lines, code=1), format="jsonl"))

    assert words(answer) == "Done."


def test_a_failure_that_is_told_has_its_category_and_no_secret(tmp_path: Path) -> None:
    lines = [{"type": "error", "message": "429: sk-1234 has had its share", "retry_after": 7}]
    model = once(*says(tmp_path, *lines), format="jsonl", env={"KEY": "sk-1234"})

    _, error = run(lambda model: failed(model, ""), model)

    assert (error.category, error.message, error.retry_after) == (
        "rate_limited",
        "429: *** has had its share",
        7.0,
    )


def test_a_session_is_kept_with_the_answer_and_taken_up_with_the_next_request() -> None:
    resuming = JsonLines(OUTPUT_FORMATS["jsonl"].read, resume=("--resume", "{session}"))

    async def twice(model: CommandLine) -> tuple[ModelResponse, ModelResponse]:
        one = await asked(model, "one")
        return one, await asked(model, "two", one.session)

    one, two = run(twice, once("sessions", format=resuming))

    assert [(words(each), each.session) for each in (one, two)] == [
        ("one ", "s1"),
        ("two --resume s1", "s1"),
    ]


def test_who_keeps_its_sessions_itself_loses_none_with_a_process() -> None:
    assert run(lambda model: model.lost("coder", "talk", "s1"), once("echo")) == ""


def test_a_reader_of_ones_own_is_a_function(tmp_path: Path) -> None:
    def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
        if line["event"] == "token":
            turn.add_text(line["data"])
        else:
            turn.finish()

    lines = [{"event": "token", "data": "Hel"}, {"event": "token", "data": "lo"}, {"event": "done"}, {}]
    model = once(*says(tmp_path, *lines), format=JsonLines(read))

    assert run(lambda model: given.pieces(model, ""), model)[-1] == ModelResponse((TextPart(text="Hello"),))


def test_a_line_that_the_reader_does_not_expect_is_an_invalid_response(tmp_path: Path) -> None:
    def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
        turn.add_text(line["data"])

    _, error = run(
        lambda model: failed(model, ""), once(*says(tmp_path, {"type": 1}), format=JsonLines(read))
    )

    assert (error.category, error.message) == (
        "invalid_response",
        "KeyError: 'data' in the line '{\"type\": 1}'",
    )


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("", {}, "expected a command, found none"),
        ("a", {"mode": "twice"}, "mode: expected one-shot or long-lived, found 'twice'"),
        ("a {prompt}", {"mode": "long-lived"}, "mode: a long-lived process gets its prompts on stdin"),
        ("a", {"end": " "}, "end: expected one line that is not blank, found ' '"),
        (
            "a",
            {"format": "xml"},
            "expected an output format other than text: "
            "jsonl, claude-code, codex, gemini-cli, qwen-code; found 'xml'",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once(command: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CallerError, match=message.replace("{", r"\{")):
        CommandLine(command, **options)
