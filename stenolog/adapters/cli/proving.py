"""`gate`: would today's code still build the requests of a corpus as they were built?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.counters import COUNTERS
from stenolog.domain.errors import InvalidEvent
from stenolog.domain.policy import Policy, policy
from stenolog.projections.analysis import gate
from stenolog.projections.analysis.gate import Compared, Fresh, Header
from stenolog.projections.requests import WIRES

from .answer import Answer
from .lines import Piece, line
from .policies import policy_of
from .screen import progress
from .shell import command, opened, takes_db

if TYPE_CHECKING:
    from stenolog.adapters.log import Log

THERE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
STYLES = {"changed": "red", "vanished": "red", "new": "yellow"}


@command("gate")
@click.argument("dbs", metavar="[DB]...", nargs=-1, type=FILE)
@click.option("--out", type=FILE, help="Write the digests here; without it and --against: to stdout.")
@click.option("--against", type=THERE, help="An older file: list what would come out differently today.")
@click.option("--wire", "wires", multiple=True, type=click.Choice([*WIRES]), help="A provider; else all.")
@click.option("--policy", "written", metavar="POLICY", help="One for all; else each agent's own.")
@takes_db
def gate_command(
    db: Path,
    dbs: tuple[Path, ...],
    out: Path | None,
    against: Path | None,
    wires: tuple[str, ...],
    written: str | None,
) -> Answer:
    """Write the digests of every request of a corpus; with an older file, compare.

    Exit 1 where a request of the older file would be another today, or none.
    """
    logs = _logs(dbs or (db,))
    if against is None:
        head = gate.header({name: WIRES[name] for name in wires or WIRES}, policy_of(written))
        made = _requests(logs, head)
        if out is None:
            return _streamed(head, made)
        return _answer(head, head, out, (Compared(each.place, "same") for each in _kept(made, head, out)))
    with against.open(encoding="utf-8", errors="replace") as older:
        then = _of_wires(gate.read_header(older.readline()), wires)
        head = _same_question(then, policy_of(written))
        digests = (digest for digest in gate.read(older) if digest.place.wire in then.wires)
        made = _requests(logs, head)
        return _answer(then, head, out, gate.compare(digests, _kept(made, head, out) if out else made))


def _logs(dbs: Iterable[Path]) -> dict[str, Log]:
    """The logs by the names of their files, in order."""
    found: dict[str, Log] = {}
    for path in sorted(dbs, key=lambda path: path.name):
        if path.name in found:
            raise InvalidEvent(f"expected databases of different names, found two called {path.name!r}")
        found[path.name] = opened(path)
    return found


def _of_wires(then: Header, wires: tuple[str, ...]) -> Header:
    """The older header, for the wires that were asked for."""
    return then._replace(wires={n: version for n, version in then.wires.items() if not wires or n in wires})


def _same_question(then: Header, chosen: Policy | None) -> Header:
    """What the older file was made under: its policy, and those of its wires that are here."""
    if chosen is not None and chosen.json != then.policy:
        theirs = "each agent's own" if then.policy is None else then.policy
        raise InvalidEvent(f"expected the policy of the older file, {theirs}, found {chosen.json}")
    known = {name: WIRES[name] for name in then.wires if name in WIRES}
    if not known:
        raise InvalidEvent("expected an older file with the wires that were asked for, found none of them")
    return gate.header(known, None if then.policy is None else policy(then.policy))


def _requests(logs: dict[str, Log], head: Header) -> Iterator[Fresh]:
    """Every request of the corpus, in the order of their places."""
    given: dict[str, Any] = {"wires": {name: WIRES[name] for name in head.wires}, "counters": COUNTERS}
    given["policy"] = None if head.policy is None else policy(head.policy)
    for db, log in logs.items():
        for name in sorted(log.names(archived=True)):
            made = gate.fresh(log[name].entries(), db=db, blobs=log.blobs, **given)
            yield from progress(made, f"building the requests of {name}")


def _kept(requests: Iterable[Fresh], head: Header, out: Path) -> Iterator[Fresh]:
    """The requests, each written down as it passes by; the file is there once all have."""
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{gate.header_line(head)}\n")
            for request in requests:
                file.write(f"{gate.line(request.digest)}\n")
                yield request
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _streamed(head: Header, requests: Iterable[Fresh]) -> Answer:
    """The lines as they would stand in a file."""

    def data() -> Iterator[dict[str, Any]]:
        yield gate.header_data(head)
        yield from (gate.data(request.digest) for request in requests)

    def draw() -> Iterator[Piece]:
        yield gate.header_line(head)
        yield from (gate.line(request.digest) for request in requests)

    return Answer(data, draw, streams=True)


def _answer(then: Header, now: Header, out: Path | None, found: Iterable[Compared]) -> Answer:
    """What came of every request; only those that are not the same are kept."""
    counts: Counter[str] = Counter()
    listed: dict[str, list[Compared]] = {"changed": [], "vanished": [], "new": []}
    for one in found:
        counts[one.what] += 1
        if one.what != "same":
            listed[one.what].append(one)
    data = {
        "requests": counts.total() - counts["vanished"],
        **{what: [_flat(one) for one in some] for what, some in listed.items()},
        "then": then,
        "now": now,
        "file": None if out is None else str(out),
    }
    failed = bool(listed["changed"] or listed["vanished"])
    return Answer(data, lambda: _lines(then, now, listed, data, failed=failed), failed=failed)


def _flat(one: Compared) -> dict[str, Any]:
    return {**one.place._asdict(), **({"difference": one.difference} if one.difference else {})}


def _lines(
    then: Header, now: Header, listed: dict[str, list[Compared]], data: dict[str, Any], *, failed: bool
) -> Iterator[Piece]:
    several = len({one.place.db for some in listed.values() for one in some}) > 1
    for what, some in listed.items():
        for one in some:
            place = one.place
            yield line(
                (f"{what:<8} ", STYLES[what]),
                (f"{place.db} " if several else "", "dim"), f"{place.conversation} at {place.position}",
                (f"  {place.lane}", "cyan"), (f"  {place.wire}", "dim"), f"  {one.difference}",
            )  # fmt: skip
    if then != now:
        yield line(("built then  ", "dim"), _versions(then))
        yield line(("built today ", "dim"), _versions(now))
    counts = ", ".join(f"{len(some)} {what}" for what, some in listed.items() if some)
    file = f", written to {data['file']}" if data["file"] else ""
    mark = ("✗ ", "red") if failed else ("✓ ", "green")
    yield line(mark, f"{data['requests']:,} requests{file}{': ' if counts else ''}{counts}")


def _versions(header: Header) -> str:
    return ", ".join([header.pipeline, *(f"{name}@{version}" for name, version in header.wires.items())])
