"""`claims`: what is under way, and taking it over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.roles import Presence
from stenolog.adapters.store.contract.values import Claim
from tests.postgres.server import Server

Cli = Callable[..., Any]


@pytest.fixture(params=["talks.db", "postgres 15"])
def address(
    request: pytest.FixtureRequest, postgres: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield a file, and an address on a server, which the command line uses."""
    if request.param == "talks.db":
        yield request.param
        return
    with postgres(request.param).schema() as address:
        monkeypatch.setenv("STENOLOG_DB", address)
        yield address


@pytest.fixture
def runner(cli: Cli, address: str) -> Iterator[Presence]:
    """Yield a runner of this process that is at two effects."""
    with stenolog.open(address) as log:
        conversation = log["demo"]
        conversation.append(UserMessage(text="Go."))
        presence = log.recorder.claims.presence("one")
        claim = Claim(0, "coder", "model", 2, 1, "key", presence.owner, 1_767_225_600_000_000)
        wanted = [claim, claim._replace(lane="judge", effect="tool 2/0")]
        Claims(log.recorder, conversation.stream).take(wanted, 2)
        yield presence
        presence.close()


def test_nothing_is_under_way(demo: Cli) -> None:
    assert demo("claims").out == "no model call or tool is under way\n"
    assert demo("claims", "demo", "--take").status == 2


def test_what_is_under_way_stands_in_a_table_with_its_process(cli: Cli, runner: Presence) -> None:
    _, host, pid, *_ = runner.owner.split()

    ran = cli("claims")

    head, _, *rows = ran.out.splitlines()
    assert [line.split() for line in (head, *rows)] == [
        ["CONVERSATION", "AGENT", "WHAT", "SINCE", "PROCESS", "HOST", "ALIVE"],
        ["demo", "coder", "model", "2026-01-01", "00:00:00", pid, host, "yes"],
        ["demo", "judge", "tool", "2/0", "2026-01-01", "00:00:00", pid, host, "yes"],
    ]
    data = cli("claims", "--json").data
    assert data[0] == {
        "conversation": "demo",
        "lane": "coder",
        "effect": "model",
        "since": "2026-01-01T00:00:00Z",
        "host": host,
        "pid": int(pid),
        "alive": True,
        "owner": "one",
    }


def test_what_is_taken_over_is_owned_by_nobody_who_lives(cli: Cli, runner: Presence) -> None:
    assert cli("claims", "--owner", "one").status == 2
    assert cli("claims", "demo", "--take", "--owner", "two").status == 2
    assert cli("claims", "nowhere", "--take").status == 3

    ran = cli("claims", "demo", "--take", "--owner", runner.owner.split()[2])

    assert ran.status == 0
    assert ran.out.startswith("✓ demo: 2 calls taken over; the next run settles them")
    assert "still runs" in ran.out
    assert [claim["alive"] for claim in cli("claims", "--json").data] == [False, False]


def test_gc_tells_what_it_removed(cli: Cli, demo: Cli) -> None:
    with stenolog.open("talks.db") as log:
        log.blobs.put(b"nothing names it")
    ran = cli("db", "gc", "--json")

    assert ran.data == {"blobs": 1, "bytes": 16, "kept": 0, "is_complete": True}
    assert cli("db", "gc").out == "✓ 0 blobs removed, 0 bytes\n"
