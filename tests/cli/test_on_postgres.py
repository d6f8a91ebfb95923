"""Every command prints on a log in PostgreSQL what it prints on the same log in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.apps.cli.commands.see.demo import FORK, record_all
from stenolog.apps.cli.demo_events import BEGUN, FORKED_AFTER, STEP
from tests.postgres.server import Server

Cli = Callable[..., Any]
READING = """
ls
ls --json
log demo
log demo --json
log demo~1
timeline demo
state demo
state demo --json
show demo 5
show demo 5 --raw
tail demo --timeout 0
request demo --agent coder
request demo --agent coder --json
request demo --agent coder --diff call
explain demo 5
explain text parser
explain answer demo 7
explain text parser --json
search parser
search parser --json
search parser --newest
cost --context demo
cost
cost --json
outputs demo
claims
claims --json
compaction demo --agent coder
check replay demo
check log
check log demo --strict
check log --requests --jobs 1
check
check requests demo
check requests demo --all-prefixes --jobs 1
retry demo
export demo
export demo --as markdown
export demo --as openai --agent coder
diff demo demo~1
db gc
"""
TIME = re.compile(r"\d\d:\d\d:\d\d")
WRITING = """
append demo --user again --id one --time 2026-11-24T10:00:00Z
append new --user hello --id one --time 2026-11-24T10:00:00Z
fork demo 5 --name other
rename demo~1 way
archive way
ls --all
archive way --undo
erase demo 4 --yes --reason test --by me
hold demo~1 --reason case --by me
hold --all --younger-than 1d --reason kept --by me
delete other --yes
erase --subject PARSER --yes --by me
hold --release 11 --by me
hold --release 11 --by me
hold --list
erase --subject PARSER --yes --by me
erase --author coder --yes --by me
delete other --yes
delete way --yes
ls --all
db gc
log demo
"""
HEAD_OF_LOG = re.compile(r"\b\d+-\d+-[\da-f]{50,}")
"""The head of a log holds random bytes, and a notification id."""


def demo(address: str) -> str:
    """Record the demo, as its command does; return the address."""
    at, id = BEGUN + STEP * FORKED_AFTER, f"{FORK}-{FORKED_AFTER + 1}"
    with stenolog.open(address, entropy=bytes, clock=lambda: at, ids=lambda: id) as log:
        record_all(log)
    return address


@pytest.fixture(scope="module")
def server(postgres: Callable[[str], Server]) -> Server:
    return postgres("postgres 15")


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return a file and an address, each with a log of the demo."""
    with server.schema() as address:
        yield demo(str(tmp_path_factory.mktemp("demo") / "talks.db")), demo(address)


@pytest.mark.parametrize("line", READING.strip().splitlines())
def test_what_reads_prints_the_same(cli: Cli, both: tuple[str, str], line: str) -> None:
    in_a_file, on_a_server = (cli(*line.split(), "--db", db) for db in both)

    assert on_a_server.err == in_a_file.err
    assert HEAD_OF_LOG.sub("", on_a_server.out) == HEAD_OF_LOG.sub("", in_a_file.out)
    assert on_a_server.status == in_a_file.status


def test_what_writes_prints_the_same(cli: Cli, server: Server) -> None:
    cli("demo", "--no-open")
    with server.schema() as address:
        cli("demo", "--no-open", "--db", address)
        for line in WRITING.strip().splitlines():
            found, expected = cli(*line.split(), "--db", address), cli(*line.split())
            # What is appended has the time of now, which may be another second by then.
            assert (found.status, found.err) == (expected.status, expected.err), line
            assert TIME.sub("", found.out) == TIME.sub("", expected.out), line


def test_what_was_exported_of_one_is_known_to_the_other(cli: Cli, server: Server) -> None:
    cli("demo", "--no-open")
    cli("export", "demo~1", "-o", "demo.jsonl")
    with server.schema() as address:
        assert cli("import", "demo.jsonl", "--db", address).status == 0
        assert cli("export", "demo~1", "-o", "again.jsonl", "--db", address).status == 0

    assert Path("again.jsonl").read_bytes() == Path("demo.jsonl").read_bytes()
