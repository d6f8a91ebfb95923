"""Pieces of a drawing, and results of commands, drawn for people or printed as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from stenolog.adapters.conversation.queries.plain_json import entry_data as entry_data
from stenolog.adapters.conversation.queries.plain_json import when as when
from stenolog.apps.views.envelope import Diagnostic as Diagnostic
from stenolog.apps.views.envelope import Severity as Severity
from stenolog.apps.views.envelope import envelope as envelope
from stenolog.apps.views.figures import counted as counted
from stenolog.domain.events import AssistantMessage
from stenolog.domain.lanes.turn_taking import is_pass
from stenolog.domain.values import TurnPolicy
from stenolog.projections.terminal_text import one_line, safe
from stenolog.projections.views.lines import Description as Description
from stenolog.projections.views.lines import describe as describe
from stenolog.projections.views.lines import in_words as in_words
from stenolog.projections.views.lines import thoughts as thoughts


class Drawing(Protocol):
    """Something of several lines, such as a table. Its `note`, if any, says what it has left out."""

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        """Yield its lines; `width` is in cells, None for a pipe."""


Piece: TypeAlias = "str | TextLine | Drawing"
"""A piece of a drawing: a line, several lines, or a string that is printed as it is."""

CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class TextLine(NamedTuple):
    """One line of safe pieces, each with its style (words of `CODES`); the last `kept` are never cut."""

    pieces: tuple[tuple[str, str], ...]
    kept: int = 0

    def rendered(self, width: int | None, *, coloured: bool) -> str:
        """Return the line, cut with an ellipsis at `width` cells; None: never cut."""
        text = "".join(words for words, _ in self.pieces)
        if width is not None and (len(text) > width or not text.isascii()):
            return self._cut(width, coloured)
        return "".join(styled(words, style) for words, style in self.pieces) if coloured else text.rstrip()

    def _cut(self, width: int, coloured: bool) -> str:
        from rich.cells import cell_len, set_cell_size

        # A character has a cell at least, marks above letters aside: no more than this is ever shown.
        most = 4 * width
        sizes = [cell_len(words) if len(words) <= most else len(words) for words, _ in self.pieces]
        too_wide = sum(sizes) > width
        if too_wide and self.kept:
            begun, end = TextLine(self.pieces[: -self.kept]), TextLine(self.pieces[-self.kept :])
            room = max(1, width - sum(sizes[-self.kept :]))
            return begun._cut(room, coloured) + end.rendered(None, coloured=coloured)
        left = width - 1 if too_wide else width
        shown = []
        for (words, style), size in zip(self.pieces, sizes, strict=True):
            kept = words if size <= left else f"{set_cell_size(words[:most], left).rstrip()}…"
            shown.append(styled(kept, style) if coloured else kept)
            left -= size
            if left < 0:
                break
        return "".join(shown).rstrip()


class Note(NamedTuple):
    """A note on a drawing: a person reads it after the drawing, a program not at all."""

    note: str

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        return iter(())


class Paragraph(NamedTuple):
    """Text that wraps between words; nothing is left out.

    Its lines begin after `indent` cells; `lead` is a title there on the first.
    """

    text: str
    style: str = ""
    indent: int = 0
    lead: str = ""

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        """Yield its lines lazily, so that a pager shows the first page at once.

        `width` is in cells; None: no limit.
        """
        lead = f"{self.lead:<{self.indent}}"
        if coloured and self.lead:
            lead = styled(lead, "dim")
        for row in _rows(self.text):
            for shown in (row,) if width is None else _folded(row, max(1, width - self.indent)):
                yield f"{lead}{styled(shown, self.style) if coloured else shown}".rstrip(" ")
                lead = " " * self.indent


def paragraph(text: str, style: str = "", *, indent: int = 0, lines: int | None = None) -> Paragraph:
    """Return text that wraps; only its first `lines` lines if given."""
    shown = safe(text).rstrip().expandtabs(4)
    more = 0 if lines is None else shown.count("\n") + 1 - lines
    if more > 0:
        shown = "\n".join([*shown.split("\n", lines or 0)[:lines], f"… {more} more line{'s' * (more > 1)}"])
    return Paragraph(shown, style, indent)


def field(name: str, value: str, indent: int) -> Paragraph:
    """Return a named value as a paragraph; the name is padded to `indent` cells."""
    return paragraph(value, indent=indent)._replace(lead=one_line(name))


def _rows(text: str) -> Iterator[str]:
    """Yield a text's lines lazily, unlike `split`."""
    begin = 0
    while (end := text.find("\n", begin)) >= 0:
        yield text[begin:end]
        begin = end + 1
    yield text[begin:]


def _folded(row: str, room: int) -> Iterator[str]:
    return (row[begin:end] for begin, end in breaks(row, room))


def breaks(row: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield where each line of a text begins and ends: between words; a word wider than `room` is cut."""
    begin = 0
    while (end := _fits(row, begin, room)) < len(row):
        blank = end if row[end] == " " else row.rfind(" ", begin, end)
        if blank > begin and row[begin:blank].strip():
            end = blank
        yield begin, begin + len(row[begin:end].rstrip())
        while end < len(row) and row[end] == " ":
            end += 1
        begin = end
    yield begin, len(row)


def _fits(row: str, begin: int, room: int) -> int:
    """Return where a piece of so many cells ends."""
    if len(row) - begin <= room and row.isascii():
        return len(row)
    piece = row[begin : begin + 2 * room]
    if piece.isascii():
        return begin + min(room, len(piece))
    from rich.cells import chop_cells

    return begin + len(chop_cells(piece, room)[0])


def line(*pieces: str | tuple[str, str], kept: int = 0) -> TextLine:
    """Return a line of pieces, each with its style. Only blanks at their ends stay.

    If the line is too wide, the last `kept` pieces stay whole.
    """
    pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
    return TextLine(tuple((_kept_blanks(words), style) for words, style in pairs if words), kept)


def _kept_blanks(words: str) -> str:
    inner = one_line(words)
    if not inner:
        return " " * len(words)
    left = len(words) - len(words.lstrip(" "))
    right = len(words) - len(words.rstrip(" "))
    return " " * left + inner + " " * right


def shortened(words: str, cells: int) -> str:
    """Return one line, with an ellipsis in the middle above so many cells."""
    whole = one_line(words)
    if len(whole) <= cells and whole.isascii():
        return whole
    from rich.cells import cell_len, set_cell_size

    if cell_len(whole) <= cells:
        return whole
    behind = (cells - 1) // 2
    front = set_cell_size(whole, cells - 1 - behind).rstrip()
    return f"{front}…{set_cell_size(whole[::-1], behind)[::-1].lstrip()}"


def styled(words: str, style: str) -> str:
    """Return safe words in a style, which may end with `link URL`."""
    style, _, url = style.partition("link ")
    codes = ";".join(CODES[word] for word in style.split())
    shown = f"\x1b[{codes}m{words}\x1b[0m" if codes and words.strip() else words
    return f"\x1b]8;;{url}\x1b\\{shown}\x1b]8;;\x1b\\" if url and words.strip() else shown


def new_entries(appended: int, already: int) -> str:
    """Return how many entries are new, and how many the log had."""
    if not already:
        return counted(appended, "entry", "entries")
    return f"{counted(appended, 'new entry', 'new entries')} ({already:,} already there)"


def passes(answer: AssistantMessage, turns: TurnPolicy | None) -> bool:
    """Return whether an answer only passes the turn on."""
    token = pass_token(turns)
    return bool(token) and is_pass(answer, token)


def pass_token(turns: TurnPolicy | None) -> str:
    """Return a turn policy's passing token, or ""."""
    token = turns.options.get("pass_token") if turns is not None else None
    return token if isinstance(token, str) else ""


STYLES = {
    "user_message": "green",
    "assistant_message": "cyan",
    "tool_result": "blue",
    "llm_error": "red",
    "mode_switch": "magenta",
    "unknown": "yellow",
    "damaged": "bold red",
}


MENDED = (
    "`stenolog db restore BACKUP` puts a backup in its place; "
    "`stenolog db salvage FILE NEW` writes what is intact in FILE into a new database"
)
"""The commands that help if a database is damaged."""


def nothing() -> Iterable[Piece]:
    """Return an empty drawing."""
    return ()


class CommandResult(NamedTuple):
    """Result of a command.

    `data` is for `--json`, or a function that makes it. `draw` makes what a person sees; a string is printed
    unchanged. `failed`: the command's check failed. `streams`: data comes in pieces, each in its own
    envelope. `messages` replace the diagnostics for a person. `closing` comes last. `checked` are the files
    or conversations of a check, `fails` the severities that fail one.
    """

    data: object = None
    draw: Callable[[], Iterable[Piece]] = nothing
    failed: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    streams: bool = False
    messages: tuple[Diagnostic, ...] | None = None
    closing: tuple[Piece, ...] = ()
    checked: tuple[str, ...] = ()
    fails: tuple[Severity, ...] = ("error",)


def done(words: str, **data: object) -> CommandResult:
    """Return the result of a success: a confirmation, and its data."""

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), words, kept=2)  # in full: it may end with a path

    return CommandResult(data, draw)
