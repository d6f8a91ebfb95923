"""Output of `timeline`: a heading for each voice, a line for each tool, and errors that were retried."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len

from stenolog.apps.cli.lines import Piece, in_words, line, paragraph
from stenolog.apps.cli.terminal import width
from stenolog.domain.values import PositionRange
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.blocks import Block, called, output
from stenolog.projections.views.calls import MARKS
from stenolog.projections.views.context import within
from stenolog.projections.views.edits import files_of
from stenolog.projections.views.lines import USER
from stenolog.projections.views.timeline import TimelineItem

from .layout import wrapped

VOICE = {
    "message": "bold",
    "error": "bold red",
    "cut": "magenta",
    "unknown": "yellow",
    "damaged": "bold red",
}
STATUS = {
    "ok": "green",
    "failed": "red",
    "running": "yellow",
    "awaiting approval": "yellow",
    "awaiting an answer": "yellow",
    "no result": "dim",
}
SIGNS = {"-": "red", "+": "green", " ": "dim", "@": "cyan"}
NOT_SENT = "not sent to the model now"
LINES_OF_OUTPUT = 8
LINES_OF_NOTE = 1
"""The lines of a note that a client wrote by itself, such as a reminder."""


def drawn_timeline(
    items: Iterable[TimelineItem],
    pass_token: str = "",
    *,
    full: bool = False,
    hides: Iterable[PositionRange] = (),
    compacted: Iterable[PositionRange] = (),
    link: Callable[[str], str] = lambda arguments: "",
) -> Iterator[Piece]:
    """Yield the whole timeline. An answer that is only the `pass_token` is shown as a pass.

    `hides` are positions out of context by now, `compacted` those that a summary replaced. Unless `full`,
    long outputs and notes are cut, a run of hidden entries, or of a call's errors, is one line, and the
    settings before the first words come last. `link` returns the end of a call's style from its arguments.
    """
    is_out, is_compacted, rest = within(hides), within(compacted), deque(items)
    settings = [] if full else list(_popped_settings(rest))

    def is_hidden(position: int) -> bool:
        return is_out(position) and not is_compacted(position)

    before, is_said = 0, False
    while rest:
        run = [rest.popleft()]
        if not full:
            run += _popped(rest, run[0], is_hidden)
        if not run[0].hidden:
            is_said = False
        elif len(run) == 1 and not is_said and (last := _last_hidden(rest)):
            yield line((f"{NOT_SENT}: entries {run[0].position} to {last}", "magenta"))
            is_said = True
        if len(run) == 1:
            yield from _item(run[0], pass_token, full, link, is_said=is_said)
        elif run[0].hidden:
            is_rewound = bool(rest) and _is_rewind(rest[0])
            while rest and _is_rewind(rest[0]):
                rest.popleft()
            yield _hidden_run(run, before if is_rewound else None)
        else:
            yield _retries(run)
        if not run[0].hidden and run[0].kind not in ("mode", "cut"):
            before = max(run[-1].position, run[-1].result)
    if settings:
        yield wrapped((f"Settings at the start: {'; '.join(settings)}", "dim"), hang=2)


def _popped_settings(rest: deque[TimelineItem]) -> Iterator[str]:
    """Take the settings with which a conversation begins."""
    while rest and rest[0].kind == "mode":
        yield rest.popleft().detail


def _last_hidden(rest: Iterable[TimelineItem]) -> int:
    """Return the last position of the hidden items that come next; 0 if none does."""
    run = takewhile(lambda item: item.hidden, rest)
    return max((max(item.position, item.result) for item in run), default=0)


def _popped(
    rest: deque[TimelineItem], first: TimelineItem, is_hidden: Callable[[int], bool]
) -> Iterator[TimelineItem]:
    """Take the items that are drawn on one line with this one."""
    if first.hidden and is_hidden(first.position):
        while rest and is_hidden(rest[0].position) and (rest[0].hidden or rest[0].kind == "mode"):
            yield rest.popleft()
    elif author := _retried(first):
        while rest and _retried(rest[0]) == author:
            yield rest.popleft()


def _is_rewind(item: TimelineItem) -> bool:
    return item.kind == "cut" and item.detail.startswith("hides ") and ";" not in item.detail


def _hidden_run(run: Sequence[TimelineItem], before: int | None) -> Piece:
    positions = {position for item in run for position in (item.position, item.result) if position}
    to = "" if before is None else f": rewound to {before or 'the beginning'}"
    where = f"  {min(positions)}-{max(positions)}"
    return line((f"{len(positions)} entries hidden{to}", "magenta"), (where, "dim"), kept=1)


def _item(
    item: TimelineItem, pass_token: str, full: bool, link: Callable[[str], str], *, is_said: bool
) -> Iterator[Piece]:
    """Yield the lines of an item; `is_said`: a line before says that it is hidden."""
    match item.kind:
        case "message" if pass_token and item.text.strip() == pass_token and item.author != "user":
            yield line((f"{item.author} passes  {item.position}", "dim"))
        case "mode":
            yield _mode_rule(item.detail)
        case "tool":
            yield from _tool(item, full, link(item.call.arguments) if item.call else "")
        case "running":
            yield line((f"… {item.author} is {item.detail}", "yellow"))
        case "erased":
            yield line((item.detail, "dim"), (f"  {item.position}", "dim"), kept=1)
        case "message" | "error" | "cut" | "unknown" | "damaged":
            yield from _message(item, full, is_said)


def _retried(item: TimelineItem) -> str:
    return item.author if item.kind == "error" and item.status == "retried" else ""


def _retries(errors: Sequence[TimelineItem]) -> Piece:
    categories = Counter(error.detail.partition(":")[0].replace("_", " ") for error in errors)
    several = len(categories) > 1
    why = ", ".join(f"{count} {name}" if several else name for name, count in categories.items())
    where = f"  {errors[0].position}-{errors[-1].position}"
    retries = (f"  {len(errors)} retries: {why}", "red")
    return line((errors[0].author or "?", VOICE["error"]), retries, (where, "dim"), kept=1)


def _mode_rule(detail: str) -> Piece:
    cells = width()
    if cells is None:
        return line((detail, "magenta"))
    if cell_len(one_line(detail)) + len(" ─") > cells:
        return wrapped((detail, "magenta"), hang=2)
    shown = one_line(detail)
    return line((shown, "magenta"), (f" {'─' * (cells - cell_len(shown) - 1)}", "dim"))


def _message(item: TimelineItem, full: bool, is_said: bool) -> Iterator[Piece]:
    named = [name for name in item.to if name not in (item.author, USER)]
    to = f" → {', '.join(named)}" if named else ""
    detail = f"  {item.detail}" if item.detail else ""
    hidden = f" ({NOT_SENT})" if item.hidden and not is_said else ""
    where, style = f"  {item.position}{hidden}", "red" if item.kind == "error" else "dim"
    is_long = cell_len(one_line(f"{item.author}{to}{detail}")) + len(where) + 2 > (width() or sys.maxsize)
    yield line(
        (item.author or "?", _style(item)), to, "" if is_long else (detail, style), (where, "dim"), kept=1
    )
    if is_long and detail:
        yield paragraph(item.detail, style, indent=2)
    words = item.text or in_words(item.parts)
    if words:
        is_note = item.kind == "message" and item.author == "system"
        most = LINES_OF_NOTE if is_note and not full else None
        yield paragraph(words.lstrip("\n"), "dim" if item.hidden else "", indent=2, lines=most)


def _style(item: TimelineItem) -> str:
    if item.kind == "message":
        return "bold green" if item.author == "user" else "bold cyan"
    return VOICE[item.kind]


def _tool(item: TimelineItem, full: bool, link: str) -> Iterator[Piece]:
    mark, style = MARKS.get(item.status, "·"), STATUS.get(item.status, "")
    gist, given = called(item.call) if item.call else ("", ())
    is_whole = full or width() is None or not gist
    words = f"{item.call.name} {item.call.arguments if is_whole else gist}" if item.call else item.detail
    where = f"  {item.position}" + (
        f", {item.result}" if item.result != item.position and item.result else ""
    )
    if full:
        yield wrapped((f"{mark} ", style), (words, f"blue{link}"), (where, "dim"), indent=2, hang=2)
    else:
        yield line("  ", (f"{mark} ", style), (words, f"blue{link}"), (where, "dim"), kept=1)
    for block in given:
        if block.kind == "diff":
            yield from _diff(block, full)
    if item.note and item.call:
        yield line("    ", (item.note, style))
    for block in output(item.output, item.call):
        if block.kind == "diff":
            yield from _diff(block, full)
        else:
            shown = in_words([item.output[block.part]]) if block.kind == "picture" else block.text
            yield paragraph(shown, "dim", indent=4, lines=None if full else LINES_OF_OUTPUT)


def _diff(block: Block, full: bool) -> Iterator[Piece]:
    shown = block.lines if full else block.lines[:LINES_OF_OUTPUT]
    for sign, text in shown:
        yield line("    ", ("" if sign == "@" else f"{sign} ", SIGNS[sign]), (text, SIGNS[sign]))
    if more := len(block.lines) - len(shown):
        yield line("    ", (f"… {more} more line{'s' * (more > 1)}", "dim"))


def files_line(items: Iterable[TimelineItem]) -> Iterator[Piece]:
    """Yield a line on the files that calls changed, if they changed any."""
    found = files_of(items)
    each = (f"{file.path} +{file.added:,} -{file.removed:,}" for file in found.files)
    if found.files:
        yield wrapped((f"Files: {found.in_words}: {', '.join(each)}", "dim"), hang=2)
