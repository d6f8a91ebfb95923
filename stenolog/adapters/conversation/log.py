"""The log, many conversations in one SQLite file or in PostgreSQL, and one conversation of it.

    with stenolog.open("talks.db") as log:
        log["demo"].append(UserMessage(text="Which test fails?"))

Any number of threads may use a `Log` and its conversations, and any number of processes a file, each with its
own `Log`; writers take turns, readers never wait for writers. After a fork of the process, open the file
again in the child. A network file system is no place for the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stenolog.adapters.plugins import load_plugins
from stenolog.adapters.store.contract import address, appends
from stenolog.adapters.store.contract.appends import Sources, new_id, now
from stenolog.adapters.store.contract.values import DEADLINE, InTransaction, PendingEntry, Synchronous
from stenolog.adapters.store.reading import arguments
from stenolog.adapters.store.reading.handle import LogHandle, existing_key
from stenolog.adapters.store.reading.reader import follow
from stenolog.domain.base.value_help import named_arguments
from stenolog.domain.codec import load_event
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry, NewEntry, Record, check_name, microseconds
from stenolog.domain.errors import InvalidEventError, VersionConflictError
from stenolog.domain.events import Event
from stenolog.domain.lanes.decide import decide
from stenolog.domain.settings import joining
from stenolog.projections.views.timeline import TimelineItem as TimelineItem

from .opening import open_application
from .queries.reading import ReadableConversation

if TYPE_CHECKING:
    from stenolog.adapters.store.claims import OpenClaim
    from stenolog.adapters.tool_specs.given import ToolSpecLike
    from stenolog.domain.policy import PolicyLike

    from .erasing import Erased
    from .search.lookup import Hit

Pending: TypeAlias = Literal["close", "keep"]
OTHERS = 'the provider\'s own go in parameters={"temperature": 0.2}'


def open(
    path: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], datetime] = now,
    ids: Callable[[], str] = new_id,
    entropy: Callable[[int], bytes] = os.urandom,
    synchronous: Synchronous = "full",
    deadline: float = DEADLINE,
    redact: Iterable[str] = (),
) -> Log:
    """Open the log in the file at `path`, created if missing; ":memory:" keeps it in memory.

    `postgresql://user@host/database` is a log in PostgreSQL, for processes on any number of machines;
    `?schema=` names its schema, else "stenolog". It needs the extra `postgres`.

    Without a path, the command line's database: `STENOLOG_DB`, else `~/.local/share/stenolog/talks.db` (below
    `XDG_DATA_HOME` if set).

    `synchronous` "full": a returned append survives a power cut; "normal" can lose the last ones then, but
    not after `kill -9`. No call waits longer than `deadline` seconds for other writers. `redact` names keys,
    in any case, whose values become "[redacted]" before storage: in `meta`, in arguments of tool calls, and
    in JSON results. `clock`, `ids` and `entropy` give times, entry ids and random bytes. The first call in a
    process loads installed plugins and those in `STENOLOG_PLUGINS`.

    Raises `PluginError` for one of the latter, `NotADatabaseError`, `UnsupportedVersionError`,
    `CorruptLogError`, `StoreTimeoutError`, `StoreError`; for an address `InvalidEventError`,
    `MissingExtraError`.
    """
    if path is None:
        path = address.default_database()
        address.make_home(path)
    load_plugins()
    edge = Sources(clock, ids, entropy, _keys(redact))
    return Log(open_application(path, edge, synchronous=synchronous, deadline=deadline))


def open_existing(address: str, *, deadline: float = DEADLINE) -> Log:
    """Open the log at an address as `open`; raises `StoreError` if there is none."""
    load_plugins()
    return Log(open_application(address, Sources(now, new_id, os.urandom), deadline=deadline, make=False))


def _keys(redact: Iterable[str]) -> frozenset[str]:
    """Return the keys to redact. Raises `InvalidEventError` unless they are a list of texts."""
    keys = [redact] if isinstance(redact, str) else list(redact)
    if isinstance(redact, str) or not all(isinstance(key, str) and key for key in keys):
        raise InvalidEventError(f"redact: expected a list of keys, found {redact!r:.60}")
    return frozenset(key.casefold() for key in keys)


class Log(LogHandle):
    """The conversations of a log, by name: `log["demo"]`; iterates over names, oldest first.

    `application` is the same log as an application of the `eventsourcing` library.
    """

    def __getitem__(self, name: str) -> Conversation:
        """Return the conversation of that name; its first append creates it."""
        return Conversation(self, self.stream(name))

    def _repr_html_(self) -> str:
        from .queries.overviews import log_table  # late: few programs show one

        return log_table(self.path, self.names(order="latest")[::-1], self.__getitem__)

    def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        kinds: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        newest: bool = False,
        progress: Callable[[int], object] = lambda _: None,
    ) -> list[Hit]:
        """Return the entries of any conversation, archived ones too, with all these words.

        Best first among the newest 2,000 that match, or newest first. Query: `"a phrase"`, `begin*`, `this OR
        that`, `-without`; case and accents do not matter. `conversation` includes inherited entries; `agent`
        is the speaker; `kinds` are kinds of event, or one; `since` and `until` are aware times. The first
        search indexes the log, later ones what is new; `progress` is called with the notification id that
        indexing has reached.

        Raises `InvalidEventError` for an invalid query or filter, and `ConversationNotFoundError`.
        """
        from .search import lookup  # late: a program that looks for nothing need not wait for it

        found = lookup.search(
            self,
            query,
            conversation=conversation,
            agent=agent,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            by_age=newest,
            progress=progress,
        )
        return lookup.Hits(islice(found, arguments.number("limit", limit)))

    def claims(self, conversation: str | None = None) -> list[OpenClaim]:
        """Return running effects of a conversation or of all, oldest first.

        Raises `ConversationNotFoundError`.
        """
        from stenolog.adapters.store import claims as claims_module  # late, as above

        return claims_module.open_claims(self, conversation)

    def take_claims(self, conversation: str, owner: str | int | None = None) -> list[OpenClaim]:
        """Take a conversation's running effects from their runners, and return them.

        For a hanging process: its later appends for these effects are refused, and the next runner settles
        them as a dead one's. `owner`: only those of this process id or runner. Raises
        `ConversationNotFoundError`.
        """
        from stenolog.adapters.store import claims as claims_module  # late, as above

        return claims_module.take_over(self, conversation, owner)


class Conversation(ReadableConversation):
    """A handle on one conversation of a log; the first append creates it.

    It stays valid when the conversation is renamed. It is a sequence of entries: `for entry in conversation`,
    `len(conversation)`, `conversation[-1]`. Positions count from 1; 0 is before the first entry. `at` is a
    position too: the conversation at that time; None is now. One after the end raises
    `PositionNotFoundError`.
    """

    log: Log

    def append(
        self,
        event: Event,
        *,
        id: str | None = None,
        time: datetime | None = None,
        expected: int | None = None,
    ) -> Entry:
        """Append one event; it is durable on return.

        `id`, unique in the conversation, names the entry: repeating an append with the same id and event
        returns the existing entry. `time` is an aware time. Both are generated if omitted. `expected` is the
        position that the conversation must be at: use it for mode switches and whatever was decided from what
        was read.

        Raises `VersionConflictError` if another append was first, `DuplicateIdError` if the id has another
        event, `InvalidEventError`, `StoreTimeoutError`, `StoreError`. Then nothing is written.
        """
        new = NewEntry(event, id, time)
        item = appends.prepare(self.log.edge, new)
        (record,) = self._recorder.append((item,), self.stream, expected)
        return self._entry(record, new)

    def extend(self, events: Iterable[Event | NewEntry], *, expected: int | None = None) -> list[Entry]:
        """Append several events in one transaction; otherwise as `append`."""
        return extend(self, events, expected)

    def tail(self, after: int | None = None, timeout: float | None = None) -> Iterator[Entry]:
        """Yield the entries after `after` (None: only new ones), then each new one of any process.

        Ends after `timeout` seconds without a new entry (None: never), and when the log is closed.
        """
        mark = self.position if after is None else after
        return follow(self._recorder, self._unread, mark, timeout)

    def search(
        self,
        query: str,
        *,
        agent: str | None = None,
        kinds: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        newest: bool = False,
    ) -> list[Hit]:
        """Return the entries with these words, best first; otherwise as `Log.search`."""
        return self.log.search(
            query,
            conversation=self.name,
            agent=agent,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            newest=newest,
        )

    @named_arguments(OTHERS)
    def join(
        self,
        agent: str,
        *,
        model: str | None = None,
        persona: str | None = None,
        tools: Iterable[ToolSpecLike] | None = None,
        parameters: Mapping[str, Any] | None = None,
        policy: PolicyLike = None,
    ) -> Entry | None:
        """Add an agent with this card: append a mode switch, or nothing if unchanged.

        What is omitted stays as on the agent's card; `persona=""`, `tools=[]`, `parameters={}` and
        `policy={}` empty it. `tools` are functions, `Tool`s, and dictionaries of OpenAI's or Anthropic's;
        `parameters` are the provider's (temperature, max_tokens …); `policy` is one of `stenolog.context`.
        Raises `InvalidEventError`, and `CallerError` for an invalid tool; otherwise as `append`.
        """
        from stenolog.adapters.tool_specs.given import (
            card_fields,  # late: most programs read a log, or have a team
        )

        fields = card_fields(model, persona, tools, parameters, policy)
        while True:
            state = self.state()
            settings = self.settings(state.position)
            switch = joining(settings, agent, replace(settings.card_of(agent), **fields))
            try:
                return None if switch is None else self.append(switch, expected=state.position)
            except VersionConflictError:
                continue

    def submit(self, command: Event, *, id: str | None = None) -> list[Entry]:
        """Append a command and its consequences, if the state allows it when they are appended.

        With an `id`, that of the command's entry, a repeated call writes nothing. Raises as `append`, and
        `IllegalCommandError`, `UnsupportedVersionError`.
        """
        return submit(self, command, id)

    def fork(
        self, after: int | None = None, name: str | None = None, pending: Pending = "close"
    ) -> Conversation:
        """Return a new conversation that shares the entries up to `after` (None: all).

        No entry is copied. Open tool calls are closed with "not run in this fork"; `pending="keep"` leaves
        them open. The default name is `<name>~1` and so on. Raises `ConversationNotFoundError`,
        `PositionNotFoundError`, and `ConversationExistsError` for a name in use.
        """
        from .queries import forks  # late: few programs fork

        made = forks.fork(self, after, name, close=pending == "close")
        return Conversation(self.log, self.log.streams.share(made))

    def rename(self, name: str) -> None:
        """Give the conversation another name. Raises `ConversationExistsError` when that is taken."""
        check_name(name, what="conversation")
        self._recorder.conversations.rename(existing_key(self.log, self.stream), name)
        self.stream.name = name

    def archive(self) -> None:
        """Hide the conversation from the list of names; it is still read and appended to."""
        self._archive(microseconds(self.log.edge.clock()))

    def unarchive(self) -> None:
        """Put the conversation back in the list of names."""
        self._archive(None)

    def erase(self, *positions: int, reason: str = "", by: str | None = None) -> Erased:
        """Erase what entries say, permanently; every digest stays valid.

        An entry is appended, here and in forks that have them, with who erased what, when and why; `by` None
        is the system's user. Tables in the log's database, drafts, checkpoints, the search index and blobs
        named nowhere else lose the words too. If the process is killed, nothing is erased, or the next to
        open the log finishes it. A lane that the erasure would start is cancelled. A mode switch keeps its
        effects. Other processes with the conversation open may have the words in memory until they end.
        Erased entries stay as they are.

        Raises `PositionNotFoundError`, `InvalidEventError` for a record of an erasure and for an entry that a
        fork inherits, `HeldError`, and `ConversationExistsError` while a call of an entry has no result.
        """
        from .erasing import erase  # late: few programs need it

        return erase(self, positions, reason=reason, by=by)

    def delete(self) -> None:
        """Delete the conversation, all its entries, and blobs that no other entry names.

        No word stays in the log's files, unless another process is reading: then the write-ahead log has them
        until `Log.collect`, the next deletion, or the last close. Backups keep them. Raises
        `ConversationExistsError` while forks of it exist, and `HeldError`.
        """
        from .erasing import delete  # late, as above

        delete(self)

    def _archive(self, at: int | None) -> None:
        self._recorder.conversations.archive(existing_key(self.log, self.stream), at)

    def _unread(self, after: int) -> Iterator[tuple[int, Entry]]:
        return ((entry.position, entry) for entry in self.entries(after))

    def _entry(self, record: Record, new: NewEntry) -> Entry:
        at = EPOCH + record.time * MICROSECOND
        event = load_event(record.topic, record.payload) if self.log.edge.redact else new.event
        entry = Entry(self.stream.name, record.position, record.id, at, record.digest.hex(), event)
        if (blobs := self._recorder.blobs).pinned:
            blobs.release(record.payload)
        self.stream.written.append(record)
        return entry


def new_entries(events: Iterable[Event | NewEntry]) -> list[NewEntry]:
    """Return the events as entries to be appended."""
    return [event if isinstance(event, NewEntry) else NewEntry(event) for event in events]


def submit(
    conversation: Conversation, command: Event, id: str | None, also: InTransaction | None = None
) -> list[Entry]:
    """Append as `Conversation.submit`; `also` as in `LogRecorder.append`."""
    while True:
        state = conversation.state()
        if id is not None and (standing := conversation.entry_by_id(id)) is not None:
            return [standing]
        new = (NewEntry(each, id if each is command else None) for each in decide(state, command))
        with suppress(VersionConflictError):
            return extend(conversation, new, state.position, also=also)


def extend(
    conversation: Conversation,
    events: Iterable[Event | NewEntry],
    expected: int | None,
    fence: int | None = None,
    also: InTransaction | None = None,
) -> list[Entry]:
    """Append as `Conversation.extend`; `fence` and `also` as in `LogRecorder.append`."""
    new = new_entries(events)
    if not new:
        return []
    log, stream = conversation.log, conversation.stream
    return to_entries(
        conversation, new, log.recorder.append(prepare_all(log, new), stream, expected, fence, also)
    )


def prepare_all(log: Log, new: Sequence[NewEntry]) -> list[PendingEntry]:
    """Return the entries-to-be with everything that is drawn at the edge."""
    return [appends.prepare(log.edge, entry) for entry in new]


def to_entries(conversation: Conversation, new: Sequence[NewEntry], records: list[Record]) -> list[Entry]:
    """Return the entries that these have become."""
    return [conversation._entry(*pair) for pair in zip(records, new, strict=True)]
