"""Tables of the results: a row for each store, and for each measure a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from benchmarks.peers.bench import Plan
from benchmarks.peers.registry import KNOWN
from benchmarks.peers.speed import SETTLED, TALK, WARM, seconds
from benchmarks.peers.workload import content

Found = dict[str, Any]
Cell = Callable[[Found], str]

NONE, TIMES = "-", "\u00d7"


class Measure(NamedTuple):
    """A column: its heading, and the text in a store's row."""

    title: str
    cell: Cell


def turns(plan: Plan) -> list[Measure]:
    """Return the turns at several lengths."""
    timed = {f"turn {length:,}": f"turn {length}" for length in plan.lengths}
    timed[f"turn {SETTLED + WARM:,}, settled"] = "turn settled"
    return [milliseconds(what, title) for title, what in timed.items()]


def beside(plan: Plan) -> list[Measure]:
    """Return the other measures: bytes, a new process, ways back, many conversations."""
    short = f"{plan.short} turns"
    return [
        disk("latin", f"disk after {short}, Latin"),
        disk("cyrillic", f"disk after {short}, Cyrillic"),
        milliseconds("cold whole", f"new process at turn {plan.left:,}, ms"),
        milliseconds("cold list", "of it open + list, ms"),
        milliseconds("fork", f"fork at the half of {short}, ms"),
        Measure(f"events/s, {plan.conversations} conversations", partial(throughput, plan)),
    ]


def table(found: dict[str, Found], columns: list[Measure]) -> str:
    """Return a row for each store that was measured, and what a dash means where there is one."""
    lines = [["", *(column.title for column in columns)]]
    for name, store in found.items():
        if "not_measured" not in store:
            lines.append([KNOWN[name].title, *(column.cell(store) for column in columns)])
    empty = [title for title, *cells in zip(*lines, strict=True) if cells[1:] and {*cells[1:]} == {NONE}]
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    told = ["\n".join((head, f"|---{'|---:' * len(columns)}|", *rows))]
    if any(NONE in line for line in lines):
        told.append(f"`{NONE}`: the store has no such thing, or it was not measured.")
    if empty:
        told.append(f"Not measured in this run: {'; '.join(empty)}.")
    return "\n\n".join(told)


def milliseconds(what: str, title: str) -> Measure:
    """Return a time in the middle of all rounds."""

    def cell(store: Found) -> str:
        own = seconds(store, what)
        return figure(own * 1e3) if own else NONE

    return Measure(title, cell)


def disk(alphabet: Any, title: str) -> Measure:
    """Return bytes on disk for a byte of text; those of disposable files beside the store are apart."""

    def cell(store: Found) -> str:
        own, more = stored(store, alphabet), stored(store, alphabet, "beside")
        return f"{figure(own)}{f' + {figure(more)}' if more else ''} {TIMES}" if own else NONE

    return Measure(title, cell)


def stored(store: Found, alphabet: Any, where: str = "bytes") -> float | None:
    """Return bytes on disk for a byte of text, of the store or "beside" it."""
    held = store.get(f"{where} {alphabet}")
    return None if held is None else float(held / content(TALK, store["short"], alphabet))


def throughput(plan: Plan, store: Found) -> str:
    """Return events a second, with the number reached if the run was cut off."""
    own = seconds(store, "interleaved")
    if own is None:
        return NONE
    done = store["interleaved turns"]
    short = "" if done >= plan.conversations * plan.each else f" (first {done:,} turns)"
    return f"{1 / own:,.0f}{short}"


def counted(measure: str, *kinds: str) -> Cell:
    """Return a cell with the sum of these counts."""

    def cell(store: Found) -> str:
        return str(sum(store[measure][kind] for kind in kinds)) if measure in store else NONE

    return cell


def of_kills(*kinds: str) -> Cell:
    """Return a cell with the sum of these counts, by the number of kills."""

    def cell(store: Found) -> str:
        kills = store.get("kills")
        return f"{sum(kills[kind] for kind in kinds)}/{kills['kills']}" if kills else NONE

    return cell


def versions(found: dict[str, Found]) -> str:
    """Return the versions of all distributions that were measured, in a sentence."""
    told = [store.get("about", {}).get("versions", {}) for store in found.values()]
    all_of_them = sorted({f"{name} {version}" for versions in told for name, version in versions.items()})
    return f"Versions: {', '.join(all_of_them)}."


WRONG = [
    Measure("two writers: lost", counted("race", "lost")),
    Measure("turns refused", counted("race", "refused")),
    Measure("faults of the next request", counted("race", "broken")),
    Measure("clock an hour ahead: lost or moved", counted("clock", "lost", "reordered")),
    Measure("kills: events lost, doubled, moved", of_kills("lost", "doubled", "reordered")),
    Measure("kills: broken next requests", of_kills("broken")),
]


def figure(number: float) -> str:
    """Return three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
