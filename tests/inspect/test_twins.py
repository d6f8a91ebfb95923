"""The twin of a page in JSON: the same envelope as the command prints that shows the same."""

from __future__ import annotations

import contextlib
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog.apps.inspect.app import PAGES
from stenolog.apps.views.figures import ago, lasted
from tests.command_line import run

TWINS = {
    "/index.json": ["ls"],
    "/index.json?q=parser": ["search", "parser", "-n", "100"],
    "/read.json/demo?at=9": ["timeline", "demo", "--at", "9"],
    "/c.json/demo?at=5": ["log", "demo", "-n", "200", "--at", "5"],
    "/request.json/demo?agent=coder&at=9": ["request", "demo", "--agent", "coder", "--at", "9"],
    "/request.json/demo?agent=coder&why=1": ["request", "demo", "--agent", "coder", "--why"],
    "/diff.json/demo?agent=coder&at=9&before=6": [
        *("request", "demo", "--agent", "coder", "--at", "9", "--diff", "6")
    ],
    "/diff.json/demo?agent=coder": ["request", "demo", "--agent", "coder", "--diff", "call"],
    "/diff.json/demo?agent=coder&other=reviewer&api=anthropic": [
        *("request", "demo", "--agent", "coder", "--other", "reviewer", "--api", "anthropic")
    ],
    "/compaction.json/demo?agent=coder": ["explain", "compaction", "demo", "--agent", "coder"],
    "/context.json/demo?agent=coder&at=9": ["cost", "demo", "--context", "--agent", "coder", "--at", "9"],
    "/machine.json/demo?at=9": ["state", "demo", "--at", "9"],
    "/context.json/demo": ["cost", "demo", "--context"],
    "/advise.json/demo": ["cost", "demo", "--advise"],
    "/cost.json/demo": ["cost", "demo", "--report"],
    "/cost.json/demo?agent=reviewer": ["cost", "demo", "--report", "--agent", "reviewer"],
    "/costs.json": ["cost", "--report"],
    "/whatif.json/demo?agent=coder&at=9&without=3-4&mode=run&edit=2:What is new?&budget=16k": [
        *("request", "demo", "--agent", "coder", "--at", "9", "--without", "3-4", "--mode", "run"),
        *("--edit", "2:What is new?", "--budget", "16k"),
    ],
    "/certify.json/demo?agent=planner&never=20&to=30": [
        *("certify", "demo", "--agent", "planner", "--never", "20", "--to", "30")
    ],
    "/bisect.json/demo?agent=coder&holds=mail.py+first": [
        *("bisect", "demo", "--agent", "coder", "--holds", "mail.py first")
    ],
    "/retry.json/demo": ["retry", "demo"],
    "/retry.json/demo?agent=reviewer&policy=full": [
        *("retry", "demo", "--agent", "reviewer", "--policy", "full")
    ],
    "/proof.json/demo": ["check", "log", "demo", "--requests"],
    "/answer.json/demo?at=7": ["explain", "answer", "demo", "7"],
    "/entry.json/demo?at=5": ["explain", "entry", "demo", "5"],
    "/compare.json?run=demo&run=other&agent=coder": ["compare", "demo", "other", "--agent", "coder"],
    "/compare.json?run=demo&run=other&run=demo&calls=1": ["compare", "demo", "other", "demo", "--calls"],
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("twins") / "talks.db"
    printed(db, "demo")
    printed(db, "fork", "demo", "--after", "9", "--name", "other")
    return db


def printed(db: Path, *command: str) -> Any:
    """Return what a command prints with `--json`."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        assert run([*command, "--json", "--db", str(db)]) == 0
    out.seek(0)
    return json.load(out)


@pytest.mark.parametrize(("address", "command"), TWINS.items(), ids=TWINS)
def test_a_twin_is_what_the_command_prints(db: Path, address: str, command: list[str]) -> None:
    with (
        stenolog.open(db) as log,
        TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web,
    ):
        assert web.get(address).json() == printed(db, *command)


def test_every_page_that_has_a_twin_is_compared() -> None:
    compared = {address.split("?")[0].split("/")[1] for address in TWINS}
    assert compared == {page.twin_path.split("/")[1] for page in PAGES if page.twin is not None}


def test_an_error_is_told_in_the_envelope_too(db: Path) -> None:
    with (
        stenolog.open(db) as log,
        TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web,
    ):
        answer = web.get("/request.json/dema")
        assert answer.status_code == 404
        [note] = answer.json()["diagnostics"]
        assert (note["severity"], note["code"]) == ("error", "ConversationNotFoundError")


# Figures for a reader are worded alike on the terminal and on the pages.


NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(None, ""), (12, "12 ms"), (1_300, "1.3 s"), (125_000, "2 min 5 s"), (11_040_000, "3 h 4 min")],
)
def test_a_duration_is_told_in_its_two_largest_units(milliseconds: int | None, shown: str) -> None:
    assert lasted(milliseconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(5, "now"), (60, "1 min ago"), (90_000, "1 d ago")])
def test_a_time_is_told_by_how_long_ago_it_was(seconds: int, shown: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == shown
