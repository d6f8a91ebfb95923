"""The roles of docs/how-to/many-machines.md: what each may do, and what it is told where it may not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.contract.values import Claim, Cursor, Stream
from stenolog.apps.workers.queues import queue_of
from stenolog.errors import StoreError
from stenolog.events import UserMessage
from tests.forked import python
from tests.postgres.server import EACH_VERSION, Server

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md"
SNIPPETS = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
ROLES = ("owner", "writer", "reader")


class Roles(NamedTuple):
    """The addresses of one log, for each role."""

    owner: str
    writer: str
    reader: str


@pytest.fixture(params=EACH_VERSION)
def roles(request: pytest.FixtureRequest, postgres: Callable[[str], Server]) -> Iterator[Roles]:
    """Return a log that the owner has made, and that is granted to the others as the page says."""
    server = postgres(request.param)
    with server.schema() as address:
        schema = address.rpartition("schema=")[2]
        mine = Roles(*(address.replace("tests@", f"{role}_{schema}@") for role in ROLES))
        owner, *others = (adapted(snippet, schema) for snippet in SNIPPETS)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(owner.encode())
            with stenolog.open(mine.owner) as log:
                log["demo"].extend([UserMessage(text="Which test fails?"), UserMessage(text="None.")])
                queue_of(log)  # as its first worker does
            for snippet in others:
                connection.execute(snippet.encode())
            yield mine
            for role in ROLES:
                connection.execute(
                    f"DROP OWNED BY {role}_{schema} CASCADE; DROP ROLE {role}_{schema}".encode()
                )


def test_the_addresses_of_the_page_can_be_read() -> None:
    from stenolog.adapters.store.postgres.connection.address import parse

    found = re.findall(r"(?:--db |STENOLOG_DB=)'?(postgresql:[^\s']*)", PAGE.read_text())
    pooled = parse(found[-1])

    assert [parse(text).shown for text in found[:2]] == found[:2]
    assert (pooled.pooled, pooled.listen) == (True, "postgresql://writer@db.example/talks")


def adapted(snippet: str, schema: str) -> str:
    """Return a snippet of the page for the tests' database: other names of the roles and of the schema."""
    snippet = re.sub(r"\b(owner|writer|reader)\b", rf"\1_{schema}", snippet)
    return re.sub(r"\bstenolog(?=\b|_jobs\b)", schema, snippet).replace("DATABASE talks", "DATABASE postgres")


def run(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = python("-m", "stenolog", *arguments, "--db", address)
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("ls",), ("show", "demo", "2"), ("log", "demo"), ("search", "fails"), ("check",)],
    ids=lambda arguments: arguments[0],
)
def test_a_reader_reads(roles: Roles, arguments: tuple[str, ...]) -> None:
    done = run(roles.reader, *arguments)

    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout or "fails" in done.stdout


def test_a_reader_follows_the_log(roles: Roles) -> None:
    with stenolog.open(roles.reader) as log, stenolog.open(roles.writer) as other:
        found = log["demo"].tail(after=0, timeout=10)
        assert next(found).position == 1
        other["demo"].append(UserMessage(text="more"))
        assert [entry.position for _, entry in zip(range(3), found, strict=False)] == [2, 3, 4]


def test_a_reader_is_told_that_it_may_not_append(roles: Roles) -> None:
    done = run(roles.reader, "append", "demo", '{"kind": "user_message", "text": "Hello."}')
    with stenolog.open(roles.reader) as log:
        with pytest.raises(StoreError, match=r"this role may not do that .*permission denied for table"):
            log["demo"].append(UserMessage(text="Hello."))
        with pytest.raises(StoreError, match="may not do that"):
            log["new"].append(UserMessage(text="Hello."))
        with pytest.raises(StoreError, match="may not do that"):
            log["demo"].rename("other")
        assert log["demo"].position == 3

    assert done.returncode != 0
    assert "this role may not do that" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_role_without_rights_on_the_jobs_is_told_so_when_it_lists_workers(roles: Roles) -> None:
    done = run(roles.reader, "workers")

    assert done.returncode == 6
    assert "expected a role that may use the schema" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_writer_submits_what_a_worker_is_woken_for(roles: Roles) -> None:
    done = run(roles.writer, "submit", "--conversation", "demo", "Which test fails?")
    waiting = run(roles.writer, "workers")

    assert done.returncode == 0, done.stderr
    assert "1 wake-up waiting" in waiting.stdout + waiting.stderr


def test_who_has_no_right_to_the_jobs_is_told_so(roles: Roles) -> None:
    done = run(roles.reader, "submit", "--conversation", "demo", "Which test fails?")

    assert done.returncode != 0
    assert "expected a role that may use the schema" in done.stderr


def test_a_writer_does_all_that_a_run_of_agents_does(roles: Roles) -> None:
    with stenolog.open(roles.writer) as log:
        log["demo"].append(UserMessage(text="more"))
        log["new"].append(UserMessage(text="Hello."))
        log["demo"].fork(2, "fork")
        log["fork"].rename("branch")
        log["branch"].archive()
        log.blobs.put(b"a picture")
        recorder, stream = log.recorder, Stream("demo", log.recorder.conversations.find("demo"))
        recorder.save_cursor("follower", Cursor(1))
        recorder.save_cursor("follower", Cursor(2))
        presence = recorder.claims.presence("runner")
        claim = Claim(0, "coder", "model", 2, 1, "key", presence.owner, 0)
        (taken,) = recorder.claims.take(stream, [claim], 4)
        assert taken is not None
        recorder.drafts.add([(taken.fence, b"half a word")])
        assert recorder.claims.owner_lives(presence.owner)
        recorder.claims.take_over(stream, taken, presence.owner)
        for left in recorder.claims.of(stream):
            recorder.claims.release(left)
        presence.close()
        assert verify(log).problems == ()


def test_a_writer_changes_and_removes_nothing(roles: Roles) -> None:
    with stenolog.open(roles.writer) as log:
        with pytest.raises(StoreError, match="may not do that"):
            log["demo"].delete()
        with pytest.raises(StoreError, match="may not do that"):
            log["demo"].erase(2)
        assert log["demo"].position == 3
    schema = roles.writer.rpartition("schema=")[2]
    server = roles.writer.rpartition("&schema=")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        for table in ("stored_events", "history", "blobs"):
            for statement in (f"DELETE FROM {schema}.{table}", f"TRUNCATE {schema}.{table}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"UPDATE {schema}.stored_events SET state = ''".encode())


def test_the_owner_erases_and_deletes(roles: Roles) -> None:
    with stenolog.open(roles.owner) as log:
        log["demo"].erase(2)
        log["beside"].append(UserMessage(text="x"))
        log["beside"].delete()
        assert verify(log).problems == ()


def test_a_role_that_may_not_make_a_log_is_told_who_may(roles: Roles) -> None:
    with pytest.raises(StoreError, match="Let its owner open the log once"):
        stenolog.open(roles.writer.replace("schema=t", "schema=other"))


def test_a_reader_without_amcheck_checks_all_else(roles: Roles, postgres: Callable[[str], Server]) -> None:
    tests = roles.owner.replace("owner_" + roles.owner.rpartition("=")[2], "tests").rpartition("&schema=")[0]
    with psycopg.connect(tests, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION amcheck SCHEMA public")
        try:
            with stenolog.open(roles.reader) as log:
                assert verify(log).problems == ()
        finally:
            connection.execute("DROP EXTENSION amcheck")
