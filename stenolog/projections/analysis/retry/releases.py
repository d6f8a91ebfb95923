"""Recorded calls under another release of the program that made them: its prompt and its tools."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import UserMessage
from stenolog.domain.values import Tool

from ..drift import FOREIGN, STATUS, Opening, masked
from .changes import Change


def under_release(log: Iterable[Entry], agent: str, card: AgentCard, release: AgentCard) -> Change:
    """Return the change from an agent's recorded card to that of another release; `log` has its calls.

    What differs from session to session stays as recorded, line by line, and so do the tools of the user's
    own servers.
    """
    mine = {tool.name: tool for tool in card.tools or ()}
    theirs = [tool for tool in release.tools or () if not tool.name.startswith(FOREIGN)]
    own = [tool for name, tool in mine.items() if name.startswith(FOREIGN)]
    tools = [_as_recorded(mine.get(tool.name), tool) for tool in theirs] + own
    if card.persona:
        persona = as_recorded(card.persona, release.persona)
        return Change(card={"persona": persona, "tools": tools}, agent=agent)
    return Change(card={"tools": tools}, agent=agent, edits=_edits(log, agent, release.persona))


def _edits(log: Iterable[Entry], agent: str, theirs: str) -> dict[int, str]:
    """Return the edits that put a prompt in the place of the one that a program says as messages."""
    opening = Opening()
    for entry in log:
        if isinstance(entry.event, UserMessage) and agent in entry.event.to:
            opening.take(entry.position, entry.event)
        elif getattr(entry.event, "agent", "") == agent:
            break
    texts = [as_recorded(opening.text, theirs), *[""] * len(opening.texts)]
    return dict(zip(opening.texts, texts, strict=False))


def _as_recorded(mine: Tool | None, theirs: Tool) -> Tool:
    return (
        theirs
        if mine is None
        else replace(theirs, description=as_recorded(mine.description, theirs.description))
    )


def as_recorded(mine: str, theirs: str) -> str:
    """Return another release's text, with the lines of the recorded one that differ only by session."""
    if masked(mine) == masked(theirs):
        return mine
    known: dict[str, deque[str]] = defaultdict(deque)
    for row in _rows(mine):
        known[masked(row)].append(row)
    return "".join(found.popleft() if (found := known[masked(row)]) else row for row in _rows(theirs))


def _rows(text: str) -> Iterator[str]:
    """Yield a text's lines; what Git says of the session is one."""
    at = 0
    for found in STATUS.finditer(text):
        yield from text[at : found.start()].splitlines(keepends=True)
        yield found[0]
        at = found.end()
    yield from text[at:].splitlines(keepends=True)
