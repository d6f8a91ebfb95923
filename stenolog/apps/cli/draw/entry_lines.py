"""Entries of a log, one a line: position, time, kind, who, and what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.apps.cli.arguments.position import KINDS
from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import STYLES, Note, Piece, TextLine, counted, line, shortened
from stenolog.apps.cli.terminal import width
from stenolog.apps.views.calls import NEAR, result_of
from stenolog.domain.entry import EPOCH, Entry
from stenolog.domain.erasure import is_erased
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.values import CallRef, Control
from stenolog.projections.questions import words_of
from stenolog.projections.views import lines
from stenolog.projections.views.lines import kind_word
from stenolog.projections.views.timeline import changes, erasures

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

KIND_CELLS = max(map(len, KINDS))
WHO_CELLS, PART = 16, 8
"""The cells of an author's name; of a wide terminal this part of them."""
NARROW, WHO_CELLS_NARROW = 60, 8
"""A terminal of fewer cells has no room for times, and so many for an author's name."""


def styled_kind(event: Event) -> tuple[str, str]:
    """Return the word by which an event's kind is shown, and its style."""
    return kind_word(event), "dim" if is_erased(event) else STYLES[event.kind]


def log_lines(entries: Iterable[Entry], conversation: Conversation, *, all: bool) -> Iterator[Piece]:
    """Yield the lines of a log, with a line for each day.

    Unless `all`, mode switches with only another program's settings are counted, not shown.
    """
    day, digits = "", len(str(conversation.position))
    hidden: Counter[str] = Counter()
    tools: dict[str, str] = {}
    erased: dict[int, str] = {}
    for entry in entries:
        _note_calls(tools, entry.event)
        if not all and (owner := carries_settings_of(entry.event)):
            hidden[owner] += 1
            continue
        if (today := _day(entry)) != day:
            day = today
            yield line((f"{'':{digits}}  {day}", "dim"))
        yield entry_line(entry, digits, conversation, tools, erased)
    yield from not_shown(hidden, "--all shows them")


def not_shown(hidden: Counter[str], instead: str) -> Iterator[Piece]:
    """Yield a line on hidden mode switches, counted by program."""
    if is_narrow():
        yield Note(f"hidden in {width()} columns: times (--json has all)")
    if hidden:
        switches = counted(hidden.total(), "mode switch", "mode switches")
        yield line((f"not shown: {switches} with settings of {', '.join(hidden)} alone; {instead}", "dim"))


def carries_settings_of(event: Event) -> str:
    """Return the program whose settings are all that a mode switch has, else ""."""
    if not isinstance(event, ModeSwitch) or not event.meta or changes(event):
        return ""
    return next(iter(event.meta))


def entry_line(
    entry: Entry,
    digits: int = 4,
    conversation: Conversation | None = None,
    tools: dict[str, str] | None = None,
    erased: dict[int, str] | None = None,
) -> TextLine:
    """Return an entry on one line: words and calls first, thoughts last.

    `digits` is the width of positions. With its `conversation` calls and results get names; `tools` are known
    names by calls' ids, `erased` known erasures by position.
    """
    (_, who, what, thought), (kind, style) = lines.entry_line(entry), styled_kind(entry.event)
    what = _verdict(entry, conversation) or what
    if is_erased(entry.event):
        what = erasure_words(entry, conversation, erased)
    if isinstance(entry.event, ToolResult) and not entry.event.name:
        who = (tools or {}).get(entry.event.call_id) or _tool_called(entry, conversation) or who
    return line(
        (f"{entry.position:>{digits}}", "bold"),
        ("  " if is_narrow() else f"  {_clock(entry):8}  ", "dim"),
        (f"{kind:<{KIND_CELLS}}  ", style),
        (f"{_fitted(who)}  ", ""),
        (what, "red" if what.startswith("✗") else ""),
        " " if what and thought else "",
        (thought, "dim"),
    )


def _day(entry: Entry) -> str:
    return "no times" if entry.time == EPOCH else f"{in_zone(entry.time):%Y-%m-%d}"


def _clock(entry: Entry) -> str:
    return "" if entry.time == EPOCH else f"{in_zone(entry.time):%H:%M:%S}"


def is_narrow() -> bool:
    """Return whether the terminal has no room for columns beside the words."""
    cells = width()
    return cells is not None and cells < NARROW


def _fitted(who: str) -> str:
    cells = width()
    room = WHO_CELLS if cells is None else max(WHO_CELLS, cells // PART)
    room = WHO_CELLS_NARROW if is_narrow() else room
    shown = who if cells is None else shortened(who, room)
    return f"{shown:<{room}}"


def _note_calls(tools: dict[str, str], event: Event) -> None:
    if isinstance(event, AssistantMessage | LlmError):
        tools.update({call.id: call.name for call in event.tool_calls})


def _tool_called(entry: Entry, conversation: Conversation | None) -> str:
    found = result_of(conversation, entry) if conversation else None
    return found.tool if found else ""


def erasure_words(
    entry: Entry, conversation: Conversation | None, known: dict[int, str] | None = None
) -> str:
    """Return why and when an entry was erased; add the read erasures to `known`."""
    found = {} if known is None else known
    if entry.position not in found and conversation is not None:
        found |= erasures(conversation.entries(after=entry.position))
    return found.get(entry.position, kind_word(entry.event))


def _verdict(entry: Entry, conversation: Conversation | None) -> str:
    match entry.event:
        case UserMessage(control=Control(action=action, call=CallRef(entry=answer, index=nth))) if (
            conversation
        ):
            near = islice(backwards(conversation, entry.position), NEAR)
            called = (earlier.event for earlier in near if earlier.id == answer)
            for event in called:
                if isinstance(event, AssistantMessage) and nth < len(event.tool_calls):
                    said = entry.event.text or words_of(entry.event.control)
                    return f"{action} {event.tool_calls[nth].name} {said}".rstrip()
        case _:
            pass
    return ""
