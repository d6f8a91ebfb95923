"""The chat room of command-line agents: from start to end, through kills, at the terminal and on Telegram."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

import stenolog
from examples.neurocrew.report import report
from examples.neurocrew.telegram import settings as telegram_settings
from stenolog import AssistantMessage, ModeSwitch, UserMessage
from stenolog.errors import CallerError
from tests.chats.standin import TOKEN, StandIn
from tests.command_line import run
from tests.examples import harness
from tests.forked import python

NAME = "neurocrew"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a run that nobody has killed."""
    return harness.finished(NAME, tmp_path_factory.mktemp(NAME))


def test_it_ends_by_itself_with_a_log_that_all_judges_accept(undisturbed: Path) -> None:
    harness.clean(undisturbed)


def test_a_second_start_shows_what_was_said_and_adds_nothing(undisturbed: Path) -> None:
    with stenolog.open(undisturbed) as log:
        named = "neurocrew.db" if log.path == str(undisturbed) else log.path

    shown = harness.said(NAME, undisturbed.parent, env={"COLUMNS": "300"}).splitlines()

    assert shown[:4] == [
        f"({named} has this from an earlier start; --db another.db begins anew.)",
        "",
        "> Build a login for the bakery.",
        "Software Developer: Plan: a table of users, a cookie with a session's id. Review it, please.",
    ]
    assert shown.count("(a new start for the agents)") == 1
    notes = [line for line in shown if line.startswith(("(memory ", "(summary "))]
    assert notes[:2] == [
        "(memory for Code Reviewer: A login for the bakery is built.)",
        "(summary for Product Owner: A login for the bakery is built. A session ends after a day.)",
    ]
    assert "24 entries. The turns are over: Product Owner, who moderates, passed." in shown


def test_the_command_at_the_end_shows_what_the_line_above_tells(
    undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = harness.said(NAME, undisturbed.parent, env={"COLUMNS": "300"}).splitlines()
    [told] = [line for line in shown if line.startswith("  Product Owner at ")]
    [why] = [line for line in shown if line.startswith("Why? ")]
    command = shlex.split(why.removeprefix("Why? stenolog "))

    assert told.startswith(
        "  Product Owner at 18: 8 entries, a note that some are missing, not 3 (beyond-last), not 4"
    )
    assert run([*command[:-1], str(undisturbed)]) == 0
    assert "request for Product Owner at entry 18" in capsys.readouterr().out


def test_no_heading_speaks_of_a_new_start_where_there_was_none(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["crew"].append(UserMessage(text="Build a login."))
        log["crew"].append(AssistantMessage(agent="Product Owner", text="....."))

        assert [*report(log["crew"])] == [
            "3 entries. The turns are over: not yet.",
            "Passed, which the room does not show: Product Owner at 3.",
        ]


def test_where_nobody_reads_on_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        python("-m", "examples.neurocrew", "--db", str(tmp_path / "unread.db")),
        cwd=harness.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout, "a pipe"
        read = [process.stdout.readline() for _ in range(3)]
        process.stdout.close()
        _, errors = process.communicate(timeout=harness.PATIENCE)

    assert (read[1], process.returncode, errors) == ("> /intent Build a login for the bakery.\n", 0, "")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {},
            "expected TELEGRAM_TOKEN (or TELEGRAM_TOKENS) and TELEGRAM_CHATS in the environment: "
            "see README.md",
        ),
        ({"TELEGRAM_TOKEN": TOKEN}, "expected TELEGRAM_CHATS in the environment: see README.md"),
        (
            {"TELEGRAM_TOKENS": "{}", "TELEGRAM_CHATS": "foo"},
            "TELEGRAM_CHATS: expected ids such as 123,-456; found 'foo'",
        ),
        (
            {"TELEGRAM_TOKENS": TOKEN, "TELEGRAM_CHATS": "1"},
            'TELEGRAM_TOKENS: expected JSON, such as {"Code Reviewer": "456:…"}',
        ),
    ],
)
def test_what_telegram_needs_is_said_at_once(
    settings: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TELEGRAM_TOKEN", "TELEGRAM_TOKENS", "TELEGRAM_CHATS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(CallerError) as raised:
        telegram_settings()
    assert str(raised.value) == expected


@pytest.mark.slow
def test_killed_five_times_it_ends_with_the_same(undisturbed: Path, tmp_path: Path) -> None:
    path = harness.killed(NAME, tmp_path)

    assert harness.outcome(NAME, path) == harness.outcome(NAME, undisturbed)
    harness.clean(path)


def test_what_is_typed_is_said_line_by_line(tmp_path: Path) -> None:
    typed = "Build a login.\n/kill Nobody\n/require\n/require No password in a log.\n"
    done = subprocess.run(
        python("-m", "examples.neurocrew", "--console", "--db", str(tmp_path / "typed.db")),
        cwd=harness.ROOT,
        env={**os.environ, "COLUMNS": "100"},
        input=typed,
        capture_output=True,
        text=True,
        timeout=harness.PATIENCE,
        check=True,
    )

    assert done.stdout.splitlines()[:9] == [
        "Type, and they answer in turn. /help lists the commands; Ctrl-D ends.",
        "Software Developer: Plan: a table of users, a cookie with a session's id. Review it, please.",
        "Code Reviewer: Good, but a session must end some time. After how long?",
        "Product Owner: After a day: bakers get up early.",
        "Software Developer: Then a session ends after 24 hours.",
        "(expected one of Software Developer, Code Reviewer, Product Owner)",
        "(expected a text)",
        "(pinned: requirement)",
        "Software Developer: They are stored hashed, and no log line holds one.",
    ]


TOKENS = {"TELEGRAM_TOKEN": TOKEN, "TELEGRAM_CHATS": "1,-2"}
SAID = ("Build a login for the bakery.", "No password may stand in a log.", "What about a lost password?")


@contextmanager
def serving(api: StandIn, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Serve the room on Telegram, until it is killed or told to stop."""
    process = subprocess.Popen(
        python("-m", "examples.neurocrew", "--telegram", "--base-url", api.url, "--db", str(path)),
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(harness.ROOT), **TOKENS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=harness.PATIENCE)


def delivered(path: Path) -> list[str]:
    """Return the messages that people in the chat read, in order, from the log."""
    with stenolog.open(path) as log:
        events = [entry.event for entry in log["telegram-1"].entries()]
    said = (e for e in events if isinstance(e, AssistantMessage) and e.purpose == "answer")
    return [f"{answer.agent}\n{answer.text}" for answer in said if answer.text != "....."]


def until_over(api: StandIn, path: Path) -> None:
    """Wait until all has been heard, nobody has the turn, and all has been sent."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.1)
        if api.unconfirmed():
            continue
        with stenolog.open(path) as log:
            floor = log["telegram-1"].state().turn_state
        if not floor.holders and floor.end_reason and delivered(path)[-1:] == api.texts()[-1:]:
            return
    raise AssertionError(f"it goes on and on: {api.texts()}")


@pytest.mark.slow
def test_killed_on_telegram_each_piece_arrives_at_least_once_and_one_is_repeated_at_most(
    tmp_path: Path,
) -> None:
    chance, kills, path = Random(1), 5, tmp_path / "neurocrew.db"
    with StandIn() as api:
        for kill in range(kills):
            api.say(SAID[kill % len(SAID)])
            with serving(api, path) as process:
                sent = len(api.sent)
                with api.changed:
                    api.changed.wait_for(lambda: len(api.sent) > sent, 5)  # noqa: B023 - it is waited for here
                time.sleep(chance.uniform(0, 0.4))
                assert process.poll() is None
        with serving(api, path):
            until_over(api, path)
        read = api.texts()

    expected = delivered(path)
    assert [text for text, _ in groupby(read)] == [text for text, _ in groupby(expected)]
    assert expected
    assert len(read) - len(expected) <= kills
    harness.clean(path)


def test_on_telegram_a_stranger_gets_no_answer_and_commands_work(tmp_path: Path) -> None:
    path = tmp_path / "neurocrew.db"
    with StandIn() as api, serving(api, path) as process:
        api.say("Build a login for the bakery.", chat=3)
        api.say("/intent Build a login for the bakery.")
        api.wait(4)
        until_over(api, path)
        api.say("/kill Product Owner")
        api.wait(6)
        api.say("/reset")
        read = api.wait(7)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=20)

    with stenolog.open(path) as log:
        assert [name for name in log if not name.startswith("scribe~")] == ["telegram-1"]
        entries = [*log["telegram-1"].entries()]
        assert entries[-1].event == ModeSwitch(context_from=entries[-1].position)
    assert (process.returncode, errors, TOKEN in out) == (0, "", False)
    assert "(pinned: intent)" in read
    assert read[-2] == "(killed the process of Product Owner)"
    assert f"A copy stands in neurocrew-{len(entries) - 1}.db." in read[-1]
    assert harness.asked("check", "log", "--db", str(tmp_path / f"neurocrew-{len(entries) - 1}.db")) == ""
