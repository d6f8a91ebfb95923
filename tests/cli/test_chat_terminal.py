"""`chat` at a terminal: what streams, what is asked, and what the keys do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError
from tests.cli.teams import ASKS, LONG, SELLS, call, events, script
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal

SHELL = """
from stenolog.tools import tool


@tool(approval=True)
def shell(cmd: str) -> str:
    'Run it.'
    return 'done'
"""


def at_terminal(folder: Path, *arguments: str, columns: int = 80) -> Terminal:
    """Start `stenolog chat` at a terminal, ready for the first message."""
    terminal = Terminal("chat", *arguments, cwd=folder, columns=columns)
    terminal.expect(" · new · /help")
    terminal.expect("> ")
    return terminal


def test_at_a_terminal_an_answer_streams_and_lines_are_broken_between_words(folder: Path) -> None:
    words = "We bake forty-eight loaves a day, and on Sundays none at all, for then the oven rests."
    with at_terminal(folder, "--model", script(folder, words), columns=40) as terminal:
        shown = terminal.says("How many?\n", "assistant", "1 answer")
        terminal.expect("> ")
        assert terminal.leaves() == 0
    assert "loaves a day, and on\r\nSundays none at all" in shown


def test_ctrl_c_stops_who_is_at_work_and_the_log_says_so(folder: Path) -> None:
    with at_terminal(folder, "--model", script(folder, LONG, "Yes.", pause=0.02)) as terminal:
        terminal.says("Speak\n", "a word")
        terminal.says(CTRL_C, "■ assistant was stopped", "> ")
        terminal.says("Are you there?\n", "Yes.", "> ")
        assert terminal.leaves() == 0
    stopped, answer = events()[3], events()[-1]
    assert isinstance(stopped, LlmError)
    assert (stopped.category, stopped.text[:6]) == ("cancelled", "a word")
    assert isinstance(answer, AssistantMessage)


def test_who_was_stopped_by_ctrl_c_is_asked_again_by_continue(folder: Path) -> None:
    with at_terminal(folder, "--model", script(folder, LONG, "Yes.", pause=0.02)) as terminal:
        terminal.says("Speak\n", "a word")
        terminal.says(CTRL_C, "■ assistant was stopped", "> ")
        terminal.says("/continue\n", "Yes.", "> ")
        terminal.says("/continue\n", "✗ nothing to go on with", "> ")

    assert terminal.text.count("was stopped") == 2  # once in the words of the mistake


def test_ctrl_c_twice_ends_even_where_a_tool_does_not_let_itself_be_stopped(folder: Path) -> None:
    (folder / "stubborn.py").write_text(
        "import asyncio, contextlib\n\n\nasync def sleep() -> str:\n    'Sleep.'\n"
        "    with contextlib.suppress(asyncio.CancelledError):\n        await asyncio.sleep(60)\n"
        "    await asyncio.sleep(60)\n    return 'slept'\n"
    )
    arguments = ("--model", script(folder, call("sleep"), "Yes."), "--tools", "stubborn:sleep")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Sleep\n", "assistant runs sleep")
        terminal.says(CTRL_C, "Cancelled by the user")
        terminal.type(CTRL_C)

        assert terminal.ended(insist=CTRL_C) == 130


def test_an_interrupted_answer_is_named_at_the_start_and_continue_goes_on(folder: Path) -> None:
    arguments = ("--model", script(folder, LONG, pause=0.02))
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Speak\n", "a word and another")
    script(folder, "And so on.", endless=True)
    with Terminal("chat", *arguments, cwd=folder) as terminal:
        terminal.expect("! assistant was interrupted, or is at work elsewhere: /continue")
        terminal.expect("> ")
        terminal.says("/continue\n", "And so on.", "> ")
        terminal.expect("Ctrl-C once more ends", insist=CTRL_C)

        assert terminal.ended(insist=CTRL_C) == 130


def test_an_approval_is_asked_for_and_one_that_was_left_open_is_named_later(folder: Path) -> None:
    arguments = ("--model", script(folder, *SELLS), "--tools", "shop_tools:both")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Sell three.\n", '? assistant: sell({"loaves":3})', "run it? y/n ")
        terminal.says("yes, if they are fresh\n", "run it? y/n ")
        terminal.says(CTRL_D, "left open: /approve comes back to it", "> ")
        terminal.says("/approve\n", "run it? y/n ")
        terminal.expect("left open: /approve comes back to it", insist=CTRL_C)
        terminal.expect("> ")
        assert terminal.leaves() == 0
    with Terminal("chat", *arguments, cwd=folder) as terminal:
        terminal.expect("  you: Sell three.")
        terminal.expect("! assistant awaits your approval of sell since ")
        terminal.expect("> ")
        terminal.says("/approve\n", "run it? y/n ")
        terminal.says("y\n", "3 sold", "Done.", "> ")
        assert terminal.leaves() == 0


def test_a_refusal_may_have_a_reason_and_an_approval_may_hold_for_the_tool(folder: Path) -> None:
    sells = [call("sell", loaves=count) for count in (1, 2, 3)]
    arguments = ("--model", script(folder, *sells, "Done."), "--tools", "shop_tools:both")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Sell\n", "run it? y/n ")
        terminal.says("n One is too few.\n", '? assistant: sell({"loaves":2})', "run it? y/n ")
        terminal.says("a\n", 'approved: assistant: sell({"loaves":3})', "Done.")
    with stenolog.open(folder / "talks.db") as log:
        request = json.dumps(log["chat"].request("assistant").body)

    assert "One is too few." in request
    assert [event.text for event in events() if event.kind == "tool_result"] == [
        "The user refused this call; it was not run.", "2 sold", "3 sold",
    ]  # fmt: skip


def test_an_error_is_shown_whole_however_narrow_the_terminal(folder: Path) -> None:
    reason = "a reason that is longer than the terminal is wide, and that nobody can do without"
    failing = (
        "from stenolog.tools import tool\n\n\n@tool\ndef fail() -> str:\n"
        f"    'Fail.'\n    raise ValueError('{reason}')\n"
    )
    (folder / "failing.py").write_text(failing)
    turns = (call("fail"), {"error": "unauthorized", "message": reason})
    arguments = ("--model", script(folder, *turns), "--tools", "failing:fail")
    with at_terminal(folder, *arguments, columns=40) as terminal:
        shown = terminal.says("Go\n", "tries again then")

    assert " ".join(shown.split()).count(reason) == 2


def test_who_approves_a_call_sees_all_of_it(folder: Path) -> None:
    command = "echo harmless " * 100 + "&& rm -rf everything"
    (folder / "shell_tool.py").write_text(SHELL)
    arguments = ("--model", script(folder, call("shell", cmd=command)), "--tools", "shell_tool:shell")
    with at_terminal(folder, *arguments) as terminal:
        shown = terminal.says("Do it\n", "run it? y/n ")
        terminal.says("n\n", "The user refused this call")

    assert " ".join(shown.split()).count("harmless") == 100
    assert "&& rm -rf everything" in " ".join(shown.split())


def test_a_call_that_is_longer_than_a_page_is_approved_at_its_end_alone(folder: Path) -> None:
    command = "echo harmless; " + "true; " * 2_000 + "rm -rf everything"
    (folder / "shell_tool.py").write_text(SHELL)
    arguments = (
        "--model",
        script(folder, call("shell", cmd=command), "Done."),
        "--tools",
        "shell_tool:shell",
    )
    with at_terminal(folder, *arguments) as terminal:
        first = terminal.says("Do it\n", "characters are left), n refuses ")
        rest = terminal.says("y\n", "run it? y/n ")
        terminal.says("y\n", "Done.")

    assert ("rm -rf" in first, "rm -rf everything" in " ".join(rest.split())) == (False, True)


def test_what_was_typed_before_a_call_was_shown_does_not_approve_it(folder: Path) -> None:
    arguments = ("--model", script(folder, *SELLS), "--tools", "shop_tools:both")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Sell three.\ny\n", "run it? y/n ")
        terminal.says("n not today\n", "The user refused this call")

    results = [event.text for event in events() if event.kind == "tool_result"]
    assert results == ["The user refused this call; it was not run."]


def test_other_arguments_may_run_than_the_model_has_given(folder: Path) -> None:
    arguments = ("--model", script(folder, *SELLS), "--tools", "shop_tools:both")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Sell three.\n", "run it? y/n ")
        terminal.says("e\n", "as a JSON object: ")
        terminal.says(
            '{"loaves": "many"}\n',
            "✗ arguments of sell: /loaves: expected integer, found 'many'",
            "run it? y/n ",
        )
        terminal.says("e\n", "as a JSON object: ")
        terminal.says('{"loaves": 1}\n', '? with: sell({"loaves": 1})', "run it? y/n ")
        terminal.says("y\n", "Done.")

    results = [event.text.splitlines() for event in events() if event.kind == "tool_result"]
    assert results == [['[The user changed the arguments of this call. It ran with {"loaves": 1}]', "1 sold"]]


def test_a_mistake_at_a_terminal_is_said_and_the_conversation_goes_on(folder: Path) -> None:
    with at_terminal(folder, "--model", script(folder, "Hello.")) as terminal:
        terminal.says("/wyh\n", "✗ no command /wyh: did you mean /why?", "> ")
        terminal.says("Hi\n", "Hello.", "> ")
        terminal.type("/quit\n")

        assert terminal.ended() == 0


def test_a_call_that_is_waited_for_is_shown_while_it_lasts(folder: Path) -> None:
    with at_terminal(folder, "--model", script(folder, "Hello.", pause=1.5)) as terminal:
        terminal.says("Hi\n", "… assistant is thinking · ", "Hello.")


def test_nothing_is_left_behind_in_the_folder_but_the_database(folder: Path) -> None:
    with at_terminal(folder, "--model", script(folder, "Hello."), "--db", "own.db") as terminal:
        assert terminal.leaves() == 0

    assert {name.partition(".db")[0] for name in os.listdir(folder)} <= {
        "own", "script.json", "shop_tools.py", "__pycache__",
    }  # fmt: skip


# What commands that ask before they remove something do with every answer, at a real terminal.


ASKING = {"deleted": ("delete", "demo"), "erased": ("erase", "demo", "4")}


@pytest.mark.parametrize("undone", ASKING)
@pytest.mark.parametrize("keys", ["n\n", "\n", CTRL_D, CTRL_C], ids=["n", "enter", "ctrl-d", "ctrl-c"])
def test_every_answer_but_yes_leaves_all_as_it_was_and_says_so_in_one_line(
    keys: str, undone: str, demo: Callable[..., Any], tmp_path: Path
) -> None:
    before = demo("log", "demo").out
    with Terminal(*ASKING[undone], cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        if keys != CTRL_C:  # a second one might come while the program ends
            terminal.type(keys)
        terminal.expect(f"nothing was {undone}", insist=keys if keys == CTRL_C else "")
        status = terminal.ended()

    assert status == 130
    assert "defect" not in terminal.text
    assert "✗" not in terminal.text
    assert demo("log", "demo").out == before


@pytest.mark.parametrize("undone", ASKING)
def test_yes_does_what_was_asked(undone: str, demo: Callable[..., Any], tmp_path: Path) -> None:
    with Terminal(*ASKING[undone], cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        terminal.type("y\n")
        terminal.expect(undone)
        assert terminal.ended() == 0


def test_a_question_of_a_tool_is_answered_where_it_is_asked_or_by_the_next_message(folder: Path) -> None:
    (folder / "shop_tools.py").write_text(ASKS)
    books = [call("book", seats=seats) for seats in (1, 2, 3)]
    arguments = ("--model", script(folder, *books, "Done."), "--tools", "shop_tools:book")
    with at_terminal(folder, *arguments) as terminal:
        terminal.says("Book.\n", "? assistant: book asks: Which train?", "1. 8:15", "for none): ")
        terminal.says("10:00\n", "✗ answer: expected one of '8:15', '9:40'", "answer (/refuse for none): ")
        terminal.says("9:40\n", "1 in the 9:40", "answer (/refuse for none): ")
        terminal.says(CTRL_D, "left open: /approve comes back to it", "> ")
        terminal.says("1\n", "2 in the 8:15", "answer (/refuse for none): ")
        terminal.says("/refuse Too late.\n", "Done.", "> ")
        assert terminal.leaves() == 0
    with stenolog.open(folder / "talks.db") as log:
        assert "Too late." in json.dumps(log["chat"].request("assistant").body)
