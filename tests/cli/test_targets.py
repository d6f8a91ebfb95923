"""The database and the conversation where none is named, times, and what a slip is answered."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import ModeSwitch, UserMessage
from stenolog.adapters.store.contract.address import default_database, home_database
from stenolog.apps.cli.arguments import time as time_argument
from stenolog.apps.cli.arguments.time import moment
from stenolog.apps.cli.suggest import closest, did_you_mean
from stenolog.domain.errors import InvalidEventError

Cli = Callable[..., Any]
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the database of a user is, who has none yet and names none."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("STENOLOG_DB", raising=False)
    return tmp_path / "data" / "stenolog" / "talks.db"


class TestTheHomeDatabase:
    """Without `--db` and STENOLOG_DB it is the user's own database, wherever the command is run."""

    def test_it_lies_in_the_data_folder_of_the_user(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert home_database() == home
        monkeypatch.delenv("XDG_DATA_HOME")
        assert home_database() == Path.home() / ".local" / "share" / "stenolog" / "talks.db"
        monkeypatch.setenv("XDG_DATA_HOME", "relative")
        assert home_database() == Path.home() / ".local" / "share" / "stenolog" / "talks.db"

    def test_a_database_that_the_environment_names_goes_before_it(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STENOLOG_DB", "other.db")

        assert default_database() == Path("other.db")
        monkeypatch.setenv("STENOLOG_DB", "")
        assert default_database() == home

    def test_the_command_line_and_open_use_the_same_one(self, cli: Cli, home: Path, monkeypatch: Any) -> None:
        monkeypatch.delenv("STENOLOG_DB", raising=False)  # the fixture `cli` names one
        with stenolog.open() as log:
            log["talk"].append(UserMessage(text="hello"))

        assert home.exists()
        assert cli("show", "talk", "2", "--raw").out == "hello\n"
        monkeypatch.chdir("/")
        assert cli("show", "talk", "2", "--raw").out == "hello\n"

    def test_open_async_uses_it_too(self, home: Path) -> None:
        async def opened() -> None:
            async with stenolog.open_async():
                assert home.exists()

        asyncio.run(opened())

    def test_its_folder_is_its_owners_alone(self, home: Path) -> None:
        stenolog.open().close()

        assert stat.S_IMODE(os.stat(home.parent).st_mode) == 0o700

    def test_reading_one_that_is_not_there_says_what_to_do_and_makes_nothing(
        self, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("STENOLOG_DB", raising=False)  # the fixture `cli` names one
        ran = cli("ls")

        assert ran.status == 3
        assert ran.err.startswith(
            f"✗ {home}: no database here; begin with `stenolog demo` or `stenolog import"
        )
        assert not home.parent.exists()

    def test_a_backup_is_restored_into_it_where_there_is_none(
        self, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli("demo", "--db", "old.db")
        monkeypatch.delenv("STENOLOG_DB", raising=False)

        assert cli("db", "restore", "old.db").status == 0
        assert cli("db", "path").out == f"{home}\n"
        assert cli("show", "demo", "2", "--raw").out == "Which test fails, and why?\n"

    def test_a_folder_that_is_missing_elsewhere_is_not_made(self, cli: Cli, tmp_path: Path) -> None:
        assert cli("demo", "--db", "nowhere/talks.db").status != 0
        assert not (tmp_path / "nowhere").exists()


class TestTheNewestConversation:
    """Where no conversation is named it is the one with the latest entry, and stderr tells which."""

    @pytest.fixture
    def two(self, cli: Cli) -> Cli:
        with stenolog.open("talks.db") as log:
            log["older"].append(UserMessage(text="first"), time=NOON)
            log["newer"].append(UserMessage(text="second"), time=NOON + timedelta(hours=1))
            log["older"].append(UserMessage(text="third"), time=NOON - timedelta(hours=1))
        return cli

    def test_it_is_told_on_stderr_and_not_on_stdout(self, two: Cli) -> None:
        ran = two("timeline")

        assert ran.err == "· the newest conversation: newer\n"
        assert ran.out == two("timeline", "newer").out

    def test_an_envelope_stays_one(self, two: Cli) -> None:
        assert two("state", "--json").data["conversation"] == "newer"

    def test_one_that_is_archived_comes_after_all_others(self, two: Cli) -> None:
        two("archive", "newer")

        assert "third" in two("timeline").out

    def test_without_any_conversation_it_says_how_to_get_one(self, cli: Cli) -> None:
        stenolog.open("talks.db").close()

        assert cli("log") == (3, "", "✗ no conversation yet: `stenolog import FILE` brings one in\n")


class TestTimes:
    """A time may be counted from now."""

    @pytest.fixture(autouse=True)
    def it_is_noon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time_argument, "now", lambda: NOON)

    @pytest.mark.parametrize(
        ("written", "first", "last"),
        [
            ("45m", "2026-11-20T11:15:00", "2026-11-20T11:15:00"),
            ("2h", "2026-11-20T10:00:00", "2026-11-20T10:00:00"),
            ("3d", "2026-11-17T12:00:00", "2026-11-17T12:00:00"),
            ("1w", "2026-11-13T12:00:00", "2026-11-13T12:00:00"),
            ("today", "2026-11-20T00:00:00", "2026-11-20T23:59:59.999999"),
            ("yesterday", "2026-11-19T00:00:00", "2026-11-19T23:59:59.999999"),
            ("2026-11-18", "2026-11-18T00:00:00", "2026-11-18T23:59:59.999999"),
            ("2026-11-18T09:30", "2026-11-18T09:30:00", "2026-11-18T09:30:00"),
            ("2026-11-18T09:30+01:00", "2026-11-18T08:30:00", "2026-11-18T08:30:00"),
        ],
    )
    def test_a_day_has_a_beginning_and_an_end_and_a_time_is_itself(
        self, written: str, first: str, last: str
    ) -> None:
        def utc(at: datetime) -> str:
            return at.astimezone(UTC).replace(tzinfo=None).isoformat()

        assert utc(moment(written, to_its_end=False)) == first
        assert utc(moment(written, to_its_end=True)) == last

    @pytest.mark.parametrize("written", ["", "h", "2 h", "-2h", "2y", "999999w", "tomorrow", "2026-13-01"])
    def test_what_is_no_time_is_refused_with_what_would_be(self, written: str) -> None:
        with pytest.raises(InvalidEventError, match="2h, 3d, yesterday, today"):
            moment(written, to_its_end=False)

    def test_they_choose_among_conversations_hits_and_positions(self, cli: Cli) -> None:
        with stenolog.open("talks.db") as log:
            log["old"].append(UserMessage(text="one word"), time=NOON - timedelta(days=9))
            log["new"].append(ModeSwitch(mode="chat"), time=NOON - timedelta(hours=4))
            log["new"].append(UserMessage(text="one word"), time=NOON - timedelta(hours=3))
            log["new"].append(UserMessage(text="another"), time=NOON - timedelta(hours=1))

        found = cli("search", "word", "--since", "yesterday", "--json").data["hits"]
        assert [hit["conversation"] for hit in found] == ["new"]
        assert [row["name"] for row in cli("ls", "--since", "2d", "--json").data] == ["new"]
        entries = cli("log", "new", "--since", "200m", "--until", "2h", "--json").data["entries"]
        assert [entry["position"] for entry in entries] == [2]
        assert cli("timeline", "new", "--at", "2h").out == cli("timeline", "new", "--at", "2").out


class TestTheZoneOfThisMachine:
    """With `--local` times are shown, and read, in the zone of the machine; JSON stays in UTC."""

    @pytest.fixture
    def far_east(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
        monkeypatch.setenv("TZ", "JST-9")
        time.tzset()
        with stenolog.open("talks.db") as log:
            log["talk"].append(ModeSwitch(mode="chat"), time=NOON)
            log["talk"].append(UserMessage("good night"), time=NOON + timedelta(hours=4))
        yield cli
        monkeypatch.undo()
        time.tzset()

    def test_an_entry_is_of_another_day_there(self, far_east: Cli) -> None:
        assert [line.split()[0] for line in far_east("log").out.splitlines()] == ["2026-11-20", "1", "2"]
        local = far_east("log", "--local").out.splitlines()
        assert [line.split()[0] for line in local] == ["2026-11-20", "1", "2026-11-21", "2"]
        assert "01:00:00" in local[-1]

    def test_a_list_and_hits_have_their_times_there(self, far_east: Cli) -> None:
        assert "2026-11-21 01:00" in far_east("ls", "--local").out
        assert "2026-11-21 01:00" in far_east("search", "night", "--local").out

    def test_a_time_without_a_zone_is_one_of_there(self, far_east: Cli) -> None:
        assert "good night" in far_east("search", "night", "--since", "2026-11-21", "--local").out
        assert "nothing found" in far_east("search", "night", "--since", "2026-11-21").err

    def test_json_stays_in_utc(self, far_east: Cli) -> None:
        assert far_east("log", "--local", "--json").out == far_east("log", "--json").out


class TestSlips:
    """A word that is not known is answered with the nearest that is."""

    @pytest.mark.parametrize(
        ("arguments", "meant"),
        [
            (("lgo",), "no command 'lgo'; did you mean 'log'?"),
            (("log", "--colour", "never"), "--color"),
            (("log", "--color", "nevr"), "found 'nevr'; did you mean 'never'?"),
            (("log", "--kind", "erorr"), "found 'erorr'; did you mean 'error'?"),
            (("export", "--as", "opnai"), "found 'opnai'; did you mean 'openai'?"),
            (("request", "--api", "antropic"), "found 'antropic'; did you mean 'anthropic'?"),
            (("request", "demo", "9"), "a position is given by --at 9 here"),
            (("show", "demo", "--at", "5"), "A position needs no option here: stenolog show [CONV"),
        ],
    )
    def test_of_commands_options_and_their_values(
        self, demo: Cli, arguments: tuple[str, ...], meant: str
    ) -> None:
        ran = demo(*arguments)

        assert ran.status == 2
        assert meant in ran.err

    def test_of_the_beginning_of_a_name(self) -> None:
        names = ["303ebbc4-1f2a-4b6e-9d7c-0a1b2c3d4e5f", "dfbb2a10-77aa-4c1e-8d11-93b1f0c2a7de"]

        assert closest("dfbc", names) == [names[1]]
        assert did_you_mean("zzzz", names) == ""

    def test_at_most_three_are_named_the_nearest_first(self) -> None:
        assert did_you_mean("talk 5", ["talk 4", "talk 5~1", "walk 5", "tal", "demo"]) == (
            "; did you mean 'talk 5~1', 'talk 4' or 'walk 5'?"
        )


def test_the_version_is_told_by_a_capital_v_too(cli: Cli) -> None:
    assert cli("-V").out == cli("--version").out == f"{stenolog.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("archive",),
        ("archive", "--undo"),
        ("rename",),
        ("rename", "other"),
        ("fork", "--after", "2"),
        ("delete", "--yes"),
        ("erase", "2", "--reason", "x"),
        ("claims", "--take"),
        ("append", "--user", "hi"),
        ("submit", "hi"),
    ],
)
def test_a_command_that_changes_something_names_its_conversation(demo: Cli, words: tuple[str, ...]) -> None:
    before = demo("ls", "--json").data

    assert demo(*words).status == 2
    assert demo("ls", "--json").data == before


@pytest.mark.parametrize("group", ["db", ""])
def test_a_group_without_a_command_shows_its_help_which_is_no_error_message(demo: Cli, group: str) -> None:
    ran = demo(*filter(None, [group]))

    assert ran.err.startswith("Usage: stenolog")
    assert "--help\n" not in ran.err.splitlines()[-1]
    assert ran.status == 2


def test_a_missing_choice_is_told_on_one_line(cli: Cli) -> None:
    assert cli("completion").err.splitlines()[0] == "✗ Missing argument '{bash|zsh|fish}'."


@pytest.mark.parametrize(
    "asked",
    [
        "show demo {}",
        "show demo @~{}",
        "erase demo {} --yes",
        "erase demo 3-{} --yes",
        "erase demo 4-3 --yes",
        "request demo --agent coder --without {}",
        "request demo --agent coder --edit {}:x",
        "request demo --agent coder --budget {}",
        "request demo --agent coder --policy last:{}k",
        "explain demo 3/{}",
        "log demo --since {}h",
    ],
)
def test_a_number_that_no_position_can_be_is_refused_in_one_line(demo: Cli, asked: str) -> None:
    told = demo(*asked.format("9" * 5_000).split())
    assert told.status == 2, told
    assert "expected" in told.err
    assert "Traceback" not in told.err
    assert len(told.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["./nowhere"], 3, "./nowhere: no such file or folder"),
        (["*.nothing"], 3, "*.nothing: no such file or folder"),
        (["nowhere"], 3, "; nor is it a file or folder"),
        (["talks.db"], 2, "talks.db is a stenolog database: stenolog inspect --db talks.db"),
        (["demo", "."], 2, "expected one conversation, or files and folders; 'demo' is a conversation"),
        ([".", "--db", ":memory:"], 2, "expected a database in a file or on a server"),
        ([".", "nowhere"], 2, "expected one conversation, or files and folders; 'nowhere' is no file or fo"),
    ],
)
def test_inspect_takes_one_conversation_or_paths_and_names_the_word_that_is_neither(
    demo: Cli, words: list[str], status: int, told: str
) -> None:
    ran = demo("inspect", *words)

    assert (ran.status, ran.out) == (status, "")
    assert told in ran.err


def test_inspect_of_a_path_that_is_not_there_makes_no_database(cli: Cli) -> None:
    assert cli("inspect", "./nowhere").status == 3
    assert not Path("talks.db").exists()
