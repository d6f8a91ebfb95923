"""A timeline as a person reads it: a heading for each voice, its words below, tools as cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.rule import Rule
from rich.text import Text

from stenolog.projections.terminal_text import one_line
from stenolog.projections.timeline import TimelineItem

from .lines import Piece, line, paragraph
from .words import in_words

VOICE = {"message": "bold", "error": "bold red", "cut": "magenta", "unknown": "yellow", "erased": "dim"}
STATUS = {
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "running": ("…", "yellow"),
    "awaiting approval": ("?", "yellow"),
    "no result": ("-", "dim"),
}
LINES_OF_OUTPUT = 8


def drawn(items: Iterable[TimelineItem], pass_token: str = "") -> Iterator[Piece]:
    """The whole timeline. An answer that is but the `pass_token` is shown as a pass."""
    for item in items:
        match item.kind:
            case "message" if pass_token and item.text.strip() == pass_token and item.author != "user":
                yield line((f"{item.author} passes  {item.position}", "dim"))
            case "mode":
                yield Rule(Text(one_line(item.detail), style="magenta"), style="dim", align="left")
            case "tool":
                yield from _tool(item)
            case "running":
                yield line((f"… {item.author} is {item.detail}", "yellow"))
            case "message" | "error" | "cut" | "unknown" | "erased":
                yield from _message(item)


def _message(item: TimelineItem) -> Iterator[Piece]:
    to = f" → {', '.join(item.to)}" if item.to else ""
    detail = f"  {item.detail}" if item.detail else ""
    hidden = "  (out of context)" if item.hidden else ""
    yield line(
        (item.author or "?", _style(item)),
        to,
        (detail, "red" if item.kind == "error" else "dim"),
        (f"  {item.position}{hidden}", "dim"),
    )
    said = item.text or in_words(item.parts)
    if said:
        yield paragraph(said, "dim" if item.hidden else "", indent=2)


def _style(item: TimelineItem) -> str:
    if item.kind == "message":
        return "bold green" if item.author == "user" else "bold cyan"
    return VOICE[item.kind]


def _tool(item: TimelineItem) -> Iterator[Piece]:
    mark, style = STATUS.get(item.status, ("·", ""))
    called = f"{item.call.name} {item.call.arguments}" if item.call else item.detail
    where = f"  {item.position}" + (
        f", {item.result}" if item.result != item.position and item.result else ""
    )
    yield line("  ", (f"{mark} ", style), (called, "blue"), (where, "dim"))
    if item.output:
        output = in_words(item.output)
        yield paragraph(output, "dim", indent=4, lines=LINES_OF_OUTPUT)
