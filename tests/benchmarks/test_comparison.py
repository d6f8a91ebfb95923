"""The comparison with other stores, in small: ratios to the floors and counts, never a time."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks._ratio import least
from benchmarks.peers import acceptance, counts
from benchmarks.peers.bench import Bench, Plan
from benchmarks.peers.libraries.by_hand import Floor, FloorCached
from benchmarks.peers.libraries.ours import AGENT, Stenolog, Stenolog32k, after
from benchmarks.peers.peer import Peer
from benchmarks.peers.plot import Line, plot, spread
from benchmarks.peers.workload import Alphabet, broken, content, said, turn

TALK = "talk"
HERE = {"floor": Floor, "floor_cached": FloorCached, "stenolog": Stenolog, "stenolog_32k": Stenolog32k}
"""The stores that need no library of their own."""
OURS = [Stenolog, Stenolog32k]


class Watched:
    """What SQLite does for all connections of a test."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.instructions = 0

    def step(self) -> int:
        """Count one more instruction; return 0 to continue."""
        self.instructions += 1
        return 0


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watch the connections that are opened from here on."""
    seen, connect = Watched(), sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(seen.statements.append)
        connection.set_progress_handler(seen.step, 1)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connected)
    return seen


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Yield a function that opens stores, each on a file of its own, and close them at the end."""
    peers: list[Peer] = []

    def open(kind: type[Peer], turns: int = 0) -> Any:
        peer = kind()
        peer.open(tmp_path / f"{kind.__name__}-{len(peers)}.db")
        peers.append(peer)
        peer.fill(TALK, turns)
        return peer

    yield open
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("name", HERE)
def test_every_store_hands_over_exactly_what_was_said(name: str, opened: Any) -> None:
    peer = opened(HERE[name])
    for number in range(1, 4):
        peer.turn(turn(TALK, number))
    peer.fork(TALK, 1, "fork")

    assert peer.said(peer.messages(TALK)) == peer.kept(TALK) == said(TALK, 3)
    assert peer.said(peer.at(TALK, 2)) == said(TALK, 2)
    assert peer.said(peer.messages("fork")) == said(TALK, 1)


@pytest.mark.parametrize("kind", OURS)
def test_a_turn_does_not_grow_with_what_came_before_it(kind: type[Stenolog], opened: Any) -> None:
    """In CPU, the least of each, so that nothing else on the machine is counted."""
    short, long = opened(kind, turns=200), opened(kind, turns=800)
    scripts = (turn(TALK, number) for number in range(801, 1_000))
    long_s, short_s = least(lambda: long.turn(next(scripts)), lambda: short.turn(next(scripts)), rounds=40)

    assert long_s / short_s <= 1.3


@pytest.mark.parametrize("kind", OURS)
def test_sqlite_works_as_much_for_a_long_conversation_as_for_a_short_one(
    kind: type[Stenolog], opened: Any, watched: Watched
) -> None:
    """Counted in instructions of its virtual machine, of which every row that is read takes some.

    The least of some turns: a thread stores what was written, beside any of them.
    """
    steps = []
    for turns in (100, 400):
        peer = opened(kind, turns=turns)
        counts = [watched.instructions]
        for number in range(turns + 1, turns + 8):
            peer.turn(turn(TALK, number))
            counts.append(watched.instructions)
        steps.append(min(after - before for before, after in pairwise(counts)))

    assert steps[0] > 0
    assert steps[1] <= 1.1 * steps[0]


def test_an_append_is_one_statement(opened: Any, watched: Watched) -> None:
    """And so one transaction and one fsync: the log is in WAL mode with synchronous=FULL."""
    peer = opened(Stenolog)
    peer.turn(turn(TALK, 1))
    before = len(watched.statements)
    peer.append(turn(TALK, 2)[0])

    assert [one.split()[0] for one in watched.statements[before:]] == ["INSERT"]


@pytest.mark.parametrize("alphabet", ["latin", "cyrillic"])
def test_bytes_on_disk_keep_to_their_bound(alphabet: Alphabet, tmp_path: Path) -> None:
    """Against texts alone, without their JSON; what can be thrown away lies in files beside."""
    peer = Stenolog()
    peer.open(tmp_path / "ours.db")
    peer.fill(TALK, 100, alphabet)
    assert peer.talk(TALK).request(AGENT).body
    peer.close()
    stored, entries = Path(tmp_path, "ours.db").stat().st_size, after(100)

    assert stored <= acceptance.PAYLOAD * content(TALK, 100, alphabet) + acceptance.ENTRY * entries


@pytest.mark.slow
def test_no_kill_loses_doubles_or_breaks_anything(tmp_path: Path) -> None:
    bench = Bench(
        ["stenolog"], Plan(kills=5), tmp_path, {"stenolog": {"failed": {}}}, {"stenolog": sys.executable}
    )
    counts.kills(bench, "stenolog")
    counts.race(bench, "stenolog")
    faults = [row for row in acceptance.count_rows("stenolog", bench.found["stenolog"]) if not row.ok]

    assert bench.found["stenolog"]["kills"]["kills"] == 5
    assert faults == []


def test_calls_without_results_and_results_without_calls_are_faults() -> None:
    user, calls, one, other, answer = (event.said for event in turn(TALK, 1))

    assert broken([user, calls, one, other, answer]) == 0
    assert broken([user, calls, one, answer]) == 1
    assert broken([user, calls]) == 2
    assert broken([user, one, answer]) == 1
    assert broken([user, calls, one, user, other]) == 2


def test_what_was_lost_doubled_or_moved_is_counted() -> None:
    ids = [event.id for event in turn(TALK, 1)]

    assert counts.compared(ids, ids) == {"lost": 0, "doubled": 0, "reordered": 0}
    assert counts.compared(ids, ids[:-1]) == {"lost": 1, "doubled": 0, "reordered": 0}
    assert counts.compared(ids, [*ids, ids[0]]) == {"lost": 0, "doubled": 1, "reordered": 0}
    assert counts.compared(ids, [ids[1], ids[0], *ids[2:]]) == {"lost": 0, "doubled": 0, "reordered": 1}


def test_the_plot_names_every_line_and_no_two_names_touch() -> None:
    lines = [Line(f"store <{n}>", [(10, 2 + n / 100), (1_000, 3 + n / 100)]) for n in range(9)]
    drawn = plot(lines, "a title", "a note")
    places = sorted(spread([100.0, 101.0, 102.0, 500.0, 500.0]))

    assert all(f"store &lt;{n}&gt;</text>" in drawn for n in range(9))
    assert all(below - above >= 17 for above, below in pairwise(places))
