"""Texts that name a log: what opens one in PostgreSQL, and what messages show of an address."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

import stenolog
from stenolog.adapters.conversation.log import open_existing
from stenolog.adapters.conversation.verifying.parallel import run_in_processes
from stenolog.adapters.engine.model_calls.dispatch import rebuilt
from stenolog.adapters.store.contract import address
from stenolog.adapters.store.contract.address import (
    hide_passwords,
    is_address,
    is_postgres,
    split,
    without_password,
)
from stenolog.adapters.store.contract.appends import Sources
from stenolog.adapters.store.postgres.connection.address import parse
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.apps.inspect.pages.proof import checked_anew
from stenolog.errors import InvalidEventError, MissingExtraError
from stenolog.events import UserMessage

ROOM = "stenolog.adapters.store.postgres"
APPLICATION = f"{ROOM}.application"
SECRET = "hunter2"
ADDRESS = f"postgresql://me:{SECRET}@db.example/talks"
WITH_A_PASSWORD = {
    ADDRESS: "postgresql://me@db.example/talks",
    f"postgres://me:{SECRET}@db.example/talks": "postgres://me@db.example/talks",
    f"POSTGRESQL://me:{SECRET}@db.example/talks": "postgresql://me@db.example/talks",
    f"postgresql://:{SECRET}@db.example/talks": "postgresql://…@db.example/talks",
    f"postgresql://me:{SECRET}@a:5432,b:5433/talks?schema=acme": "postgresql://me@a:5432,b:5433/talks?schema=acme",
    f"postgresql://me:{SECRET}@[::1]:5432/talks": "postgresql://me@[::1]:5432/talks",
    f"postgresql://me:{SECRET}@%2Fvar%2Frun/talks": "postgresql://me@%2Fvar%2Frun/talks",
    f"postgresql://me@db.example/talks?password={SECRET}": "postgresql://me@db.example/talks",
    f"postgresql:///talks?host=/run&password={SECRET}&schema=acme": "postgresql:///talks?host=/run&schema=acme",
    f"postgresql://me:a@b/{SECRET}@db.example/talks": "postgresql://me@db.example/talks",
    f"postgresql://me:a#{SECRET} c@db.example/talks": "postgresql://me@db.example/talks",
    f"postgresql://me:a\n{SECRET}@db.example/talks": "postgresql://me@db.example/talks",
    f"postgresql://me:a?{SECRET}@db.example/talks": "postgresql://…",
    f"postgresql://me@db.example/talks?password=a@{SECRET}": "postgresql://…",
    f"postgresql://me:{SECRET}/talks": "postgresql://…",
    f"postgresql://me@db.example:{SECRET}/talks": "postgresql://…",
    f"postgresql://me:{SECRET}": "postgresql://…",
    f"postgresql://{SECRET}:a?schema={SECRET}!": "postgresql://…",
    f"postgresql:/me:{SECRET}@db.example/talks": "postgresql://me@db.example/talks",
    f"postgres:me:{SECRET}@db.example": "postgres://me@db.example",
    f"mysql://me:{SECRET}@db.example/talks": "mysql://me@db.example/talks",
}
ON_A_LINE = [text for text in WITH_A_PASSWORD if re.fullmatch(r"(?i)postgres\w*:/.*", text)]


@pytest.mark.parametrize(("address", "name"), WITH_A_PASSWORD.items())
def test_an_address_is_shown_without_its_password(address: str, name: str) -> None:
    assert without_password(address) == name
    assert without_password(name) == name


@pytest.mark.parametrize(
    "address", [text for text in WITH_A_PASSWORD if re.match(r"(?i)postgres\w*:/.*\Z", text)]
)
@pytest.mark.parametrize("message", ["no command '{}'; see --help", "{}: not found", "found {}, twice"])
def test_a_message_that_quotes_an_address_is_freed_of_its_password(address: str, message: str) -> None:
    assert SECRET not in hide_passwords(message.format(address))


def test_a_message_without_a_password_stays_as_it_is() -> None:
    for message in (
        "postgresql://me@db/talks: no entry of id a@b",
        "expected postgresql://USER@HOST/DATABASE",
    ):
        assert hide_passwords(message) == message


@pytest.mark.parametrize("path", ["talks.db", ":memory:", "/a/b.db", "c:/talks.db", "postgres", ""])
def test_a_path_is_no_address_and_shown_as_it_is(path: str) -> None:
    assert not is_address(path)
    assert not is_postgres(path)
    assert without_password(path) == path


@pytest.mark.parametrize(
    "path", ["mysql://me:hunter2@db/talks", "postgresql:/me:hunter2@db/talks", Path(ADDRESS)], ids=str
)
def test_an_address_of_another_kind_is_refused_without_its_password(path: str | Path) -> None:
    with pytest.raises(InvalidEventError, match="expected the path of a file, or postgresql://") as told:
        stenolog.open(path)

    assert SECRET not in str(told.value)


class TestTakingApart:
    """An address is taken apart here, and not by the driver, whose errors would quote it."""

    @pytest.mark.parametrize(
        ("written", "password"),
        [("a@b:c/d e#f", "a@b:c/d e#f"), ("a%40b", "a@b"), ("100%", "100%"), ("a+b", "a+b"), ("", "")],
    )
    def test_a_password_may_be_quoted_or_not(self, written: str, password: str) -> None:
        found = parse(f"postgresql://me:{written}@db/talks")

        assert conninfo_to_dict(found.conninfo) == {
            "user": "me",
            "host": "db",
            "dbname": "talks",
            **({"password": password} if password else {}),
        }

    def test_what_is_ours_is_not_given_to_the_driver(self) -> None:
        ours = (
            "schema=acme&pool=3&notify=off&pooled=on&listen=postgresql%3A%2F%2Fme%3Aa%2540b%40direct%2Ftalks"
        )
        found = parse(f"postgresql://db/talks?sslmode=require&{ours}&password=a+b%26c")

        read = {"host": "db", "dbname": "talks", "sslmode": "require", "password": "a+b&c"}
        assert conninfo_to_dict(found.conninfo) == read
        assert (found.schema, found.pool, found.notify, found.pooled) == ("acme", 3, False, True)
        assert conninfo_to_dict(found.listen) == {
            "user": "me",
            "password": "a@b",
            "host": "direct",
            "dbname": "talks",
        }

    @pytest.mark.parametrize(
        "rest",
        [
            f"me:a?{SECRET}@db/talks",
            f"me:{SECRET}/talks",
            f"me@db/talks?password=a@{SECRET}",
            f"me@db:{SECRET}/talks",
            f"me:12?{SECRET}",
            f"me:{SECRET}%00@db/talks",
            f"me:{SECRET}\0@db/talks",
            f"me:{SECRET}@db/talks?schema=Acme",
            f"me:{SECRET}@db/talks?schema=pg_acme",
            f"me:{SECRET}@db/talks?pool=0",
            f"me:{SECRET}@db/talks?notify=yes",
            f"me:{SECRET}@db/talks?listen={SECRET}",
        ],
    )
    def test_what_cannot_be_read_is_refused_without_its_password(self, rest: str) -> None:
        with pytest.raises(InvalidEventError, match="expected") as told:
            parse(f"postgresql://{rest}")

        assert SECRET not in str(told.value)

    @pytest.mark.parametrize(
        "mistaken", ["sslmod=require", "sslmode=bogus", "port=x", "port=99999", "hots=/tmp"]
    )
    def test_a_parameter_that_libpq_does_not_know_is_the_callers_mistake(self, mistaken: str) -> None:
        with pytest.raises(InvalidEventError, match=r"ours \(schema, pool, notify, pooled, listen\)") as told:
            stenolog.open(f"postgresql://me:{SECRET}@/talks?host=/nowhere&{mistaken}")

        assert mistaken.split("=")[0] in str(told.value)
        assert SECRET not in str(told.value)

    def test_no_repr_shows_the_password(self) -> None:
        assert SECRET not in f"{parse(ADDRESS)!r} {split(ADDRESS)!r}"


class Recording(SqliteLogApplication):
    """An application that remembers how it was made, and keeps its log in memory."""

    made: Mapping[str, str]

    def __init__(self, env: Mapping[str, str], edge: Sources) -> None:
        super().__init__({"SQLITE_DBNAME": ":memory:"}, edge)
        Recording.made = dict(env)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> type[Recording]:
    module: Any = ModuleType(APPLICATION)
    module.PostgresLogApplication = Recording
    monkeypatch.setitem(sys.modules, APPLICATION, module)
    return Recording


class TestOpening:
    """An address opens PostgreSQL's application, with its own settings alone."""

    @pytest.mark.parametrize("address", [ADDRESS, "postgres://db/talks"])
    def test_an_address_and_the_deadline_are_given_on(self, address: str, recording: type[Recording]) -> None:
        stenolog.open(address, deadline=3.0).close()

        assert recording.made == {"POSTGRES_ADDRESS": address, "POSTGRES_TIMEOUT": "3.0"}

    def test_a_log_may_give_up_what_a_power_cut_takes(self, recording: type[Recording]) -> None:
        stenolog.open(ADDRESS, synchronous="normal").close()

        assert recording.made["POSTGRES_SYNCHRONOUS"] == "normal"
        with pytest.raises(ValueError, match="expected 'full' or 'normal', found 'half'"):
            stenolog.open(ADDRESS, synchronous="half")  # type: ignore[arg-type]

    def test_a_log_that_must_be_there_is_not_made(self, recording: type[Recording]) -> None:
        open_existing(ADDRESS).close()

        assert recording.made["POSTGRES_MAKE"] == "no"

    def test_the_environment_may_name_an_address(
        self, recording: type[Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STENOLOG_DB", ADDRESS)
        stenolog.open().close()

        assert address.default_database() == ADDRESS
        assert recording.made["POSTGRES_ADDRESS"] == ADDRESS


@pytest.mark.parametrize("package", ["psycopg", "psycopg_pool"])
def test_without_the_driver_the_message_is_the_line_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith((f"{ROOM}.", "eventsourcing.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[postgres\]"'):
        stenolog.open(ADDRESS)


# A log is opened again by its address, wherever the process has gone since.


def names(log: stenolog.Log, _: int) -> list[str]:
    return list(log)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stenolog.Log:
    """Return a log that was opened by a relative path, before the process went to another folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    log = stenolog.open("talks.db")
    log["demo"].append(UserMessage(text="Hi."))
    monkeypatch.chdir("elsewhere")
    return log


def test_the_address_is_absolute_and_the_path_as_it_was_given(log: stenolog.Log, tmp_path: Path) -> None:
    assert (log.path, log.recorder.address) == ("talks.db", str(tmp_path / "talks.db"))
    log.close()


def test_the_page_of_the_proof_and_the_check_of_a_request_open_the_same_log(log: stenolog.Log) -> None:
    log["demo"].join("coder", model="m")
    request = log["demo"].request("coder", api="openai-chat")

    assert rebuilt(log["demo"], request, "openai-chat").sha256 == request.sha256
    assert not checked_anew(log, "demo").failed
    log.close()


@pytest.mark.slow
def test_other_processes_open_the_same_log(log: stenolog.Log) -> None:
    assert [*run_in_processes(log, names, [1, 2], 2)] == [["demo"]] * 2
    log.close()
