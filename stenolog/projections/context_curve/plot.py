"""Picture of a lane's context over time, as SVG.

It has no script and no attribute `style`; its colours are the classes of `STYLE`, which a page loads, and a
file of its own includes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from .samples import MARK_WORDS, Mark, MarkKind, Sample

WIDE, HIGH = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 46, 34
COLUMNS = 160
"""Places beside each other that can be seen apart; a link goes to the request of each."""
NOTE, NOTE_WIDE = 19, 130
"""The letters and the room of a note."""
DOTS = 60
"""Up to so many calls, each has a dot."""
STYLE = """\
.context-plot { --billed: #0b57b8; --cached: #a9d8b8; --rebuilt: #b45309; --limit: #b3141c; --ink: #1a1a1a;
  --faint: #5a6270; --grid: #d8dce2; --paper: #fff; --note: #7a4b00; font: 12px system-ui, sans-serif;
  background: var(--paper); }
@media (prefers-color-scheme: dark) { .context-plot { --billed: #7db4ff; --cached: #24563a;
  --rebuilt: #f0a860; --limit: #ff8a8a; --ink: #e6e6e6; --faint: #9aa4b2; --grid: #343a44;
  --paper: #14161a; --note: #f0c070; } }
.context-plot text { fill: var(--faint); } .context-plot .end { text-anchor: end; }
.context-plot .middle { text-anchor: middle; } .context-plot .grid { stroke: var(--grid); stroke-width: 1; }
.context-plot .cached { fill: var(--cached); } .context-plot .line { fill: none; stroke-width: 1.6; }
.context-plot .billed { stroke: var(--billed); } .context-plot .rebuilt { stroke: var(--rebuilt); }
.context-plot .limit { stroke: var(--limit); stroke-dasharray: 6 4; }
.context-plot .dot { fill: var(--paper); stroke-width: 1.4; } .context-plot .mark path { fill: var(--ink); }
.context-plot .mark line { stroke: var(--ink); stroke-dasharray: 2 3; opacity: .55; }
.context-plot .failed { fill: none; stroke: var(--limit); stroke-width: 1.8; }
.context-plot .note text { fill: var(--note); paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.context-plot .note line { stroke: var(--note); stroke-dasharray: 1 3; }
.context-plot .here { stroke: var(--ink); stroke-width: 1.2; } .context-plot .hit { fill: transparent; }
.context-plot a:is(:hover, :focus) .hit { fill: var(--billed); fill-opacity: .16; }
"""
SHAPES: dict[MarkKind, str] = {
    "cut": "M-5 -4h10L0 5z",
    "compaction": "M0 -6 6 0 0 6 -6 0z",
    "reset": "M-5 -5h10v10h-10z",
    "rewind": "M4 -5v10l-9 -5z",
}
"""The shape of each mark, for those who see no colours."""


class Note(NamedTuple):
    """Words at a position of the picture, in two lines."""

    position: int
    first: str
    second: str


Link = Callable[[int], str]
"""Gives the address of the request at a position."""


class Scales(NamedTuple):
    """The number of entries, and of tokens, that the axes reach to."""

    head: int
    most: int

    def x(self, position: int) -> float:
        """Return the place of a position."""
        return LEFT + (WIDE - LEFT - RIGHT) * position / max(self.head, 1)

    def y(self, tokens: int) -> float:
        """Return the place of a number of tokens."""
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * min(tokens / self.most, 1)

    def column(self, position: int) -> int:
        """Return the column that a position falls into."""
        return min(position * COLUMNS // max(self.head, 1), COLUMNS - 1)


def plot(
    samples: Sequence[Sample],
    marks: Sequence[Mark],
    head: int,
    title: str,
    *,
    link: Link | None = None,
    at: int = 0,
    standalone: bool = True,
    notes: Sequence[Note] = (),
) -> str:
    """Return the picture of a conversation of `head` entries.

    Of `notes` too near to each other the first is shown.

    `link` None: nothing in it can be clicked. `at` marks the reader's position; 0: none. `standalone`:
    include the style.
    """
    largest = max((max(each.size, each.tokens or 0, each.budget or 0) for each in samples), default=0)
    step = nice_step(largest)
    scales = Scales(head, max(step, -(-largest // step) * step))
    shown = thinned(samples, scales)
    role = "img" if link is None else "group"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="context-plot" viewBox="0 0 {WIDE} {HIGH}" '
        f'role="{role}" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *([f"<style>{STYLE}</style>"] if standalone else []),
        *_grid(scales, step),
        *_series(shown, scales),
        *_failures(samples, scales),
        *_legend(samples, marks),
        *([_line("here", scales.x(at), TOP, HIGH - BOTTOM)] if at else []),
        *(_hits(samples, scales, link) if link else []),
        *_marks(marks, scales, link),
        *_notes(notes, scales),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def thinned(samples: Sequence[Sample], scales: Scales) -> list[Sample]:
    """Return the smallest and the largest sample of each column, in their order."""
    kept: dict[int, list[Sample]] = {}
    for sample in samples:
        kept.setdefault(scales.column(sample.position), []).append(sample)
    found: list[Sample] = []
    for each in kept.values():
        ends = {min(each, key=lambda one: one.size), max(each, key=lambda one: one.size), each[-1]}
        found.extend(sorted(ends))
    return found


def nice_step(largest: int, ticks: int = 5) -> int:
    """Return a step of 1, 2 or 5 times a power of ten, so that about so many reach a number."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if step * ticks >= largest:
                return step
        power *= 10


def brief(number: int) -> str:
    """Return a number for an axis.

    >>> brief(20_000), brief(1_500_000), brief(2_500)
    ('20k', '1.5M', '2.5k')
    """
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return str(number)


def _grid(scales: Scales, step: int) -> Iterator[str]:
    for tokens in range(0, scales.most + 1, step):
        y = scales.y(tokens)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDE - RIGHT}"/>'
        yield f'<text class="end" x="{LEFT - 8}" y="{y + 4:.1f}">{brief(tokens)}</text>'
    for position in range(0, scales.head + 1, nice_step(scales.head, 8)):
        x = scales.x(position)
        if position and x < WIDE - RIGHT - 60:
            yield f'<text class="middle" x="{x:.1f}" y="{HIGH - BOTTOM + 17}">{position:,}</text>'
    yield f'<text class="end" x="{WIDE - RIGHT}" y="{HIGH - BOTTOM + 17}">entry {scales.head:,}</text>'


def _series(shown: Sequence[Sample], scales: Scales) -> Iterator[str]:
    cached = [(each.position, each.cached) for each in shown if each.cached is not None]
    billed = [(each.position, each.billed) for each in shown if each.billed is not None]
    rebuilt = [(each.position, each.tokens) for each in shown if each.tokens is not None]
    if cached:
        bottom = scales.y(0)
        first, last = scales.x(cached[0][0]), scales.x(cached[-1][0])
        yield f'<path class="cached" d="{_path(cached, scales)}L{last:.1f} {bottom:.1f}H{first:.1f}z"/>'
    yield from _limits(shown, scales)
    for name, points in (("rebuilt", rebuilt), ("billed", billed)):
        if points:
            yield f'<path class="line {name}" d="{_path(points, scales)}"/>'
        if len(shown) <= DOTS:
            for position, tokens in points:
                place = f'cx="{scales.x(position):.1f}" cy="{scales.y(tokens):.1f}"'
                yield f'<circle class="dot {name}" {place} r="2.6"/>'


def _path(points: Iterable[tuple[int, int]], scales: Scales) -> str:
    return "M" + "L".join(f"{scales.x(position):.1f} {scales.y(tokens):.1f}" for position, tokens in points)


def _limits(shown: Sequence[Sample], scales: Scales) -> Iterator[str]:
    begun: Sample | None = None
    for sample, after in zip(shown, [*shown[1:], None], strict=False):
        begun = begun or sample
        if after is None or after.budget != begun.budget:
            if begun.budget is not None:
                end = scales.x(after.position if after else scales.head)
                y = scales.y(begun.budget)
                yield f'<path class="line limit" d="M{scales.x(begun.position):.1f} {y:.1f}H{end:.1f}"/>'
            begun = None


def _failures(samples: Iterable[Sample], scales: Scales) -> Iterator[str]:
    failed = {scales.column(each.position): each.position for each in samples if each.is_api_error}
    for position in failed.values():
        yield f'<path class="failed" d="M{scales.x(position) - 4:.1f} {HIGH - BOTTOM - 9}l8 8m0 -8l-8 8"/>'


def _legend(samples: Sequence[Sample], marks: Sequence[Mark]) -> Iterator[str]:
    has = {
        "billed": any(each.billed is not None for each in samples),
        "rebuilt": any(each.tokens is not None for each in samples),
        "limit": any(each.budget is not None for each in samples),
    }
    words = {"billed": "billed input", "rebuilt": "rebuilt from the log", "limit": "budget"}
    x = LEFT
    for name in [name for name, is_there in has.items() if is_there]:
        yield f'<path class="line {name}" d="M{x} 14h20"/><text x="{x + 26}" y="18">{words[name]}</text>'
        x += 42 + 7 * len(words[name])
    if any(each.cached for each in samples):
        yield f'<path class="cached" d="M{x} 8h20v12h-20z"/><text x="{x + 26}" y="18">read from cache</text>'
        x += 42 + 7 * len("read from cache")
    if any(each.is_api_error for each in samples):
        yield f'<path class="failed" d="M{x + 6} 10l8 8m0 -8l-8 8"/>'
        yield f'<text x="{x + 22}" y="18">API error</text>'
        x += 38 + 7 * len("API error")
    for kind in [kind for kind in MARK_WORDS if any(mark.kind == kind for mark in marks)]:
        shape = f'<path d="{SHAPES[kind]}" transform="translate({x + 8} 14)"/>'
        yield f'<g class="mark">{shape}<text x="{x + 20}" y="18">{kind}</text></g>'
        x += 36 + 7 * len(kind)


def _hits(samples: Sequence[Sample], scales: Scales, link: Link) -> Iterator[str]:
    largest: dict[int, Sample] = {}
    for sample in samples:
        at = scales.column(sample.position)
        if at not in largest or sample.size > largest[at].size:
            largest[at] = sample
    wide = (WIDE - LEFT - RIGHT) / COLUMNS
    for at, sample in largest.items():
        place = f'x="{LEFT + at * wide:.1f}" y="{TOP}" width="{wide:.1f}" height="{HIGH - TOP - BOTTOM}"'
        words = escape(sample_words(sample))
        # A reader with a keyboard has the table: a hundred stops on the way to it would be no help.
        yield (
            f'<a href="{escape(link(sample.at))}" tabindex="-1" aria-label="{words}">'
            f'<rect class="hit" {place}/><title>{words}</title></a>'
        )


def sample_words(sample: Sample) -> str:
    """Return a sample in words."""
    told = [f"entry {sample.position:,}"]
    if sample.tokens is not None:
        told.append(f"{sample.tokens:,} tokens rebuilt")
    if sample.billed is not None:
        told.append(f"{sample.billed:,} billed")
    if sample.cached:
        told.append(f"{sample.cached:,} from cache")
    if sample.failed:
        told.append(f"failed: {sample.failed}" if sample.is_api_error else sample.failed)
    return ", ".join(told)


def _marks(marks: Sequence[Mark], scales: Scales, link: Link | None) -> Iterator[str]:
    together: dict[tuple[int, MarkKind], list[Mark]] = {}
    for mark in marks:
        together.setdefault((scales.column(mark.position), mark.kind), []).append(mark)
    for (_, kind), found in together.items():
        first, x = found[0], scales.x(found[0].position)
        words = f"{kind} at {first.position:,}: {first.words}"
        if len(found) > 1:
            words = f"{len(found)} times {kind}, from {first.position:,} to {found[-1].position:,}"
        shape = f'<path d="{SHAPES[kind]}" transform="translate({x:.1f} {TOP - 8})"/>'
        inner = f"{_line('', x, TOP, HIGH - BOTTOM)}{shape}<title>{escape(words)}</title>"
        if link is not None:
            address = escape(link(first.position))
            inner = f'<a href="{address}" tabindex="-1" aria-label="{escape(words)}">{inner}</a>'
        yield f'<g class="mark">{inner}</g>'


def _notes(notes: Iterable[Note], scales: Scales) -> Iterator[str]:
    placed: list[float] = []
    for note in notes:
        x = scales.x(note.position)
        if any(abs(x - other) < NOTE_WIDE for other in placed):
            continue
        placed.append(x)
        middle = min(max(x, LEFT + NOTE_WIDE / 2), WIDE - RIGHT - NOTE_WIDE / 2)
        words = (note.first, note.second if len(note.second) <= NOTE else f"{note.second[: NOTE - 1]}…")
        texts = "".join(
            f'<text class="middle" x="{middle:.1f}" y="{TOP + 12 + 14 * nth}">{escape(each)}</text>'
            for nth, each in enumerate(words)
        )
        yield f'<g class="note">{_line("", x, TOP + 30, HIGH - BOTTOM)}{texts}</g>'


def _line(name: str, x: float, top: int, bottom: int) -> str:
    named = f' class="{name}"' if name else ""
    return f'<line{named} x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
