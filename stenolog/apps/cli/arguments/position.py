"""Positions and names of conversations, as typed.

12               position 12                    @~3              3 before the last
@                the last                       @{error}         the last error
@call:toolu_01   where that call was made       @{error}~1       the entry before it
2026-11-20       the last entry up to that time (with or without hours; UTC without a zone), or 2h
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.apps.cli.suggest import did_you_mean
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.views import lines

from .time import moment

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

KINDS = (*lines.KINDS.values(), *lines.FINER_KINDS)
FORMS = "a number, @, @~3, @{user|assistant|tool|error|mode}, @call:ID or a time (2026-11-20T09:30, 2h)"


def resolve(conversation: Conversation, written: str, least: int = 1) -> int:
    """Return the written position, from `least` to the last one.

    Raises `InvalidEventError` for what is no position, `PositionNotFoundError` for a missing one.
    """
    head = conversation.position
    anchor, back = _split(written)
    found = _anchor(conversation, anchor, head) - back
    if not least <= found <= head:
        raise PositionNotFoundError(
            f"{conversation.name!r}: expected an entry from {least} to {head}, found {written}"
        )
    return found


def _split(written: str) -> tuple[str, int]:
    """Return the anchor, and how many positions before it."""
    if match := re.fullmatch(r"(@.*)~(\d{1,15})", written, re.ASCII):
        return match[1], int(match[2])
    return written, 0


def _anchor(conversation: Conversation, anchor: str, head: int) -> int:
    if re.fullmatch(r"-?\d{1,15}", anchor, re.ASCII):
        return int(anchor)
    if anchor == "@":
        return head
    if (match := re.fullmatch(r"@\{(\w+)\}", anchor)) and match[1] in {*KINDS, *lines.KINDS}:
        return _last(conversation, head, anchor, lambda entry: lines.is_of_kind(entry.event, match[1]))
    if anchor.startswith("@call:"):
        return _last(conversation, head, anchor, lambda entry: _calls(entry, anchor.removeprefix("@call:")))
    at = moment(anchor, f"a position ({FORMS})", to_its_end=True)
    return next((entry.position for entry in backwards(conversation, head) if entry.time <= at), 0)


def _calls(entry: Entry, id: str) -> bool:
    event = entry.event
    return isinstance(event, AssistantMessage | LlmError) and any(call.id == id for call in event.tool_calls)


def _last(conversation: Conversation, head: int, anchor: str, wanted: Callable[[Entry], bool]) -> int:
    for entry in backwards(conversation, head):
        if wanted(entry):
            return entry.position
    raise PositionNotFoundError(f"{conversation.name!r}: no entry is {anchor}")


def full_name(names: Iterable[str], written: str) -> str:
    """Return the conversation of this name, or the only one with this beginning.

    A conversation and its forks (`talk~1`) count as one. Raises `ConversationNotFoundError`, naming the
    nearest, and `InvalidEventError` if several match.
    """
    known = list(names)
    if written in known:
        return written
    begun = [name for name in known if name.startswith(written)]
    root = min(begun, key=len, default="")
    if begun and all(name == root or name.startswith(f"{root}~") for name in begun):
        return root
    if begun:
        raise InvalidEventError(f"{written!r} is the beginning of {len(begun)} conversations: {_some(begun)}")
    meant = did_you_mean(written, known) or f" (known: {_listed(known)})"
    raise ConversationNotFoundError(f"no conversation {written!r}{meant}")


def _listed(names: list[str]) -> str:
    more = ", …: see `stenolog ls`" if len(names) > 3 else ""
    return f"{', '.join(names[:3]) or 'none yet'}{more}"


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
