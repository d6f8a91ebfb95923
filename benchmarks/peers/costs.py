"""What stenolog cost at the commit whose times the docs show: counts, and CPU by room.

The record lies beside this file, so that a test can say when those times are of a program that is no more.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from benchmarks import _rooms
from benchmarks.peers.bench import Bench
from benchmarks.peers.tables import figure
from tests.counts.counters import IN
from tests.counts.flows import Rows
from tests.counts.measure import dearer, limits, this_version

Costs = dict[str, Any]
"""The Python, its `counts` as `tests/costs.toml` had them, and the seconds of `rooms`."""
RECORD = Path(__file__).with_name("measured.toml")
HEAD = """\
# The commit whose times README and docs/reference/performance.md show, and what flows cost there, counted.
# Made by `python -m benchmarks peers --write`.
"""
STEPS = {"append": "an append", "request, openai-chat, 1,000 entries": "the next request"}
FLOWS = (*STEPS, "import stenolog", "request, first of a process", "team turn")
"""The flows whose times the docs show."""
LESS = 0.8
"""Times mislead, too, if a flow makes fewer calls than this part of those that were timed."""


def run(bench: Bench) -> None:
    """Note the counts of this checkout, and measure its rooms, if stenolog takes part."""
    if "stenolog" in bench.names:
        counts = limits(this_version())
        bench.found["stenolog"]["costs"] = {
            "python": this_version(),
            "counts": {flow: counts[flow] for flow in FLOWS},
            "rooms": _rooms.measured(),
        }
        bench.save()


def by_room(costs: Costs) -> str:
    """Return the calls and the CPU of an append and a request in each room, as a table."""
    counts, rooms = costs["counts"], costs["rooms"]
    heads = [f"{title}: {kind}" for title in STEPS.values() for kind in ("calls", "µs")]
    lines = [["", *heads]]
    for name in sorted(
        {name for step in STEPS for name in (*counts[step], *rooms[step]) if name.startswith(IN)}
    ):
        lines.append([f"`{name.removeprefix(IN)}`"])
        for step in STEPS:
            lines[-1] += [f"{counts[step].get(name, 0):,}", figure(rooms[step].get(name, 0) * 1e6)]
    lines.append(["together"])
    for step in STEPS:
        lines[-1] += [f"{counts[step]['calls']:,}", figure(sum(rooms[step].values()) * 1e6)]
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join((head, f"|---{'|---:' * len(heads)}|", *rows))


def write(commit: str, costs: Costs) -> None:
    """Write the record."""
    text = f'{HEAD}commit = "{commit}"\npython = "{costs["python"]}"\n'
    for flow, counts in costs["counts"].items():
        figures = (f"{name} = {count}\n" for name, count in counts.items() if not name.startswith(IN))
        text += f'\n[counts."{flow}"]\n{"".join(figures)}'
    RECORD.write_text(text)


def recorded() -> Costs:
    """Return the record, with its commit."""
    return tomllib.loads(RECORD.read_text())


def stale(today: Rows, then: Rows) -> list[str]:
    """Return why the times of flows that cost this much `then` are not those of `today`."""
    cheaper = [
        f"{flow}: {today[flow]['calls']:,} calls of {counts['calls']:,}"
        for flow, counts in then.items()
        if today[flow]["calls"] < counts["calls"] * LESS
    ]
    return dearer({flow: today[flow] for flow in then}, then) + cheaper
