"""Output of `timeline`: a heading for each voice, a line for each tool, and errors that were tried again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.rule import Rule
from rich.text import Text

from stenolog.projections.describe import USER
from stenolog.projections.terminal_text import one_line
from stenolog.projections.timeline import TimelineItem

from .layout import wrapped
from .lines import Piece, in_words, line, paragraph
from .terminal import width

VOICE = {
    "message": "bold",
    "error": "bold red",
    "cut": "magenta",
    "unknown": "yellow",
    "damaged": "bold red",
}
STATUS = {
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "running": ("…", "yellow"),
    "awaiting approval": ("?", "yellow"),
    "no result": ("-", "dim"),
}
LINES_OF_OUTPUT = 8


def drawn_timeline(
    items: Iterable[TimelineItem], pass_token: str = "", *, full: bool = False
) -> Iterator[Piece]:
    """Yield the whole timeline. An answer that is but the `pass_token` is shown as a pass.

    Unless `full`, long outputs are cut, and the errors of one call that was tried again are one line.
    """
    for author, group in groupby(items, _retried):
        retries = list(group) if author and not full else []
        if len(retries) > 1:
            yield _retries(retries)
            continue
        for item in retries or group:
            yield from _item(item, pass_token, full)


def _item(item: TimelineItem, pass_token: str, full: bool) -> Iterator[Piece]:
    match item.kind:
        case "message" if pass_token and item.text.strip() == pass_token and item.author != "user":
            yield line((f"{item.author} passes  {item.position}", "dim"))
        case "mode":
            yield _mode_rule(item.detail)
        case "tool":
            yield from _tool(item, full)
        case "running":
            yield line((f"… {item.author} is {item.detail}", "yellow"))
        case "erased":
            yield line((item.detail, "dim"), (f"  {item.position}", "dim"), kept=1)
        case "message" | "error" | "cut" | "unknown" | "damaged":
            yield from _message(item)


def _retried(item: TimelineItem) -> str:
    """Return the agent whose call was tried again after this error; empty for all else."""
    return item.author if item.kind == "error" and item.status == "retried" else ""


def _retries(errors: Sequence[TimelineItem]) -> Piece:
    """Return one line for several errors of a call: 3 retries: rate limited."""
    categories = Counter(error.detail.partition(":")[0].replace("_", " ") for error in errors)
    several = len(categories) > 1
    why = ", ".join(f"{count} {name}" if several else name for name, count in categories.items())
    where = f"  {errors[0].position}-{errors[-1].position}"
    said = (f"  {len(errors)} retries: {why}", "red")
    return line((errors[0].author or "?", VOICE["error"]), said, (where, "dim"), kept=1)


def _mode_rule(detail: str) -> Piece:
    """Return a rule across the terminal; its words alone in a pipe, and folded where they are too long."""
    cells = width()
    if cells is None:
        return line((detail, "magenta"))
    if cell_len(one_line(detail)) + len(" ─") > cells:
        return wrapped((detail, "magenta"), hang=2)
    return Rule(Text(one_line(detail), style="magenta"), style="dim", align="left")


def _message(item: TimelineItem) -> Iterator[Piece]:
    named = [name for name in item.to if name not in (item.author, USER)]
    to = f" → {', '.join(named)}" if named else ""
    detail = f"  {item.detail}" if item.detail else ""
    hidden = "  (out of context)" if item.hidden else ""
    where, style = f"  {item.position}{hidden}", "red" if item.kind == "error" else "dim"
    is_long = cell_len(one_line(f"{item.author}{to}{detail}")) + len(where) + 2 > (width() or sys.maxsize)
    yield line(
        (item.author or "?", _style(item)), to, "" if is_long else (detail, style), (where, "dim"), kept=1
    )
    if is_long and detail:
        yield paragraph(item.detail, style, indent=2)
    said = item.text or in_words(item.parts)
    if said:
        yield paragraph(said.lstrip("\n"), "dim" if item.hidden else "", indent=2)


def _style(item: TimelineItem) -> str:
    if item.kind == "message":
        return "bold green" if item.author == "user" else "bold cyan"
    return VOICE[item.kind]


def _tool(item: TimelineItem, full: bool) -> Iterator[Piece]:
    mark, style = STATUS.get(item.status, ("·", ""))
    called = f"{item.call.name} {item.call.arguments}" if item.call else item.detail
    where = f"  {item.position}" + (
        f", {item.result}" if item.result != item.position and item.result else ""
    )
    if full:
        yield wrapped((f"{mark} ", style), (called, "blue"), (where, "dim"), indent=2, hang=2)
    else:
        yield line("  ", (f"{mark} ", style), (called, "blue"), (where, "dim"), kept=1)
    if item.output:
        yield paragraph(in_words(item.output), "dim", indent=4, lines=None if full else LINES_OF_OUTPUT)
