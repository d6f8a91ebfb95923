"""Check bookmarks: the messages that they keep are those that the log gives at their position."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from stenolog.adapters.log import Log
from stenolog.adapters.queries import bookmarks
from stenolog.adapters.queries.token_counters import COUNTERS
from stenolog.adapters.queries.window_cache import Key
from stenolog.adapters.store import conversation_rows, integrity, reader
from stenolog.adapters.store.integrity import ConversationRow, DamagedRow
from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.errors import StenologError
from stenolog.domain.policy import policy
from stenolog.projections.requests import APIS, PIPELINE
from stenolog.projections.requests.builder import windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.projections.requests.request import Body

from .report import Findings, Problem


def check(log: Log, connection: sqlite3.Connection, held: ConversationRow, found: Findings) -> None:
    """Compare each bookmark of a conversation that a request would go on from."""
    for name in log.bookmarks.names(held.stream):
        try:
            agent, task, given, api, pipeline, _ = json.loads(name)
            key = Key(held.stream, LaneId(agent, task), given)
            kept = bookmarks.find(log, key, api) if (pipeline, api in APIS) == (PIPELINE, True) else None
        except (TypeError, ValueError):
            continue  # a name that this release does not write
        if kept is None:
            continue
        position = kept.mark.mark.position
        lineage = conversation_rows.lineage(connection, held.stream, position)
        if reader.digest_on(connection, lineage, position) != bytes.fromhex(kept.digest):
            continue  # of another log: no request goes on from it
        with suppress(StenologError):  # what cannot be built is reported where it stands
            entries = _entries(connection, held, position)
            true = _messages(entries, key, api, log) if len(entries) == position else None
            if true is not None and true[: len(kept.messages)] != kept.messages:
                there = "other messages"
                expected = f"the messages of {key.lane.address} on {api}"
                found.problems.append(Problem(held.name, position, "/bookmark", "bookmark", expected, there))


def _entries(connection: sqlite3.Connection, held: ConversationRow, upto: int) -> list[Entry]:
    entries: list[Entry] = []
    for segment in conversation_rows.lineage(connection, held.stream, upto):
        for record in integrity.records(connection, segment.stream, segment.after, segment.upto):
            if isinstance(record, DamagedRow):
                return entries
            entries.append(to_entry(held.name, record))
    return entries


def _messages(entries: Sequence[Entry], key: Key, api: str, log: Log) -> list[Body] | None:
    """Return the settled messages of a lane, made of the whole log; None where none can be kept."""
    given = policy(json.loads(key.policy)) if key.policy else None
    *_, window = windows(entries, key.lane, given, COUNTERS, log.blobs)
    live = RequestSession(window, APIS[api], log.blobs)
    live.request()
    made = live.bookmark()
    return None if made is None else made[1]
