"""The tables and the plot of what was found, on the terminal and in the docs."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from benchmarks.peers import acceptance, costs
from benchmarks.peers.bench import is_commit, kept, planned
from benchmarks.peers.plot import Line, plot
from benchmarks.peers.registry import FLOORS, KNOWN, OURS
from benchmarks.peers.speed import seconds
from benchmarks.peers.tables import (
    WRONG,
    Found,
    beside,
    figure,
    table,
    turns,
    versions,
)

ROOT = Path(__file__).parent.parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
PAGE = DOCS / "reference" / "performance.md"
PICTURE = DOCS / "images" / "turns.svg"
TITLE = "Milliseconds of a turn, by how many turns came before it"


def show(quick: bool = False) -> int:
    """Print everything; 1 where a limit is missed: of a quick run only one of what is counted."""
    found = last(quick)
    print(tables(found))
    rows = list(acceptance.rows(found))
    print(f"\n{'':4} {'value':>10} {'limit':>10}  what stenolog must keep to")
    for row in rows:
        print(row.line())
    if quick:
        print("\nQuick: these figures are rough, and MISS means nothing, but for what is counted.")
    return 1 if any(row.is_missed and not (quick and row.unit == "x") for row in rows) else 0


def write() -> None:
    """Put the tables and the plot into the docs, with what stenolog cost at that commit."""
    found = last()
    if missing := incomplete(found):
        raise SystemExit(f"expected one whole measurement for the docs, found {missing}")
    put(PAGE, "peers", tables(found, in_full=False))
    put(README, "figures", headline(found))
    costs.write(commits(found), found["stenolog"]["costs"])
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(found))


def incomplete(found: dict[str, Found]) -> str:
    """Return why the docs cannot show this: stores, a commit or a measure are missing."""
    if unknown := [name for name in KNOWN if name not in found]:
        return f"nothing of {', '.join(unknown)}"
    if not is_commit(commits(found)):
        return f"figures of {commits(found)}"
    others = (name for name in KNOWN if name not in (*FLOORS, *OURS))
    if not any("turn 1000" in found[name] for name in others):
        return "no turn of another library"
    needed = [("floor_cached", "turn 1000"), (OURS[0], "costs")]
    needed += [(name, what) for name in OURS for what in ("turn 1000", *acceptance.NOTHING)]
    return ", ".join(f"no {what} of {name}" for name, what in needed if what not in found[name])


def last(quick: bool = False) -> dict[str, Found]:
    """Return the results of the last measurement."""
    found = kept(quick)
    if not found:
        raise SystemExit(f"nothing was measured yet: python -m benchmarks peers{' --quick' if quick else ''}")
    return found


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between two marks of a page."""
    begin, end = f"<!-- {name}: made by `python -m benchmarks` -->", f"<!-- {name}: end -->"
    written, many = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: f"{begin}\n\n{text}\n\n{end}",
        page.read_text(),
        flags=re.DOTALL,
    )
    if many != 1:
        raise SystemExit(f"expected the marks of {name!r} once in {page}, found them {many} times")
    page.write_text(written)


def tables(found: dict[str, Found], *, in_full: bool = True) -> str:
    """Return the tables as Markdown; unless `in_full`, only those that the docs show."""
    plan = planned(found)
    parts = [
        measured(found),
        "**A turn, in milliseconds**",
        table(found, turns(plan)),
        *(["**Beside it**", table(found, beside(plan))] if in_full else []),
        "**What goes wrong**",
        table(found, WRONG),
        *rooms(found),
        versions(found),
    ]
    missing = [f"- {KNOWN[name].title}: {what}" for name, what in failures(found)]
    if missing:
        parts += ["**Not measured**", "\n".join(missing)]
    return "\n\n".join(parts)


def rooms(found: dict[str, Found]) -> list[str]:
    """Return the table of rooms, if they were measured."""
    measured = found.get(OURS[0], {}).get("costs")
    return ["**By room**", costs.by_room(measured)] if measured else []


def measured(found: dict[str, Found]) -> str:
    """Return the time, the method and the machine of the measurement."""
    plan, floor = planned(found), found.get("floor", {}).get("about", {})
    when = " and ".join(sorted({store["when"] for store in found.values()}))
    how = f"**quick** ({plan.rounds} rounds, rough)" if plan.quick else f"in full ({plan.rounds} rounds)"
    python = f"Python {floor.get('python', '?')}, SQLite {floor.get('sqlite', '?')}"
    cores = f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}"
    return f"Measured {when} at {commits(found)}, {how}: {python}, {cores}."


def commits(found: dict[str, Found]) -> str:
    """Return the commits that were measured."""
    return " and ".join(sorted({store.get("commit") or "an unknown commit" for store in found.values()}))


def headline(found: dict[str, Found]) -> str:
    """Return two sentences for the README: a turn beside the others', and what kills have done."""
    others = {name: store for name, store in found.items() if name not in (*FLOORS, *OURS)}
    times = {name: timed * 1e3 for name, store in found.items() if (timed := seconds(store, "turn 1000"))}
    of_turns = span({name: times[name] for name in others if name in times}, " ms")
    ours, held = figure(times[OURS[0]]), figure(times["floor_cached"])
    rows = [row for name in OURS for row in acceptance.count_rows(name, found[name])]
    kills = sum(found[name]["kills"]["kills"] for name in OURS)
    faults = f"{sum(row.value for row in rows):.0f}"
    return (
        f"Measured at {commits(found)}: a turn (five durable events, two requests) after 1,000 others takes "
        f"{ours} ms; a loop by hand "
        f"that holds its list in memory {held} ms, other libraries {of_turns}. After {kills} times `kill -9` "
        f"with two writers and a wrong clock, {faults} events were lost or doubled, and {faults} requests "
        "broken."
    )


def span(numbers: dict[str, float], unit: str) -> str:
    """Return the range from the least to the most, each with its store."""
    order = sorted(numbers, key=numbers.__getitem__)
    return " to ".join(
        f"{figure(numbers[name])}{unit} ({KNOWN[name].title})" for name in (order[0], order[-1])
    )


def failures(found: dict[str, Found]) -> list[tuple[str, str]]:
    """Return the stores and measures that are missing, and why."""
    missing = [(name, store["not_measured"]) for name, store in found.items() if "not_measured" in store]
    failed = [
        (name, f"{what}: {why}") for name, store in found.items() for what, why in store["failed"].items()
    ]
    return missing + failed


def picture(found: dict[str, Found]) -> str:
    """Return the plot of turns."""
    lines = []
    for name, store in found.items():
        timed = [(float(length), seconds(store, f"turn {length}")) for length in planned(found).lengths]
        points = [(length, own * 1e3) for length, own in timed if own]
        kind = "floor" if name in FLOORS else "ours" if name in OURS else "other"
        title = KNOWN[name].title.replace("*", "")
        lines.append(Line(title, points, kind))
    return plot(lines, TITLE, "five durable events and two message lists a turn; both axes are logarithmic")
