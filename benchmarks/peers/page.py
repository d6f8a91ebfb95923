"""The tables and the plot of what was found, on the terminal and in the docs."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import profile
from benchmarks.__main__ import line
from benchmarks.peers import acceptance
from benchmarks.peers.bench import PROFILE, Plan, kept
from benchmarks.peers.plot import Line, plot
from benchmarks.peers.registry import FLOORS, KNOWN, OURS
from benchmarks.peers.speed import TALK, ratio, seconds
from benchmarks.peers.workload import content

Found = dict[str, Any]
Cell = Callable[[Found], str]

ROOT = Path(__file__).parent.parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
PAGE = DOCS / "reference" / "performance.md"
PICTURE = DOCS / "images" / "turns.svg"
TITLE = "Milliseconds of a turn, by how many turns came before it"
NONE, TIMES = "-", "\u00d7"


def show() -> int:
    """Print everything; 1 where a limit is missed."""
    found = kept()
    print(tables(found))
    rows = list(acceptance.rows(found))
    print(f"\n{'':4} {'value':>10} {'limit':>10}  what stenolog must keep to")
    for row in rows:
        print(line(row))
    return 1 if any(not row.ok for row in rows) else 0


def write() -> None:
    """Put the tables and the plot into the docs."""
    found = kept()
    put(PAGE, "peers", tables(found))
    put(PAGE, "limits", limits(found))
    if PROFILE.exists():
        put(PAGE, "profile", profile.table(json.loads(PROFILE.read_text())))
    if all("turn 1000" in found.get(name, {}) for name in (*FLOORS, *OURS)):  # not so of a quick run
        put(README, "figures", headline(found))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(found))


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


def tables(found: dict[str, Found]) -> str:
    """All tables, as Markdown."""
    parts = [
        machine(found),
        "**A turn, in milliseconds** (and how many times `floor` in the same round)",
        table(found, TURNS),
        "**Beside it**",
        table(found, BESIDE),
        "**What goes wrong**",
        table(found, WRONG),
        "**What was measured**",
        table(found, VERSIONS, align="---"),
        "**Where another is ahead** of stenolog with the whole history, and how many times",
        ahead(found),
    ]
    missing = [f"- {KNOWN[name].title}: {what}" for name, what in failures(found)]
    if missing:
        parts += ["**Not measured**", "\n".join(missing)]
    return "\n\n".join(parts)


def machine(found: dict[str, Found]) -> str:
    """What it was measured on."""
    floor = found.get("floor", {}).get("about", {})
    days = sorted({store["when"] for store in found.values()})
    python = f"Python {floor.get('python', '?')}, SQLite {floor.get('sqlite', '?')}"
    cores = f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}"
    return f"Measured {' and '.join(days)}: {python}, {cores}."


def table(found: dict[str, Found], columns: dict[str, Cell], align: str = "---:") -> str:
    """A row for each store that was measured."""
    head = ["", *columns]
    lines = [head, ["---", *[align] * len(columns)]]
    for name, store in found.items():
        if "not_measured" not in store:
            lines.append([KNOWN[name].title, *(cell(store) for cell in columns.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def turn(what: str) -> Cell:
    """A turn, and how many times the floor's."""

    def cell(store: Found) -> str:
        own, times = seconds(store, what), ratio(store, what, "floor")
        if not own:
            return NONE
        return f"{figure(own * 1e3)} ({figure(times)} {TIMES})" if times else figure(own * 1e3)

    return cell


def milliseconds(what: str) -> Cell:
    """A time in the middle of all rounds."""

    def cell(store: Found) -> str:
        own = seconds(store, what)
        return figure(own * 1e3) if own else NONE

    return cell


def disk(alphabet: Any) -> Cell:
    """Bytes on disk for a byte that is said; those beside the store, which can be thrown away, apart."""

    def cell(store: Found) -> str:
        if f"bytes {alphabet}" not in store:
            return NONE
        beside = stored(store, alphabet, "beside")
        return f"{figure(stored(store, alphabet))}{f' + {figure(beside)}' if beside else ''} {TIMES}"

    return cell


def stored(store: Found, alphabet: Any, where: str = "bytes") -> float:
    """Bytes on disk for a byte that is said, of the store or "beside" it."""
    return float(store.get(f"{where} {alphabet}", 0) / content(TALK, store["short"], alphabet))


def throughput(store: Found) -> str:
    """Events a second, with how far it came."""
    own = seconds(store, "interleaved")
    if own is None:
        return NONE
    plan, done = Plan(), store["interleaved turns"]
    short = "" if done >= plan.conversations * plan.each else f" (first {done:,} turns)"
    return f"{1 / own:,.0f}{short}"


def counted(measure: str, *kinds: str) -> Cell:
    """What was counted, added up."""

    def cell(store: Found) -> str:
        return str(sum(store[measure][kind] for kind in kinds)) if measure in store else NONE

    return cell


def of_kills(*kinds: str) -> Cell:
    """What was counted, and of how many kills."""

    def cell(store: Found) -> str:
        kills = store.get("kills")
        return f"{sum(kills[kind] for kind in kinds)} of {kills['kills']}" if kills else NONE

    return cell


def versions(store: Found) -> str:
    """The versions of the distributions."""
    told = store.get("about", {}).get("versions", {})
    return ", ".join(f"{name} {version}" for name, version in told.items()) or "the standard library"


def journal(store: Found) -> str:
    """The durability of a turn."""
    about = store.get("about")
    if not about:
        return NONE
    return f"{about['journal']}{' (set by us)' if about['prepared'] else ''}, {about['synchronous']}"


TURNS: dict[str, Cell] = {
    **{f"turn {length:,}": turn(f"turn {length}") for length in Plan().lengths},
    "turn 1,200, settled": turn("turn settled"),
}
BESIDE: dict[str, Cell] = {
    "disk, Latin": disk("latin"),
    "disk, Cyrillic": disk("cyrillic"),
    "new process, ms": milliseconds("cold whole"),
    "of it imports": milliseconds("cold import"),
    "of it open + list": milliseconds("cold list"),
    "list at the half, ms": milliseconds("state at the half"),
    "fork there, ms": milliseconds("fork"),
    "events/s": throughput,
}
WRONG: dict[str, Cell] = {
    "two writers: lost": counted("race", "lost"),
    "turns refused": counted("race", "refused"),
    "faults of the next request": counted("race", "broken"),
    "clock an hour ahead: lost or moved": counted("clock", "lost", "reordered"),
    "kills: events lost, doubled, moved": of_kills("lost", "doubled", "reordered"),
    "kills: broken next requests": of_kills("broken"),
}
VERSIONS: dict[str, Cell] = {"versions": versions, "journal, synchronous": journal}


def ahead(found: dict[str, Found]) -> str:
    """Who needs less than stenolog for what; a line for each measure."""
    own = found.get("stenolog", {})
    lines = []
    for title, needed in LESS_IS_BETTER.items():
        ours = needed(own)
        others = {name: needed(store) for name, store in found.items() if name not in OURS}
        better = {name: ours / other for name, other in others.items() if ours and other and other < ours}
        if better:
            order = sorted(better, key=better.__getitem__, reverse=True)
            told = [
                f"{KNOWN[name].title.partition(':')[0]} ({figure(better[name])} {TIMES})" for name in order
            ]
            lines.append(f"- {title}: {'; '.join(told)}")
    return "\n".join(lines) or "Nowhere."


LESS_IS_BETTER: dict[str, Callable[[Found], float | None]] = {
    **{f"turn {length:,}": partial(seconds, what=f"turn {length}") for length in Plan().lengths},
    "disk, Latin": lambda store: stored(store, "latin") if "bytes latin" in store else None,
    "disk, Cyrillic": lambda store: stored(store, "cyrillic") if "bytes cyrillic" in store else None,
    "a new process, from its start to its list": partial(seconds, what="cold whole"),
    "of it open and list": partial(seconds, what="cold list"),
    "the list at the half": partial(seconds, what="state at the half"),
    "a fork": partial(seconds, what="fork"),
    "many conversations": partial(seconds, what="interleaved"),
}
"""What each store needs: seconds, or bytes."""


def limits(found: dict[str, Found]) -> str:
    """The rows with limits, as Markdown."""
    lines = ["| | limit | measured | |", "|---|---:|---:|---|"]
    for row in acceptance.rows(found):
        unit = f" {TIMES}" if row.unit == "x" else row.unit
        missed = "" if row.ok else "**missed** "
        note = f"{missed}{row.note}".strip()
        limit = NONE if row.limit == math.inf else f"{row.limit:g}{unit}"
        lines.append(f"| {row.name} | {limit} | {row.value:.3g}{unit} | {note} |")
    return "\n".join(lines)


def headline(found: dict[str, Found]) -> str:
    """Three sentences for the README; the libraries from the best to the worst, whichever they are."""
    others = {name: store for name, store in found.items() if name not in (*FLOORS, *OURS)}
    turns = {name: timed * 1e3 for name, store in found.items() if (timed := seconds(store, "turn 1000"))}
    disks = {name: stored(store, "latin") for name, store in found.items() if "short" in store}
    of_turns = span({name: turns[name] for name in others if name in turns}, " ms")
    of_disks = span({name: disks[name] for name in others if name in disks}, f" {TIMES}")
    ours, bounded, held = (figure(turns[name]) for name in (*OURS, "floor_cached"))
    cyrillic = figure(stored(found["stenolog"], "cyrillic"))
    rows = [row for name in OURS for row in acceptance.count_rows(name, found[name])]
    kills = sum(found[name]["kills"]["kills"] for name in OURS)
    return "\n".join(
        [
            "- A turn (five durable events, two requests) behind 1,000 others takes "
            f"{ours} ms with the whole history in each request, {bounded} ms under a budget of 32,000 "
            f"tokens. A loop by hand that holds its list in memory takes {held} ms, "
            f"the libraries {of_turns}.",
            f"- On disk it takes {figure(disks['stenolog'])} {TIMES} what was said, "
            f"{cyrillic} {TIMES} in Cyrillic; the libraries {of_disks}.",
            f"- {kills} times `kill -9`, two writers at once, a clock that is an hour ahead: "
            f"{sum(row.value for row in rows):.0f} events were lost, doubled or moved, or requests broken.",
        ]
    )


def span(numbers: dict[str, float], unit: str) -> str:
    """From the least to the most, each with whose it is."""
    order = sorted(numbers, key=numbers.__getitem__)
    return " to ".join(
        f"{figure(numbers[name])}{unit} ({KNOWN[name].title})" for name in (order[0], order[-1])
    )


def failures(found: dict[str, Found]) -> list[tuple[str, str]]:
    """Stores and measures that are missing, and why."""
    missing = [(name, store["not_measured"]) for name, store in found.items() if "not_measured" in store]
    failed = [
        (name, f"{what}: {why}") for name, store in found.items() for what, why in store["failed"].items()
    ]
    return missing + failed


def picture(found: dict[str, Found]) -> str:
    """The plot of turns."""
    lines = []
    for name, store in found.items():
        timed = [(float(length), seconds(store, f"turn {length}")) for length in Plan().lengths]
        points = [(length, own * 1e3) for length, own in timed if own]
        kind = "floor" if name in FLOORS else "ours" if name in OURS else "other"
        title = KNOWN[name].title.replace("*", "")
        lines.append(Line(title, points, kind))
    return plot(lines, TITLE, "five durable events and two message lists a turn; both axes are logarithmic")


def figure(number: float) -> str:
    """Three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
