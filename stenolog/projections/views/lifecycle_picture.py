"""Picture of the lifecycle of a lane, as SVG: the usual ways, its state, and how it came there.

It refuses an arrow that the lifecycle does not have. It has no script and no attribute `style`; its colours
are the classes of `STYLE`, which a page loads, and a file of its own includes.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import hypot
from typing import NamedTuple

from stenolog.domain.lanes.lifecycle import STATES, TABLE, Row, Status, Trigger

WIDE, HIGH = 170, 56
PLACES: dict[Status, tuple[int, int]] = {
    "idle": (40, 50),
    "awaiting_llm": (345, 50),
    "awaiting_tools": (650, 50),
    "closed": (40, 220),
    "failed": (345, 220),
    "awaiting_approval": (650, 220),
}
STYLE = """\
.lifecycle { font: 13px system-ui, sans-serif; background: #fff; }
.lifecycle text { fill: #24292f; text-anchor: middle; }
.lifecycle .label { fill: #57606a; font-size: 12px; }
.lifecycle .state { fill: #ddf4ff; stroke: #54aeff; }
.lifecycle .state.current { fill: #fff3c4; stroke: #9a6700; stroke-width: 3; }
.lifecycle .way { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip); }
.lifecycle .way.taken { stroke: #9a6700; stroke-width: 3.5; marker-end: url(#taken-tip); }
.lifecycle .tip { fill: #57606a; } .lifecycle .taken-tip { fill: #9a6700; }
.lifecycle .label.taken { fill: #7d4e00; font-weight: 700; }
.lifecycle .label.taken { stroke: #fff; stroke-width: 4; paint-order: stroke; }
.lifecycle .right { text-anchor: start; } .lifecycle .left { text-anchor: end; }
@media (prefers-color-scheme: dark) {
  .lifecycle { background: #0d1117; }
  .lifecycle text { fill: #e6edf3; } .lifecycle .label, .lifecycle .tip { fill: #9198a1; }
  .lifecycle .state { fill: #0c2d4a; stroke: #316dca; } .lifecycle .way { stroke: #9198a1; }
  .lifecycle .state.current { fill: #3d3513; stroke: #e0c060; }
  .lifecycle .way.taken { stroke: #e0c060; }
  .lifecycle .label.taken, .lifecycle .taken-tip { fill: #e0c060; }
  .lifecycle .label.taken { stroke: #0d1117; }
}
"""
USUAL = "The usual ways of a lane: asked, it calls its model, runs tools or asks for approval"


class Way(NamedTuple):
    """An arrow: its transitions, its path, and its label's place."""

    source: Status
    triggers: tuple[Trigger, ...]
    target: Status
    path: str
    label: tuple[int, int, str]
    guards: tuple[str, ...] = ()


class Taken(NamedTuple):
    """The way that an entry took a lane: from a state, by a trigger, to a state, under these guards."""

    source: Status
    trigger: Trigger
    target: Status
    guards: tuple[str, ...] = ()


WAYS = (
    Way("idle", ("asked",), "awaiting_llm", "M210 66H341", (276, 59, "")),
    Way("awaiting_llm", ("answered",), "idle", "M345 90H214", (280, 107, "")),
    Way("awaiting_llm", ("answered",), "awaiting_tools", "M515 66H646", (581, 43, ""), ("has_calls",)),
    Way("awaiting_tools", ("resulted",), "awaiting_llm", "M650 90H519", (585, 107, "")),
    Way(
        "awaiting_llm",
        ("answered",),
        "awaiting_approval",
        "M500 106 646 230",
        (580, 142, "right"),
        ("has_calls", "awaits_approval"),
    ),
    Way("awaiting_approval", ("approved",), "awaiting_tools", "M795 220V110", (787, 190, "left")),
    Way("awaiting_llm", ("erred",), "failed", "M390 106V216", (382, 168, "left")),
    Way("failed", ("asked", "continued"), "awaiting_llm", "M440 220V110", (448, 190, "right")),
    Way("idle", ("left",), "closed", "M85 106V216", (77, 168, "left")),
    Way("closed", ("joined",), "idle", "M165 220V110", (173, 168, "right")),
)


def lifecycle_picture(
    current: Status | None = None, taken: Taken | None = None, *, title: str = USUAL, standalone: bool = True
) -> str:
    """Return the picture, with the state of a lane, and the way that it took there.

    `standalone`: include the style. Raises `ValueError` for a way that the lifecycle does not have.
    """
    is_usual = taken is None or any(_is(way, taken) for way in WAYS)
    high = 300 if is_usual else 344  # an arrow may lead around below
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lifecycle" viewBox="0 0 860 {high}" role="img">',
        f"<title>{escape(title)}</title>",
        *([f"<style>{STYLE}</style>"] if standalone else []),
        f"<defs>{_tip('tip', 8)}{_tip('taken-tip', 4)}</defs>",
    ]
    for state in STATES:
        x, y = PLACES[state]
        name = "state current" if state == current else "state"
        lines.append(f'<rect class="{name}" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>')
        lines.append(f'<text x="{x + WIDE // 2}" y="{y + HIGH // 2 + 5}">{state}</text>')
    for way in WAYS:
        check(way)
        is_taken = taken is not None and _is(way, taken)
        lines += _way(way, "taken" if is_taken else "")
    if taken is not None and not is_usual:
        lines += _further(taken)
    # Out of the way of an arrow above.
    note = f'<text class="label right" x="40" y="{24 if is_usual else high - 4}">'
    lines.append(f"{note}cancelled: from every state but closed to idle</text></svg>")
    return "\n".join(lines) + "\n"


def _tip(name: str, size: int) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto"><path class="{name}" d="M0 0 8 4 0 8z"/></marker>'
    )


def _way(way: Way, name: str) -> Iterator[str]:
    x, y, side = way.label
    yield f'<path class="{f"way {name}".strip()}" d="{way.path}"/>'
    for row, words in enumerate(words_of(way)):
        classes = " ".join(filter(None, ("label", side, name)))
        yield f'<text class="{classes}" x="{x}" y="{y + 16 * row}">{escape(words)}</text>'


def _is(way: Way, taken: Taken) -> bool:
    is_same = (way.source, way.target) == (taken.source, taken.target) and taken.trigger in way.triggers
    return is_same and set(way.guards) <= set(taken.guards)


def _further(taken: Taken) -> Iterator[str]:
    x, y = PLACES[taken.source]
    words = words_of(Way(taken.source, (taken.trigger,), taken.target, "", (0, 0, ""), taken.guards))
    if taken.source == taken.target:
        is_above = y < HIGH
        loop = "c0 -34 44 -34 44 -4" if is_above else "c0 34 44 34 44 4"
        path = f"M{x + WIDE - 60} {y if is_above else y + HIGH}{loop}"
        place = (x + WIDE - 38, y - 30 if is_above else y + HIGH + 42)
        words = [" ".join(words)]
    else:
        path, place = _straight(taken)
    yield f'<path class="way taken" d="{path}"/>'
    for row, line in enumerate(words):
        yield f'<text class="label taken" x="{place[0]}" y="{place[1] + 16 * row}">{escape(line)}</text>'


def _straight(taken: Taken) -> tuple[str, tuple[int, int]]:
    (x, y), (to_x, to_y) = _middle(taken.source), _middle(taken.target)
    long = hypot(to_x - x, to_y - y)
    # Bent to one side, so that it does not lie upon the usual way back, or upon a state between the two.
    side_x, side_y = -(to_y - y) / long * 74, (to_x - x) / long * 74
    if abs(to_y - y) < 1 and y > HIGH * 3:
        side_y = -side_y
    middle = ((x + to_x) / 2 + side_x, (y + to_y) / 2 + side_y)
    begin, end = _edge((x, y), middle), _edge((to_x, to_y), middle)
    path = f"M{begin[0]:.0f} {begin[1]:.0f}Q{middle[0]:.0f} {middle[1]:.0f} {end[0]:.0f} {end[1]:.0f}"
    at_x, at_y = ((one + other + 2 * bend) / 4 for one, other, bend in zip(begin, end, middle, strict=True))
    return path, (round(at_x), round(at_y))


def _middle(state: Status) -> tuple[float, float]:
    x, y = PLACES[state]
    return x + WIDE / 2, y + HIGH / 2


def _edge(inner: tuple[float, float], outer: tuple[float, float]) -> tuple[float, float]:
    wide, high = outer[0] - inner[0], outer[1] - inner[1]
    share = min(
        (WIDE / 2 + 4) / abs(wide) if wide else 9.0,
        (HIGH / 2 + 4) / abs(high) if high else 9.0,
    )
    return inner[0] + wide * share, inner[1] + high * share


def check(way: Way) -> None:
    """Raise `ValueError` if the lifecycle has no such way."""
    row = Row(tuple((guard, True) for guard in way.guards), way.target)
    for trigger in way.triggers:
        if row not in TABLE.get((way.source, trigger), ()):
            raise ValueError(f"the lifecycle has no way from {way.source} by {trigger}: {row}")


def words_of(way: Way) -> list[str]:
    """Return the lines of a label: the triggers, then the guards."""
    return [", ".join(way.triggers), *([f"[{' and '.join(way.guards)}]"] if way.guards else [])]
