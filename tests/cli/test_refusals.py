"""What one conversation, one file or one stream refuses, and what the others do about it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from stenolog import AgentCard, ModeSwitch, UserMessage
from stenolog import open as open_log
from stenolog.context import Budget
from stenolog.requests import FORMATS
from tests.forked import python

Cli = Callable[..., Any]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "STENOLOG_DB": "talks.db"}
FULL = Path("/dev/full")


@pytest.fixture
def with_a_bad_one(demo: Cli) -> Cli:
    """Return the demo, and before it a conversation whose policy names a counter that nobody knows."""
    with open_log("talks.db") as log:
        card = AgentCard(policy=Budget(tokens=16_000, counter="abacus"))
        log["bad"].append(ModeSwitch(cards={"coder": card}))
        log["bad"].append(UserMessage(text="hi", to=("coder",)), expected=1)
    return demo


def test_check_requests_names_a_conversation_that_cannot_be_built_and_checks_the_others(
    with_a_bad_one: Cli,
) -> None:
    ran = with_a_bad_one("check", "requests", "--all-prefixes")

    assert ran.status == 1
    assert sorted(ran.out.splitlines()) == [
        f"✓ demo: {24 * len(FORMATS)} requests, 0 invalid",
        "✗ bad: 0 requests, 0 invalid, the rest cannot be built",
        f"✗ checked 2 conversations, {24 * len(FORMATS)} rebuilt requests: "
        "1 conversation whose requests cannot be built",
    ]
    assert ran.err.startswith("✗ 'bad': its requests cannot be built: counter 'abacus': expected one of")
    assert len(ran.err.splitlines()) == 1


def test_check_requests_knows_every_counter(demo: Cli) -> None:
    with open_log("talks.db") as log:
        card = AgentCard(policy=Budget(tokens=16_000, counter="tiktoken:no-such-encoding"))
        log["exact"].append(ModeSwitch(cards={"coder": card}))

    assert "expected one of bytes4, learned, tiktoken:" in demo("check", "requests", "exact").err


def test_retry_goes_on_after_a_damaged_conversation_and_fails(demo: Cli) -> None:
    with open_log("talks.db") as log:
        log["bad"].append(UserMessage(text="hi", to=("coder",)))
        with log.datastore.writing() as connection:
            rows = connection.execute("SELECT DISTINCT originator_id FROM stored_events").fetchall()
            assert len(rows) == 2
            connection.execute(
                "UPDATE stored_events SET state = x'00' "
                "WHERE rowid = (SELECT max(rowid) FROM stored_events WHERE topic LIKE 'user_message%')"
            )

    ran = demo("retry", "--all", "-o", "then.jsonl")

    assert ran.status == 1
    assert ran.err.startswith("✗ 'bad': its requests cannot be built")
    assert Path("then.jsonl").read_text().count('"demo"') == 5


def test_a_head_is_published_as_one_line_unless_something_failed(demo: Cli) -> None:
    printed = demo("check", "log", "--publish").out
    head = json.loads(printed)["head"]
    Path("heads.jsonl").write_text(f"{{}}\n{printed}\n")

    assert len(printed.splitlines()) == 1
    assert head == demo("check", "log", "--json").data["head"]
    assert "the head of the log" in demo("check", "log").out
    for each in (head, printed, "heads.jsonl"):
        assert demo("check", "log", "--consistent-with", each).status == 0
    for wrong in ("0" * 64, printed.replace(head[-4:], "0000"), "{}", "{", "[]"):
        ran = demo("check", "log", "--consistent-with", wrong, "--publish")
        assert (ran.status in (1, 2), ran.out[:1] == "{") == (True, False)
    Path("empty.jsonl").write_text("\n")
    for wrong, status in (("", 2), ("1-5-ab", 2), ("empty.jsonl", 2), ("none.jsonl", 3)):
        for target in ((), ("demo",)):
            assert demo("check", "log", *target, "--consistent-with", wrong).status == status
    assert demo("check", "log", "--consistent-with", head.upper()).status == 0
    of_one = json.loads(demo("check", "log", "demo", "--publish").out)
    assert of_one.keys() == {"head", "time", "conversation", "position"}
    assert demo("check", "log", "demo", "--consistent-with", json.dumps(of_one)).status == 0


@pytest.mark.parametrize(
    "command",
    [("retry", "demo", "-o"), ("export", "demo", "-o")],
    ids=("retry", "export"),
)
class TestWhatIsWritten:
    """`retry -o` and `export -o` write a file whole or not at all, and a device as it stands."""

    def test_a_pipe_is_written_into_and_stays_one(self, demo: Cli, command: tuple[str, ...]) -> None:
        pipe, read = Path("pipe"), list[str]()
        os.mkfifo(pipe)
        reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
        reader.start()
        ran = demo(*command, "pipe")
        reader.join(10)

        assert ran.status == 0
        assert pipe.is_fifo()
        assert len(read[0].splitlines()) > 5

    def test_a_link_stays_and_what_it_leads_to_is_written(self, demo: Cli, command: tuple[str, ...]) -> None:
        Path("there").mkdir()
        Path("there/real").write_text("old")
        Path("link").symlink_to("there/real")

        assert demo(*command, "link").status == 0
        assert Path("link").is_symlink()
        assert len(Path("there/real").read_text().splitlines()) > 5
        assert sorted(path.name for path in Path("there").iterdir()) == ["real"]

    def test_a_dash_is_stdout(self, demo: Cli, command: tuple[str, ...]) -> None:
        demo(*command, "file")

        assert demo(*command, "-").out == Path("file").read_text()
        assert not Path("-").exists()

    def test_an_error_names_the_path_that_was_given(self, demo: Cli, command: tuple[str, ...]) -> None:
        ran = demo(*command, "nowhere/file")

        assert (ran.status, ran.err) == (3, "✗ nowhere/file: no such file or directory\n")


@pytest.mark.skipif(not FULL.exists(), reason="no device here that is always full")
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("log", "demo"), 6),
        (("request", "demo", "--agent", "coder", "--json"), 6),
        (("request", "demo", "--agent", "coder", "--raw"), 6),
        (("log", "nobody", "--json"), 3),
        (("--help",), 6),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_full_stdout_is_an_error_in_a_line_and_no_traceback(
    demo: Cli, command: tuple[str, ...], status: int
) -> None:
    with FULL.open("w") as full:
        ran = subprocess.run(
            python("-m", "stenolog", *command),
            env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert (ran.returncode, len(ran.stderr.splitlines())) == (status, 1)
    assert ran.stderr.startswith("✗ no conversation" if status == 3 else "✗ stdout: no space left on device")


def test_a_file_without_digests_is_named(demo: Cli) -> None:
    Path("notes.txt").write_text("hello\n")
    Path("head.jsonl").write_text('{"form":"stenolog-retry@1"}\n')

    assert demo("retry", "demo", "--against", "notes.txt").err.startswith(
        "✗ notes.txt: line 1: expected JSON"
    )
    assert demo("retry", "demo", "--against", "head.jsonl").err == (
        "✗ head.jsonl: line 1: expected a header with pipeline, apis, change, found form\n"
    )


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("request", "demo", "--agent", "coder", "--at", "0"), "expected an entry from 1 to 12, found 0"),
        (("explain", "demo", "0"), "expected an entry from 1 to 12, found 0"),
        (("show", "demo", "99"), "expected an entry from 1 to 12, found 99"),
        (
            ("request", "--why", "demo", "--agent", "coder", "--at", "-1"),
            "expected an entry from 1 to 12, found -1",
        ),
        (("explain", "demo", "-12"), "expected an entry from 1 on, found -12"),
        (("hold", "demo", "2", "--reason", "x"), "a hold is of a conversation"),
        (("hold", "--release", "7"), "expected the number of a hold in force (none), found 7"),
        (("request", "demo", "--as", "curl"), "stenolog export [CONVERSATION] --as curl"),
        (
            ("request", "demo", "--diff", "0", "--at", "3", "--agent", "coder"),
            "expected an entry from 1 to 12, found 0",
        ),
        (("request", "demo", "--agent", "coder", "--without", "1"), "it is a mode switch"),
        (("request", "demo", "--agent", "coder", "--dropped", "--message", "2"), "choose one"),
        (("request", "demo", "--agent", ""), "found an empty name"),
        (("explain", "agent", "demo", "coder", "--minus", ""), "found an empty name"),
        (
            ("cost", "--plan", "demo", "--agent", "coder", "--budget", ""),
            "--budget: expected a whole number from 1",
        ),
        (
            ("cost", "--plan", "demo", "--agent", "coder", "--budget", "0"),
            "--budget: expected a whole number from 1",
        ),
        (
            ("request", "demo", "--agent", "coder", "--budget", "x"),
            "--budget: expected a whole number from 1",
        ),
        (("request", "demo", "--agent", "coder", "--policy", "last:0"), "--policy: last: expected"),
        (("request", "demo", "--raw", "--dropped"), "--why, --dropped, --diff and --raw are different views"),
        (("request", "demo", "--why", "--without", "3"), "are shown beside the real request"),
        (("cost", "demo", "--budget", "8k"), "--budget: only with --plan"),
        (("state", "demo", "--agent", "coder"), "--agent goes with --steps"),
        (("outputs", "demo", "--length", "3"), "name its alias"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_refused_with_what_was_expected(
    demo: Cli, command: tuple[str, ...], complaint: str
) -> None:
    ran = demo(*command)

    assert (ran.status in (2, 3), ran.out) == (True, "")
    assert complaint in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ("request", "talk"),
        ("request", "--why", "talk"),
        ("request", "talk", "--diff", "2", "--at", "3"),
        ("cost", "--plan", "talk"),
        ("request", "talk", "--policy", "last:5"),
        ("explain", "text", "talk", "hi"),
        ("state", "--steps", "talk"),
    ],
    ids=" ".join,
)
def test_a_task_is_named_behind_its_agent(cli: Cli, command: tuple[str, ...]) -> None:
    with open_log("talks.db", entropy=bytes) as log:
        log["talk"].append(UserMessage(text="hi", to=("coder/one", "coder/two", "other")))
        log["talk"].append(UserMessage(text="hi again", to=("coder/two",)))

    one, two = cli(*command, "--agent", "coder/one"), cli(*command, "--agent", "coder/two")

    assert (one.status, one.err, two.status, two.err) == (0, "", 0, "")
    assert one != two


def test_a_persons_own_words_are_said_to_be_that(demo: Cli) -> None:
    assert "\nentry 2 is the beginning: a person said it.\n" in demo("explain", "demo", "2").out


def test_check_file_says_that_nobody_would_send_a_request(cli: Cli) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
    Path("talk.json").write_text(json.dumps(said))

    closing = cli("check", "file", "talk.json").out.splitlines()
    preview = "nothing to send: nothing to answer: the agent has already answered"

    assert closing[-1] == "✓ nothing is wrong"
    assert closing[1].startswith(f"· {preview}")
    assert "TOKENS" in cli("check", "file", "-v", "talk.json").out
    assert cli("check", "file", "talk.json", "--raw").err.startswith(f"· {preview}")
