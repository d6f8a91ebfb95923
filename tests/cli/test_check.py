"""`check`: one line at the end says how much was checked and what failed, as the exit code does."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import stenolog
from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.requests import FORMATS
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]


def last(ran: Ran) -> str:
    return ran.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (("check",), f"2 conversations, 13 entries, {4 * len(FORMATS)} rebuilt requests"),
        (("check", "demo"), f"1 conversation, 12 entries, {2 * len(FORMATS)} rebuilt requests"),
        (("check", "log"), "2 conversations, 13 entries"),
        (("check", "requests"), f"2 conversations, {4 * len(FORMATS)} rebuilt requests"),
    ],
)
def test_a_check_ends_with_how_much_was_checked_and_that_nothing_failed(
    demo: Cli, command: tuple[str, ...], counts: str
) -> None:
    assert demo("fork", "demo", "--after", "2", "--name", "again").status == 0
    told = demo(*command)

    assert last(told).startswith(f"✓ checked {counts}: nothing failed")
    assert told.status == 0


def test_a_check_that_failed_ends_with_what_failed_and_with_1(demo: Cli, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "talks.db")) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 4")
        connection.commit()
    told = demo("check")

    words = " ".join(told.out[told.out.rindex("✗ ") :].split())
    assert words.startswith("✗ checked 1 conversation, 12 entries, 0 rebuilt requests: 2 differences, ")
    assert words.endswith("1 conversation whose requests cannot be built, 1 warning")
    assert told.status == 1


IMPATIENT = """
import sys
from stenolog.apps.cli import terminal
from tests.command_line import run
terminal.PATIENCE_S = 0
raise SystemExit(run(sys.argv[1:]))
"""


def test_in_a_pipe_no_progress_is_shown(demo: Cli, tmp_path: Path) -> None:
    assert demo("retry", "demo", "-o", "old.jsonl").status == 0
    for more in (["--against", "old.jsonl"], ["-o", "new.jsonl"]):
        command = [sys.executable, "-c", IMPATIENT, "retry", "demo", *more]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

        assert ran.stderr == ""
        assert ran.stdout.count("\n") == 1
        assert ran.stdout.startswith("✓ ")


# A check of many conversations, or of a damaged file, says what failed, and no line for each.


CLI = Callable[..., Ran]
MANY = 8
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talks.db"
    noise = Random(1)  # so long that the database has many pages
    with stenolog.open(path) as log:
        for number in range(MANY):
            log[f"talk {number}"].append(
                UserMessage(text=f"Tell me. {number} {noise.randbytes(4_000).hex()}")
            )
            log[f"talk {number}"].append(ToolResult(call_id="nobody's", text="ok"))
    return path


@pytest.mark.parametrize("command", [("check", "log"), ("check", "requests"), ("check",)])
def test_of_many_conversations_only_those_that_failed_have_a_line_and_notes_of_a_kind_are_counted(
    cli: CLI, path: Path, command: tuple[str, ...]
) -> None:
    short, whole = cli(*command), cli(*command, "-v")
    assert "talk 0" not in short.out
    assert short.out.splitlines()[-1] == whole.out.splitlines()[-1]
    assert all(f"talk {number}" in whole.out for number in range(MANY))
    if command != ("check", "requests"):
        assert short.err.count("which is no open call") == 1
        assert "7 more of this kind: -v shows each" in short.err
        assert whole.err.count("which is no open call") == MANY
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE rowid = 2")
    failed = cli("check", "log")
    assert failed.status == 1
    assert "✗ talk 0" in failed.out
    assert "talk 1" not in failed.out


@pytest.fixture
def damaged(path: Path) -> Path:
    """Overwrite the pages of the database behind the first ones."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for page in range(size // PAGE // 2, size // PAGE):
            file.seek(page * PAGE)
            file.write(b"\xff" * PAGE)
    return path


def test_the_damage_of_a_file_is_told_once_with_what_helps(cli: CLI, damaged: Path) -> None:
    told = cli("check", "log")
    assert told.status == 1
    assert told.err.count("the database: ") == 1
    assert "more lines of this: -v shows them" in told.err
    assert told.err.count("`stenolog db restore BACKUP`") == 1
    assert cli("check", "log", "-v").err.count("btreeInitPage") > 1


def test_a_command_that_meets_a_damaged_file_names_restore_and_salvage(cli: CLI, damaged: Path) -> None:
    told = cli("search", "tell")
    assert told.status == 4
    assert "`stenolog db restore BACKUP`" in told.err
    assert "`stenolog db salvage FILE NEW`" in told.err


def test_salvage_takes_the_new_file_as_backup_does(cli: CLI, path: Path) -> None:
    assert cli("db", "salvage", "talks.db", "new.db").status == 0
    assert cli("db", "salvage", "talks.db", "-o", "newer.db").status == 0
    for wrong in ((), ("a.db", "-o", "b.db")):
        told = cli("db", "salvage", "talks.db", *wrong)
        assert told.status == 2
        assert "say once where the new database goes: stenolog db salvage talks.db NEW" in told.err


def test_a_restore_says_which_files_may_still_hold_erased_words_and_how_long_they_are(
    cli: CLI, path: Path
) -> None:
    assert cli("db", "backup", "copy.db").status == 0
    size = path.stat().st_size
    told = cli("db", "restore", "copy.db").out
    assert f".before-20{told.split('.before-20')[1].splitlines()[0]}" in told
    assert f", {size:,} bytes" in told
    assert "and copy.db may still hold erased words" in told.replace("\n", " ")


# The commands for a damaged log, and for words that must go.


@pytest.fixture
def damaged_file(tmp_path: Path) -> Path:
    damaged_file = tmp_path / "talks.db"
    with stenolog.open(damaged_file) as log:
        log["demo"].append(UserMessage(text="Tell me.", author="boss", to=["a"]))
        log["demo"].append(AssistantMessage(agent="a", text="The zebra flies."))
        log["demo"].append(UserMessage(text="Thanks."))
    return damaged_file


def damage(damaged_file: Path, position: int) -> None:
    with closing(sqlite3.connect(damaged_file)) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = ?", (position,))
        connection.commit()


def test_salvage_tells_what_is_lost(cli: CLI, damaged_file: Path) -> None:
    damage(damaged_file, 3)
    told = cli("db", "salvage", "talks.db", "-o", "new.db")
    assert told.status == 1
    assert "demo: 3 entries kept, 1 lost; digests are the same up to 2, and new behind it" in told.out
    assert "'demo' at 3: lost: its row is damaged" in told.err
    told = cli("db", "salvage", "talks.db", "-o", "newer.db", "--json")
    assert told.data["conversations"][0]["lost"][0]["position"] == 3
    assert [note["code"] for note in told.envelope["diagnostics"]] == ["lost"]
    assert cli("check", "log", "--db", "new.db").status == 0
    assert "lost before a salvage: its row is damaged" in cli("log", "--db", "new.db").out


def test_every_view_shows_a_damaged_entry_and_what_stands_around_it(cli: CLI, damaged_file: Path) -> None:
    damage(damaged_file, 3)
    for command in ("log", "timeline"):
        told = cli(command)
        assert told.status == 0, told.err
        assert "Tell me." in told.out
        assert "Thanks." in told.out
        assert "its digest is not that of its bytes" in told.out
    assert cli("log", "--json").data
    for command in ("log", "requests"):
        told = cli("check", command)
        assert told.status == 1
        assert "3" in told.err
    told = cli("request", "demo")
    assert told.status == 4
    assert "position 3 is damaged" in told.err


def test_erase_says_who_and_why_and_trace_value_where_the_words_are(cli: CLI, damaged_file: Path) -> None:
    told = cli("explain", "text", "zebra")
    assert told.status == 0
    assert "3  entry" in told.out
    told = cli("erase", "demo", "3", "4", "--yes", "--reason", "on request", "--by", "boss")
    assert told.out.startswith(
        "✓ demo: erased: entries 3, 4\n· recorded: demo at 6\n· not reached: imported files"
    )
    told = cli("check", "log")
    assert told.status == 0
    assert "'demo' at position 6: boss erased 3, 4: on request" in told.err
    assert "nowhere" in cli("explain", "text", "zebra").out
    assert "Entries 3, 4 erased: on request" in cli("timeline").out


def test_erase_takes_ranges_and_names_the_entries_that_still_quote_the_words(
    cli: CLI, damaged_file: Path
) -> None:
    with stenolog.open(damaged_file) as log:
        log["demo"].append(AssistantMessage(agent="a", text="So far: The zebra flies. Thanks was said."))
    told = cli("erase", "demo", "2-3,4", "--yes", "--json").envelope
    assert (told["data"]["positions"], told["data"]["quoted_at"]) == ([2, 3, 4], [5])
    with stenolog.open(damaged_file) as log:
        log["demo"].append(UserMessage(text="Once more: So far: The zebra flies. Thanks was said."))
    told = cli("erase", "demo", "5", "--yes").err
    assert told == "! the same words still stand in 1 other entry: 7\n"
    assert cli("erase", "demo", "7", "--yes").err == ""


def test_a_wrong_position_to_erase_is_told_before_the_question(cli: CLI, damaged_file: Path) -> None:
    assert "found '2to3'" in cli("erase", "demo", "2to3").err
    assert "add --yes" in cli("erase", "demo", "2-3").err


# `--format`: findings as CI reads them, of transcripts and of a log.


CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LEFT = [
    {"role": "user", "content": "Look"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "user", "content": "And?"},
]
ODD = "a,b: c%0A <x> ]]> [y](z) {0}"


def lines(*records: object) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture
def transcripts(cli: Cli, tmp_path: Path) -> Cli:
    """Make three transcripts: one is sound, one has a broken line, one a call without a result."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "sound.jsonl").write_text(lines(LEFT[0]))
    (tmp_path / "logs" / f"{ODD}.jsonl").write_text(f'{lines(LEFT[0])}{{"role": "us\n{lines(LEFT[0])}')
    (tmp_path / "logs" / "x\n::error::y.jsonl").write_text(lines(*LEFT))
    return cli


def commands(out: str) -> list[tuple[str, dict[str, str], str]]:
    """Return the commands in some output and the other lines, as GitHub's runner reads them."""
    found = []
    for row in out.splitlines():
        kind, _, rest = row.removeprefix("::").partition(" ")
        given, _, message = rest.partition("::")
        pairs = (pair.partition("=")[::2] for pair in given.split(","))
        if row.startswith("::"):
            found.append((kind, {name: unquote(value) for name, value in pairs}, unquote(message)))
    return found


def test_a_finding_is_an_annotation_at_its_file_and_line_whatever_is_in_its_name(transcripts: Cli) -> None:
    told = transcripts("check", "logs", "--format", "github")

    broken, left = commands(told.out)
    assert (told.status, told.err) == (1, "")
    assert broken[:2] == ("error", {"file": f"logs/{ODD}.jsonl", "line": "2", "title": "skipped"})
    assert "line 2: not JSON at column 10" in broken[2]
    assert left[1] == {"file": "logs/x\n::error::y.jsonl", "line": "2", "title": "call-without-result"}
    assert told.out.splitlines()[2:] == ["3 checked: 1 error, 1 warning, 1 note"]
    assert transcripts("check", "logs/sound.jsonl", "--format", "github").out == "1 checked: nothing found\n"


def test_sarif_has_a_rule_and_a_place_for_each_finding_and_no_text_is_a_link(transcripts: Cli) -> None:
    told = transcripts("check", "file", "logs", "--format", "sarif")
    (run,) = (log := json.loads(told.out))["runs"]
    driver, results = run["tool"]["driver"], run["results"]

    assert (told.status, log["version"], driver["name"], len(results)) == (1, "2.1.0", "stenolog", 3)
    for result in results:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place.get("region", {"startLine": 2}) == {"startLine": 2}
        assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    assert [unquote(uri) for uri in uris[:2]] == [f"logs/{ODD}.jsonl", "logs/x\n::error::y.jsonl"]
    assert not any(set(uri) & set(" <>{}[]:\n") for uri in uris)
    assert r"\[y](z) {{0}}" in results[0]["message"]["text"]


def test_junit_has_a_test_for_each_file_and_only_what_fails_the_check_fails_it(transcripts: Cli) -> None:
    told = transcripts("check", "logs", "--format", "junit")
    (suite,) = ElementTree.fromstring(told.out)
    cases = {case.get("name"): [part.tag for part in case] for case in suite}

    assert suite.attrib == {"name": "stenolog", "tests": "3", "failures": "1", "errors": "0"}
    assert cases == {
        f"logs/{ODD}.jsonl": ["failure"],
        "logs/sound.jsonl": [],
        "logs/x\n::error::y.jsonl": ["system-out"],
    }


def test_a_log_has_a_test_for_each_conversation_and_a_warning_fails_none(cli: Cli, path: Path) -> None:
    (suite,) = ElementTree.fromstring(cli("check", "--format", "junit").out)

    assert (len(suite), suite.get("failures")) == (MANY, "0")
    assert {part.tag for case in suite for part in case} == {"system-out"}
    found = commands(cli("check", "log", "--format", "github").out)
    assert len(found) == MANY
    assert {(kind, given["file"]) for kind, given, _ in found} == {("warning", "talks.db")}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE rowid = 2")
    told = cli("check", "--format", "junit")
    (suite,) = ElementTree.fromstring(told.out)
    assert (told.status, suite.get("failures")) == (1, "1")


def test_a_word_is_a_conversation_before_it_is_a_path_and_a_database_is_no_transcript(
    transcripts: Cli, tmp_path: Path
) -> None:
    assert "nothing is wrong" in transcripts("check", "logs/*ound.jsonl").out
    with stenolog.open(tmp_path / "talks.db") as log:
        log["logs"].append(UserMessage("Bake."))

    assert last(transcripts("check", "logs")).startswith("✓ checked 1 conversation")
    assert transcripts("check", "./logs").status == 1
    told = transcripts("check", "talks.db")
    assert (told.status, "stenolog check --db talks.db" in told.err) == (2, True)


def test_what_cannot_be_checked_is_a_finding_too_and_exits_as_it_does_for_a_person(cli: Cli) -> None:
    for words in (("nowhere",), ("logs/nowhere.jsonl", "x.jsonl")):
        (found,) = commands((told := cli("check", *words, "--format", "github")).out)
        assert found[0] == "error"
        assert (told.status, told.err) == (cli("check", *words).status, "")
    assert cli("check", "--format", "json").out == cli("check", "--json").out
    assert cli("check", "--format", "sarif", "--json").status == 2


def test_a_refused_file_is_one_finding_at_it_whether_it_is_alone_or_not(cli: Cli, tmp_path: Path) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        (tmp_path / name).touch()
    alone, both = (
        cli("check", "file", *names, "--format", "github")
        for names in (["one.jsonl"], ["one.jsonl", "two.jsonl"])
    )

    assert commands(alone.out) == commands(both.out)[:1]
    assert commands(alone.out)[0][1:] == (
        {"file": "one.jsonl", "title": "UnknownFormatError"},
        "one.jsonl: found an empty file",
    )
    assert (alone.status, alone.out.splitlines()[1]) == (both.status, "1 checked: 1 error")
    assert "one.jsonl: found an empty file" in cli("check", "file", "one.jsonl").err


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="a file's name is UTF-8 there")
@pytest.mark.parametrize("form", ["github", "sarif", "junit"])
def test_a_name_that_is_not_utf_8_is_in_every_report(cli: Cli, tmp_path: Path, form: str) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.jsonl")).write_text("{")
    told = cli("check", "file", ".", "--format", form)

    assert told.status == 1
    assert "UnknownFormatError" in told.out
    assert form != "sarif" or "bad%FF.jsonl" in told.out
