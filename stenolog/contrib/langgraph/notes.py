"""Notes for people on a task's writes: its interrupts, the answers to them, and its errors.

A note is the entry that carries the writes, in place of a mode switch. LangGraph may put writes before
their checkpoint: the note on these stands behind the checkpoint. No model is sent a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from pydantic import JsonValue

from stenolog.events import NewEntry, UserMessage
from stenolog.importers import compact_json

from .configs import Where
from .messages import clean, name_of
from .stored_values import ValueReader
from .thread_fold import CALLER, Thread

PULLED = "~__pregel_pull, "
"""The path of a task that runs a node begins so, and ends with the node's name."""


def note_on(
    thread: Thread,
    reading: ValueReader,
    where: Where,
    writes: Iterable[tuple[str, Any]],
    task: str,
    path: str,
) -> UserMessage | None:
    """Return the note on these writes; None if they need none, or come before their checkpoint."""
    if (where.ns, where.id or "") not in thread.saved:
        return None
    answers = thread.answers(where.ns, where.id or "", task)
    return _note(writes, where.ns, task, path, [_as_text(reading.value(answer)) for answer in answers])


def late_notes(thread: Thread, reading: ValueReader, ns: str, id: str) -> list[NewEntry]:
    """Return the notes on the writes that were put before their checkpoint, which is put now."""
    if (ns, id) in thread.saved:
        return []
    notes = []
    for (task, path), writes in groupby(thread.writes_at(ns, id), lambda write: (write.task, write.path)):
        told = [(write.channel, reading.value(write.value)) for write in writes if write.number < 0]
        note = _note(told, ns, task, path, [_as_text(each) for _, value in told for each in _each(value)])
        if note is not None:
            notes.append(NewEntry(replace(note, meta={**note.meta, "langgraph": {"note": id}})))
    return notes


def _note(
    writes: Iterable[tuple[str, Any]], ns: str, task: str, path: str, known: Sequence[str]
) -> UserMessage | None:
    """Return the note on these writes; `known` are the answers that have a note already."""
    told, resumed, is_interrupted = list[str](), list[str](), False
    for channel, value in writes:
        # What happens in a subgraph reaches the main graph, which writes it too.
        if channel == INTERRUPT and not ns:
            told += [f"interrupted: {_as_text(getattr(each, 'value', each))}" for each in _each(value)]
            is_interrupted = True
        elif channel == ERROR and not ns:
            told.append(f"error: {value if isinstance(value, str) else repr(value)}")
        elif channel == RESUME:
            given = [*map(_as_text, [value] if task == CALLER else _each(value))]
            resumed += [f"resumed: {words}" for words in given if task == CALLER or words not in known]
    if not told and not resumed:
        return None
    text = clean("\n".join(resumed + told))
    asks: dict[str, JsonValue] = {"asks_person": is_interrupted} if is_interrupted or resumed else {}
    meta: dict[str, JsonValue] = {"stenolog": asks} if asks else {}
    if not told:
        return UserMessage(text=text, in_context=False, meta=meta)
    node = path.removeprefix(PULLED)
    author = name_of(node) if path.startswith(PULLED) and "," not in node else "graph"
    return UserMessage(text=text, author=author, author_kind="system", in_context=False, meta=meta)


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return compact_json(value)
    except (TypeError, ValueError):
        return repr(value)
