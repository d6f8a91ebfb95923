"""Messages in a `SqliteSaver`'s database, as conversations to import.

Each thread is a conversation with the messages of its newest state. `LangGraphSaver.bring` brings the
checkpoints themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from sqlite3 import Connection
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from stenolog import importers
from stenolog.errors import CorruptLogError
from stenolog.events import EPOCH, OPENING_ID, ModeSwitch

from .messages import SPOKEN_IN, clean, event_of, name_of
from .stored_values import KINDS

THREADS = "SELECT thread_id FROM checkpoints GROUP BY thread_id ORDER BY min(rowid)"
NEWEST = (
    "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)
CHECKPOINTS = (
    "SELECT checkpoint_id, type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
    "ORDER BY checkpoint_id"
)
WRITES = (
    "SELECT checkpoint_id, channel, type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = '' "
    "ORDER BY checkpoint_id, rowid"
)


SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)
"""Revives LangGraph's own messages and types; values of other classes become plain data."""


def threads_in(connection: Connection) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each thread, the oldest first."""
    for (thread,) in connection.execute(THREADS).fetchall():
        yield _conversation(connection, str(thread))


class Said(NamedTuple):
    """A message of a thread, and the time at which it was written."""

    message: BaseMessage
    at: datetime


def _conversation(connection: Connection, thread: str) -> importers.SourceConversation:
    """Return a thread; the report names the reason if its state is unreadable."""
    name = importers.conversation_name(thread)
    try:
        said = _messages(connection, thread)
    except (CorruptLogError, ValueError, TypeError, LookupError, AttributeError) as error:
        make = partial(ThreadMessages, said=())
        return importers.SourceConversation(
            name, (), make, failed=f"its newest checkpoint cannot be read: {error}"
        )
    records = [importers.Record(str(nth), {"said": each}) for nth, each in enumerate(said, 1)]
    return importers.SourceConversation(name, records, partial(ThreadMessages, said=said))


def _messages(connection: Connection, thread: str) -> list[Said]:
    """Return the newest state's messages; of delta channels, those written."""
    written = _written(connection, thread)
    kind, content = connection.execute(NEWEST, (thread,)).fetchone() or ("null", b"")
    messages = _in_state(kind, content)
    times = {id: said.at for id, said in written.items()}
    # A task that wrote ("user", "Hello") wrote no id: the state has the message with one.
    times |= _first_seen(connection, thread, {str(message.id) for message in messages} - times.keys())
    at = min(times.values(), default=EPOCH)
    found: dict[str, Said] = {}
    for nth, message in enumerate(messages):
        at = times.get(str(message.id), at)
        found.setdefault(message.id or f"#{nth}", Said(message, at))
    return list((found or written).values())


def _in_state(kind: str, content: bytes) -> list[BaseMessage]:
    values = (_value(kind, content) or {}).get("channel_values") or {}
    channels = [[*_each(value)] for name, value in values.items() if _is_of_state(name)]
    # A message may be in several channels: the longest has the order in which they came.
    return list(chain(*sorted(channels, key=len, reverse=True)))


def _first_seen(connection: Connection, thread: str, wanted: set[str]) -> dict[str, datetime]:
    """Return the time of the first checkpoint with each wanted message, by id."""
    seen: dict[str, datetime] = {}
    if not wanted:
        return seen
    for id, kind, content in connection.execute(CHECKPOINTS, (thread,)):
        with suppress(CorruptLogError, ValueError, TypeError, LookupError, AttributeError):
            for message in _in_state(kind, content):
                if str(message.id) in wanted:
                    seen.setdefault(str(message.id), _time(id))
        if len(seen) == len(wanted):
            break
    return seen


def _written(connection: Connection, thread: str) -> dict[str, Said]:
    """Return the messages that tasks wrote, by id, each with its checkpoint's time."""
    written: dict[str, Said] = {}
    for nth, (id, channel, kind, value) in enumerate(connection.execute(WRITES, (thread,))):
        if kind in KINDS and _is_of_state(channel):
            for message in _each(_value(kind, value)):
                written.setdefault(message.id or f"#{nth}", Said(message, _time(id)))
    return written


def _is_of_state(channel: str) -> bool:
    return not channel.startswith("__") or channel in SPOKEN_IN


def _value(kind: str, content: bytes) -> Any:
    if kind not in KINDS:
        raise CorruptLogError(f"expected a value of one of {', '.join(KINDS)}, found {kind!r}")
    return SERDE.loads_typed((kind, content))


def _each(value: object) -> Iterator[BaseMessage]:
    inner = value.value if type(value) is _DeltaSnapshot else value
    several: Iterable[object] = inner if type(inner) is list else [inner]
    for one in several:
        if isinstance(one, BaseMessage) and not isinstance(one, RemoveMessage):
            yield one


def _time(checkpoint_id: str) -> datetime:
    try:
        ticks = UUID(checkpoint_id).time - 0x01B21DD213814000  # 100 ns since 1582, as in every such UUID
        return datetime.fromtimestamp(ticks // 10_000 / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return EPOCH


class ThreadMessages(importers.RecordConverter):
    """Converts the messages of a thread."""

    def __init__(self, log: importers.ExistingLog, said: Iterable[Said]) -> None:
        super().__init__(importers.EventWriter("langchain", "assistant", log))
        named = [name_of(one.message.name or "") for one in said if isinstance(one.message, AIMessage)]
        self._agents = tuple(dict.fromkeys(named)) or ("assistant",)
        self._members = {*log.settings.members}
        self._is_open = False
        self._is_thread = "langgraph" in log.meta_keys

    def take(self, record: importers.Record) -> list[importers.Step]:
        """Return the steps for a message; none if a saver keeps the thread, whose checkpoints bring it."""
        if self._is_thread:
            self.ignored["a message of a thread that LangGraphSaver keeps in this log"] += 1
            return []
        said: Said = record.value["said"]
        message, blobs = said.message, importers.Blobs()
        self._open(said.at)
        agent = name_of(message.name or "")
        if isinstance(message, AIMessage) and agent not in self._members:
            self._members.add(agent)
            self.writer.write(ModeSwitch(joins=(agent,)), f"joins {agent}", said.at)
        call = self.writer.answered(message.tool_call_id) if isinstance(message, ToolMessage) else None
        event = event_of(message, agent, call, blobs)
        self.writer.write(event, clean(message.id or "") or f"#{record.line}", said.at, blobs)
        return self.writer.drain()

    def _open(self, at: datetime) -> None:
        if not self._is_open:
            self._is_open = True
            self._members |= {*self._agents} if not self.writer.holds(OPENING_ID) else set()
            self.writer.write(ModeSwitch(mode="agent", joins=self._agents), OPENING_ID, at)
