"""Teams on a log in PostgreSQL: of a process that is killed, another one takes the effects over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Agent, Team
from stenolog.adapters.store.postgres.presence import LEASE
from stenolog.models import Scripted
from stenolog.tools import tool
from tests.engine.given import answers, call, results, run_team
from tests.postgres.server import Server
from tests.stores import workers


@pytest.fixture
def address(postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres("postgres 15").schema() as found:
        yield found


def team(ledger: Path, seconds: float, *turns: Any) -> Team:
    """Return a team whose tool notes each of its calls, and takes so long."""

    @tool(repeat="safe")
    async def look() -> str:
        """Look."""
        with ledger.open("a") as file:
            file.write("looked\n")
        await asyncio.sleep(seconds)
        return "a cat"

    return Team([Agent("coder", llm=Scripted(*turns), tools=[look])], paranoid=True)


def look_for_ever(address: str, ledger: str, sender: Connection) -> None:
    """Run a team until the process is killed, and tell when it begins."""
    with stenolog.open(address) as log:
        sender.send("running")
        asyncio.run(run_team(team(Path(ledger), workers.PATIENCE, call("look")), log["demo"], "Look."))


def test_a_team_runs_and_checks_each_request_on_a_connection_of_its_own(address: str, tmp_path: Path) -> None:
    working = team(tmp_path / "ledger", 0.0, call("look"), "It is a cat.")
    with stenolog.open(address) as log:
        asyncio.run(run_team(working, log["demo"], "Look."))

        assert [answer.text for answer in answers(log["demo"])] == ["", "It is a cat."]
        assert [result.text for result in results(log["demo"])] == ["a cat"]
        assert log.claims() == []


@pytest.mark.slow
def test_what_a_killed_process_was_at_is_done_again_when_its_lease_is_over(
    address: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    receiver, sender = workers.CONTEXT.Pipe(duplex=False)
    process = workers.started(look_for_ever, address, str(ledger), sender)
    assert receiver.poll(workers.PATIENCE)
    while not ledger.exists():
        time.sleep(0.01)
    with stenolog.open(address) as log:
        assert [claim.alive for claim in log.claims()] == [True]
        process.kill()
        process.join(workers.PATIENCE)
        began = time.monotonic()
        asyncio.run(run_team(team(ledger, 0.0, "It is a cat."), log["demo"]))

        assert time.monotonic() - began < LEASE + 5
        assert [result.text for result in results(log["demo"])] == ["a cat"]
        assert log.claims() == []
    assert ledger.read_text().count("looked") == 2
