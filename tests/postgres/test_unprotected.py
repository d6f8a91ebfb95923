"""A process that cannot renew its lease stops its own effects before, or when, others may begin them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError
from stenolog.adapters.engine.journal.recovery import DIED, UNPROTECTED
from stenolog.adapters.store.postgres import presence
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta
from tests.engine.workload import Ledger, lines
from tests.postgres.freezing import SHORT, TALK, Half, work, work_under_a_short_lease
from tests.postgres.proxy import Cut
from tests.postgres.server import Server
from tests.stores import workers
from tests.stores.contract.lost import Way, way_to


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in SHORT.items():
        monkeypatch.setattr(presence, name, seconds)


@pytest.fixture
def way(postgres: Callable[[str], Server]) -> Iterator[Way]:
    with way_to(postgres("postgres 18")) as ready:
        yield ready


@pytest.fixture
def address(postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres("postgres 18").schema() as address:
        yield address


def answers(address: str) -> list[tuple[str, str]]:
    """Return the texts of the agent, each with the reason why it is one half; and nothing is left over."""
    with stenolog.open(address) as log:
        assert log.claims() == []
        events = [entry.event for entry in log[TALK]]
    told = [event for event in events if isinstance(event, AssistantMessage | LlmError)]
    return [(event.text, getattr(event, "message", "")) for event in told]


@pytest.mark.slow
def test_where_the_server_is_away_effects_stop_while_their_process_counts_as_alive(
    way: Way, tmp_path: Path
) -> None:
    alive: list[bool] = []

    class Cuts(Half):
        """Has the server go away once the first half was said."""

        async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
            try:
                async for piece in super().stream(prompt):
                    yield piece
                    if isinstance(piece, ResponseDelta):
                        way.proxy.away = 2.5
                        lease = log.recorder.lease.id  # type: ignore[attr-defined]
                        way.proxy.cut = Cut(lease.encode(), "request", 0)
            except asyncio.CancelledError:
                (claim,) = way.beside.claims.everywhere()
                alive.append(way.beside.claims.owner_lives(claim[1].owner))
                raise

    with stenolog.open(way.address) as log:
        asyncio.run(work(log, Cuts(Ledger(tmp_path / "ledger")), "Go"))

    assert way.proxy.was_cut
    assert alive == [True]
    assert answers(way.beside.address) == [("half", UNPROTECTED), ("whole", "")]


@pytest.mark.slow
@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_process_that_was_frozen_stops_its_effects_when_it_goes_on(
    address: str, tmp_path: Path, is_taken_over: bool
) -> None:
    ledger = tmp_path / "ledger"
    frozen = workers.started(work_under_a_short_lease, address, str(ledger))
    try:
        until(lambda: lines(ledger) and kept(address))
        assert frozen.pid is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        if is_taken_over:
            with stenolog.open(address) as log:
                again = Half(Ledger(tmp_path / "other"))
                again.asked = 1
                asyncio.run(work(log, again))
        else:
            time.sleep(SHORT["LEASE"])
        assert lines(ledger) == [["start"]]
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.join(workers.PATIENCE)
        assert frozen.exitcode == 0
    finally:
        frozen.kill()
        frozen.join(workers.PATIENCE)

    assert lines(ledger)[:2] == [["start"], ["cancelled"]]
    assert len(lines(ledger)) == (2 if is_taken_over else 3)
    assert answers(address) == [("half", DIED if is_taken_over else UNPROTECTED), ("whole", "")]


def kept(address: str) -> bool:
    """Return whether what has streamed is kept."""
    with stenolog.open(address) as log:
        recorder = log.recorder
        return any(recorder.drafts.of(claim.fence) for _, claim in recorder.claims.everywhere())


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + workers.PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)
