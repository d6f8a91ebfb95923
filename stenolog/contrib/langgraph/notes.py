"""Notes for people on a task's writes: its interrupts, the answers to them, and its errors.

A note is the entry that carries the writes, in place of a mode switch. No model is sent a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from stenolog.events import UserMessage
from stenolog.importers import compact_json

from .configs import Where
from .messages import clean, name_of
from .thread_fold import CALLER

PULLED = "~__pregel_pull, "
"""The path of a task that runs a node begins so, and ends with the node's name."""


def note_on(
    writes: Iterable[tuple[str, Any]], where: Where, path: str, answers: Iterable[Any], task: str
) -> UserMessage | None:
    """Return the note on these writes; None if they need none.

    `answers` are those that have a note already.
    """
    known = [*map(_as_text, answers)]
    told, resumed = list[str](), list[str]()
    for channel, value in writes:
        # What happens in a subgraph reaches the main graph, which writes it too.
        if channel == INTERRUPT and not where.ns:
            told += [f"interrupted: {_as_text(getattr(each, 'value', each))}" for each in _each(value)]
        elif channel == ERROR and not where.ns:
            told.append(f"error: {value if isinstance(value, str) else repr(value)}")
        elif channel == RESUME:
            given = [*map(_as_text, [value] if task == CALLER else _each(value))]
            resumed += [f"resumed: {words}" for words in given if task == CALLER or words not in known]
    if not told and not resumed:
        return None
    text = clean("\n".join(resumed + told))
    if not told:
        return UserMessage(text=text, in_context=False)
    node = path.removeprefix(PULLED)
    author = name_of(node) if path.startswith(PULLED) and "," not in node else "graph"
    return UserMessage(text=text, author=author, author_kind="system", in_context=False)


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return compact_json(value)
    except (TypeError, ValueError):
        return repr(value)
