"""Reading and decoding a conversation in pages, against selecting the same columns and decoding them."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._ratio import Row, compared
from stenolog import Conversation, Fold
from stenolog.adapters.conversation import log as logs
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import AssistantMessage, Event, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall

ENTRIES = 20_000
LIMIT = 1.2
TEXT = "The failing test is the one that counts the rows of the ledger. "
SELECT = """SELECT originator_version, entry_id, at, digest, topic, state FROM stored_events
    WHERE originator_id = 1 AND originator_version > ? ORDER BY originator_version LIMIT 512"""


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talks.db")
        with logs.open(path, synchronous="normal") as log:
            talk = log["talk"]
            talk.extend(conversation(ENTRIES - 1))
            connection = sqlite3.connect(path)
            ours_s, floor_s = compared(lambda: drain(talk.entries()), by_hand(connection), rounds=15)
            connection.close()
            skipped = skipping(talk)
    note = f"{ours_s / ENTRIES * 1e6:.1f} against {floor_s / ENTRIES * 1e6:.1f} µs an entry"
    yield Row("read and decode in pages", ours_s / floor_s, LIMIT, note=note)
    yield from skipped


def skipping(talk: Conversation) -> list[Row]:
    """Measure folds of one kind of entry, against the same over all entries."""
    rows = []
    for name, kind, limit in (("none", ModeSwitch, 0.3), ("every fourth", UserMessage, 0.6)):
        count = Fold("count", 0, lambda total, entry: total + 1, kinds=(kind,), state=int)
        part_s, whole_s = compared(
            partial(over, talk, count), partial(over, talk, everything(kind)), rounds=7
        )
        note = f"{part_s / ENTRIES * 1e6:.1f} against {whole_s / ENTRIES * 1e6:.1f} µs an entry"
        rows.append(Row(f"a fold that looks at {name} of the entries", part_s / whole_s, limit, note=note))
    return rows


def everything(kind: type[Event]) -> Fold[int]:
    """Return the same fold, given every entry."""
    return Fold("all", 0, lambda total, entry: total + isinstance(entry.event, kind))


def over(talk: Conversation, count: Fold[int]) -> int:
    """Return the fold over the whole conversation, from the beginning."""
    assert talk.stream.key is not None
    talk.log.checkpoints.drop(talk.stream.key)
    return talk.fold(count)


def conversation(entries: int) -> list[Event]:
    """Return turns of a question, a tool call, its result and an answer."""
    turn: list[Event] = [
        UserMessage(text=TEXT * 4),
        AssistantMessage(
            agent="coder", tool_calls=[ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')]
        ),
        ToolResult(call_id="c1", name="shell", text=TEXT * 4),
        AssistantMessage(agent="coder", text=TEXT * 4, model="large"),
    ]
    return (turn * (entries // 4 + 1))[:entries]


def by_hand(connection: sqlite3.Connection) -> Callable[[], None]:
    """Read as one would without a library: rows, and pydantic's validators by topic."""
    known: dict[str, Any] = dict(REGISTRY.events)
    validators = {topic: cls.__pydantic_validator__ for topic, cls in known.items()}

    def read() -> None:
        position = 0
        while rows := connection.execute(SELECT, (position,)).fetchall():
            drain((row, validators[row[4]].validate_json(row[5])) for row in rows)
            position = rows[-1][0]

    return read


def drain(values: Iterable[object]) -> None:
    """Take every value and keep none."""
    deque(values, maxlen=0)
