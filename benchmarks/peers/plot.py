"""The plot: milliseconds of a turn against its number, both logarithmic; an SVG for light and dark pages."""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 76, 270, 46, 54
GAP = 17
"""Pixels between two names, at least."""
STYLE = """\
svg { font: 13px system-ui, sans-serif; background: #fff }
text { fill: #24292f } .quiet { fill: #57606a } .grid { stroke: #d8dee4 } .leader { stroke: #afb8c1 }
.line { fill: none; stroke-width: 1.6 } .floor { stroke-dasharray: 5 4 } .ours { stroke-width: 3.4 }
.bold { font-weight: 700 }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117 }
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #2a313a } .leader { stroke: #4b535d }
}"""
HUES = {"floor": "#7d8590", "ours": "#1a9e6b"}
OTHERS = (
    "#d9622b", "#b8860b", "#c2418f", "#7a6ff0", "#3b86d8", "#d14b4b", "#6f9a1f", "#1f9fb5", "#a0703c",
)  # fmt: skip
"""Of a middle lightness: they stand out on white and on black."""


class Line(NamedTuple):
    """A line: its name, (number of the turn, milliseconds) for each point, and floor, ours or other."""

    name: str
    points: list[tuple[float, float]]
    kind: str = "other"


def plot(lines: list[Line], title: str, note: str) -> str:
    """Return the picture of lines that have at least a point."""
    lines = [line for line in lines if line.points]
    across = Scale([x for line in lines for x, _ in line.points], LEFT, WIDTH - RIGHT)
    up = Scale([y for line in lines for _, y in line.points], HEIGHT - BOTTOM, TOP)
    body = [*grid(across, up), *drawn(lines, across, up)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<text x="{LEFT}" y="24" class="bold">{escape(title)}</text>',
            *body,
            f'<text x="{LEFT}" y="{HEIGHT - 10}" class="quiet">{escape(note)}</text>',
            "</svg>\n",
        ]
    )


class Scale:
    """Numbers to pixels, by their logarithms; a little air on both sides."""

    def __init__(self, numbers: list[float], first: float, last: float) -> None:
        self.least, self.most = min(numbers) / 1.25, max(numbers) * 1.25
        self.first, self.last = first, last

    def __call__(self, number: float) -> float:
        share = math.log(number / self.least) / math.log(self.most / self.least)
        return round(self.first + share * (self.last - self.first), 1)

    def ticks(self, steps: tuple[int, ...] = (1,)) -> list[float]:
        """Return the powers of ten that are in it, times each step."""
        decades = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in ticks if self.least <= tick <= self.most]


def grid(across: Scale, up: Scale) -> list[str]:
    """Return the lines behind, with their numbers."""
    drawn = []
    for x in (10.0, 100.0, 1_000.0, 4_000.0):
        if across.least <= x <= across.most:
            place = across(x)
            drawn.append(f'<line class="grid" x1="{place}" x2="{place}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
            drawn.append(label(place, HEIGHT - BOTTOM + 18, f"turn {x:,.0f}", "quiet", "middle"))
    powers = up.ticks()
    for y in powers if len(powers) > 1 else up.ticks((1, 2, 5)):
        place = up(y)
        drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}"/>')
        drawn.append(label(LEFT - 8, place + 4, f"{y:,.0f} ms" if y >= 1 else f"{y:g} ms", "quiet", "end"))
    return drawn


def drawn(lines: list[Line], across: Scale, up: Scale) -> list[str]:
    """Return the lines, each with its name on the right; what is ours on top."""
    names = spread([up(line.points[-1][1]) for line in lines])
    others = iter(OTHERS * len(lines))
    colours = [HUES.get(line.kind) or next(others) for line in lines]
    made = []
    for line, colour, name_y in sorted(
        zip(lines, colours, names, strict=True), key=lambda each: each[0].kind == "ours"
    ):
        places = [(across(x), up(y)) for x, y in line.points]
        path = " ".join(f"{x},{y}" for x, y in places)
        made.append(f'<polyline class="line {line.kind}" stroke="{colour}" points="{path}"/>')
        made += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        made.append(f'<line class="leader" x1="{x + 5}" y1="{y}" x2="{WIDTH - RIGHT + 12}" y2="{name_y}"/>')
        style = "bold" if line.kind == "ours" else ""
        made.append(label(WIDTH - RIGHT + 16, name_y + 4, line.name, style, fill=colour))
    return made


def spread(wanted: list[float]) -> list[float]:
    """Return places as near to the wanted ones as they can be without touching."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    places = [0.0] * len(wanted)
    lowest = -math.inf
    for index in order:
        places[index] = lowest = max(wanted[index], lowest + GAP)
    limit = HEIGHT - BOTTOM + 6.0
    for index in reversed(order):
        places[index] = limit = min(places[index], limit)
        limit -= GAP
    return [round(place, 1) for place in places]


def label(x: float, y: float, text: str, style: str = "", anchor: str = "start", fill: str = "") -> str:
    """Return a piece of text."""
    colour = f' style="fill:{fill}"' if fill else ""
    return f'<text x="{x}" y="{y}" class="{style}" text-anchor="{anchor}"{colour}>{escape(text)}</text>'
