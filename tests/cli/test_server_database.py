"""A database on a server: `--db` and STENOLOG_DB take its address, and no output has its password."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from stenolog.adapters.store.contract.address import without_password
from stenolog.adapters.store.contract.appends import Sources
from stenolog.adapters.store.postgres.connection.schema import LogNotFoundError
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.apps.cli.arguments.database import DatabaseParameter, ServerDatabase, database_of
from stenolog.apps.cli.arguments.options import names
from stenolog.errors import InvalidEventError

Cli = Callable[..., Any]
SECRET = "hunter2"
HOSTILE = f"a@b:c/d e#{SECRET}%"
ADDRESS = f"postgresql://me:{HOSTILE}@db.example:5432/talks"
NAME = "postgresql://me@db.example:5432/talks"


class OnAServer(SqliteLogApplication):
    """An application of an address whose log is in a file; `made` are the settings of each."""

    made: list[Mapping[str, str]]
    file: Path

    def __init__(self, env: Mapping[str, str], edge: Sources) -> None:
        self.made.append(dict(env))
        if env.get("POSTGRES_MAKE") == "no" and not self.file.exists():
            raise LogNotFoundError(f"{without_password(env['POSTGRES_ADDRESS'])}: expected a log, found none")
        super().__init__({"SQLITE_DBNAME": str(self.file)}, edge)
        self.recorder.path = without_password(env["POSTGRES_ADDRESS"])
        self.recorder.address = env["POSTGRES_ADDRESS"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[OnAServer]:
    """Stand in for PostgreSQL's application."""
    monkeypatch.setattr(OnAServer, "made", [], raising=False)
    monkeypatch.setattr(OnAServer, "file", tmp_path / "server.db", raising=False)
    name = "stenolog.adapters.store.postgres.application"
    module: Any = ModuleType(name)
    module.PostgresLogApplication = OnAServer
    monkeypatch.setitem(sys.modules, name, module)
    return OnAServer


@pytest.fixture
def told(cli: Cli, server: type[OnAServer]) -> Cli:
    """Return a command line that fails where its output has the password."""

    def ran(*arguments: str) -> Any:
        result = cli(*arguments)
        assert SECRET not in result.out + result.err
        assert "c/d e#" not in result.out + result.err
        return result

    return ran


def test_what_writes_makes_a_log_and_what_reads_does_not(told: Cli, server: type[OnAServer]) -> None:
    missing = told("ls", "--db", ADDRESS)
    assert missing.status == 3
    assert missing.err.startswith(f"✗ {NAME}: no log here; begin with `stenolog demo`")
    assert told("append", "talk", "--user", "hello", "--db", ADDRESS).status == 0
    assert told("ls", "--db", ADDRESS).out.count("talk  ") == 1

    assert [made.get("POSTGRES_MAKE") for made in server.made] == ["no", None, "no"]
    assert {made["POSTGRES_ADDRESS"] for made in server.made} == {ADDRESS}


def test_the_environment_names_it_too(told: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STENOLOG_DB", ADDRESS)

    assert told("append", "talk", "--user", "hello").status == 0
    assert told("show", "talk", "2", "--raw").out == "hello\n"
    assert told("db", "path").out == f"{NAME}\n"
    assert told("db", "path", "--json").data == {"path": NAME, "exists": None}
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("server.db")] == []


def test_the_demo_is_recorded_in_it(told: Cli) -> None:
    shown = told("demo", "--no-open", "--db", ADDRESS)

    assert shown.status == 0
    assert f"export STENOLOG_DB={NAME}" in shown.out
    assert told("check", "log", "--db", ADDRESS, "--jobs", "1").status == 0
    assert told("explain", "text", "timeout", "--db", ADDRESS).status == 0


def test_what_is_about_files_alone_says_what_to_do_instead(told: Cli) -> None:
    refused = told("db", "restore", "copy.db", "--db", ADDRESS)

    assert refused.status == 2
    assert f"expected a database in an SQLite file, found {NAME}: pg_restore" in refused.err
    salvaged = told("db", "salvage", ADDRESS, "new.db")
    assert salvaged.status == 2
    assert f"expected a database in an SQLite file, found {NAME}" in salvaged.err


PLACES = """
ls --db A
A
show A
log A extra
log --at A
import A
import --db A A
db backup A
db restore A
db salvage A new.db
db salvage talks.db A
db salvage talks.db -o A
db schema A
check file A
run A
run team.toml --record A
retry --against A
retry --card A
retry --team A
retry -o A
export demo A
export demo -o A
export demo --output A
cost --context demo --plot A
cost --prices A
watch A
chat A --team A
explain text A
erase demo A --yes
fork demo A
compaction A
outputs demo A
--db A
ls --dbb A
ls --db=A --limit A
completion A
"""


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("line", PLACES.strip().splitlines())
@pytest.mark.parametrize(
    "address", [f"postgresql://me:{SECRET}@db/talks", f"postgres://u:x:y/{SECRET}@db/talks"]
)
def test_an_address_in_a_wrong_place_is_shown_without_its_password(
    cli: Cli, line: str, as_json: bool, address: str
) -> None:
    cli("append", "demo", "--user", "hello")
    arguments = [word.replace("A", address) for word in line.split()]
    result = cli(*arguments, *(["--json"] if as_json else []))

    assert SECRET not in result.out + result.err
    assert "Traceback" not in result.err


def test_one_of_another_kind_is_refused(told: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = told("ls", "--db", f"mysql://me:{HOSTILE}@db/talks")
    assert wrong.status == 2
    assert "expected the path of a file, or postgresql://USER@HOST/DATABASE, found another" in wrong.err
    monkeypatch.setenv("STENOLOG_DB", f"mysql://me:{HOSTILE}@db/talks")
    assert told("ls").status == 2


def test_a_database_on_a_server_never_shows_its_password() -> None:
    found = database_of(ADDRESS)

    assert isinstance(found, ServerDatabase)
    assert (str(found), repr(found), f"{found}") == (NAME, f"<ServerDatabase {NAME}>", NAME)
    assert found == database_of(ADDRESS)
    assert database_of("talks.db") == Path("talks.db")
    assert DatabaseParameter(path_type=Path).convert("talks.db", None, None) == Path("talks.db")
    with pytest.raises(InvalidEventError):
        database_of(f"postgresql:/me:{SECRET}@db/talks")


PORT_OF_NO_SERVER = 1
UNREACHABLE = f"postgresql://me:{HOSTILE}@127.0.0.1:{PORT_OF_NO_SERVER}/talks"


class TestFaults:
    """What PostgreSQL's own application says of an address has no password, either."""

    @pytest.mark.parametrize(
        ("address", "status", "message"),
        [
            (UNREACHABLE, 6, f"me@127.0.0.1:{PORT_OF_NO_SERVER}/talks: connection failed"),
            (f"{UNREACHABLE}?schema=Acme", 2, "schema: expected small letters"),
            (f"{UNREACHABLE}?pool=all", 2, "pool: expected a number"),
            (f"{UNREACHABLE}?sslmod=require", 2, 'invalid URI query parameter: "sslmod"'),
            (f"postgresql://me:a?{HOSTILE}@db/talks", 2, "found one that cannot be read: postgresql://…"),
            (f"postgresql://me:{SECRET}/talks", 2, "found one that cannot be read: postgresql://…"),
        ],
    )
    @pytest.mark.parametrize("option", ["--no-pager", "--json", "--traceback"])
    def test_an_error_names_the_log_without_its_password(
        self, cli: Cli, address: str, status: int, message: str, option: str
    ) -> None:
        found = cli("ls", "--db", address, option)

        assert found.status == status
        assert message in (found.envelope["diagnostics"][0]["message"] if option == "--json" else found.err)
        assert SECRET not in found.out + found.err

    def test_a_shell_that_completes_names_is_told_none(self) -> None:
        context = click.Context(click.Command("log"))
        context.params["db"] = database_of(UNREACHABLE)

        assert names(context, click.Argument(["target"]), "d") == []
