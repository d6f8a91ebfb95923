"""The picture of the usual ways of a lane; an arrow that the lifecycle does not have is refused."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from stenolog.domain.lifecycle import STATES, TABLE, Row, Status, Trigger

WIDE, HIGH = 170, 56
PLACES: dict[Status, tuple[int, int]] = {
    "idle": (40, 50),
    "awaiting_llm": (345, 50),
    "awaiting_tools": (650, 50),
    "closed": (40, 220),
    "failed": (345, 220),
    "awaiting_approval": (650, 220),
}
STYLE = """svg { font: 13px system-ui, sans-serif; background: #fff }
text { fill: #24292f; text-anchor: middle } .label { fill: #57606a; font-size: 12px }
.state { fill: #ddf4ff; stroke: #54aeff }
.way { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip) }
.tip { fill: #57606a } .right { text-anchor: start } .left { text-anchor: end }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117 }
  text { fill: #e6edf3 } .label, .tip { fill: #9198a1 }
  .state { fill: #0c2d4a; stroke: #316dca } .way { stroke: #9198a1 }
}"""
TIP = """<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>"""


class Way(NamedTuple):
    """An arrow: what it stands for, its path, and where its label is."""

    source: Status
    triggers: tuple[Trigger, ...]
    target: Status
    path: str
    label: tuple[int, int, str]
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


def lifecycle_picture() -> str:
    """Return the picture as SVG."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 300" role="img">',
        "<title>The usual ways of a lane: asked, it calls its model, runs tools or asks for approval</title>",
        f"<style>{STYLE}</style>",
        TIP,
    ]
    for state in STATES:
        x, y = PLACES[state]
        lines.append(f'<rect class="state" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>')
        lines.append(f'<text x="{x + WIDE // 2}" y="{y + HIGH // 2 + 5}">{state}</text>')
    for way in WAYS:
        check(way)
        x, y, side = way.label
        lines.append(f'<path class="way" d="{way.path}"/>')
        for row, words in enumerate(words_of(way)):
            lines.append(f'<text class="label {side}" x="{x}" y="{y + 16 * row}">{escape(words)}</text>')
    lines.append(
        '<text class="label right" x="40" y="24">cancelled: from every state but closed to idle</text></svg>'
    )
    return "\n".join(lines) + "\n"


def check(way: Way) -> None:
    """Raise `ValueError` if the lifecycle has no such way."""
    row = Row(tuple((guard, True) for guard in way.guards), way.target)
    for trigger in way.triggers:
        if row not in TABLE[way.source, trigger]:
            raise ValueError(f"the lifecycle has no way from {way.source} by {trigger}: {row}")


def words_of(way: Way) -> list[str]:
    """Return the lines of a label: the triggers, then the guards."""
    return [", ".join(way.triggers), *([f"[{' and '.join(way.guards)}]"] if way.guards else [])]
