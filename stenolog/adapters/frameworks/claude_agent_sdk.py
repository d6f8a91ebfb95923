"""A session store of the Claude Agent SDK: each session is a conversation of a log.

    options = ClaudeAgentOptions(session_store=claude_session_store(log))

Claude Code's lines are read as its files are, so requests, timelines and costs are there at once. Each batch
ends with a mode switch without settings that names the lines, kept as blobs: `load` returns them. Lines and
entries are one transaction. The SDK's package is needed only for its summaries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.folds import fold_at, persistent
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, Record
from stenolog.adapters.importers.intake.known_sessions import Naming, Place, mark_of, name_now
from stenolog.adapters.importers.intake.sessions import Batch, ConversationImport
from stenolog.adapters.programs.claude_code.files import note_record
from stenolog.adapters.programs.claude_code.records import ClaudeCode
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.erasure import ORIGINAL
from stenolog.domain.errors import BlobNotFoundError, CallerError, VersionConflictError
from stenolog.domain.events import ModeSwitch
from stenolog.projections.fold import Fold
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str, key_of

T = TypeVar("T")
Key: TypeAlias = Mapping[str, Any]
Json: TypeAlias = dict[str, Any]
NOTE = "agent_metadata"
"""The type of the SDK's line about a sub-agent; on disk it is a file beside the sub-agent's."""
MOST = 8
"""So many sessions are read on at once; another one is read again from its beginning."""
LONGEST = 80
"""Characters of a key that are part of a conversation's name as they are."""


class StoredLine(NamedTuple):
    """A line as JSON with its sha256 and id, if it has one."""

    sha: str
    content: bytes
    id: str


class Head(NamedTuple):
    """The last entry of a conversation under a name."""

    name: str
    position: int
    digest: str


class Reading(NamedTuple):
    """The reading of a session's lines so far, up to a head of its conversation.

    `known` are the lines with ids: by these, as the SDK asks. `lines` is their number.
    """

    batch: Batch
    intake: ConversationImport
    known: set[str]
    head: Head
    lines: int


class ClaudeSessionStore:
    """A `SessionStore` of the SDK on an open log; any number of processes may use the log.

    A session is the conversation `<project>/<session>` with its sub-agents. A renamed one is loaded and
    continued, but no longer listed. Lines with erased words are left out. Methods raise the log's errors.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._readings: dict[tuple[int | None, str], Reading] = {}

    def __repr__(self) -> str:
        return f"<ClaudeSessionStore of {self.log.path}>"

    async def append(self, key: Key, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append a batch of lines and what they say; of lines with one `uuid` the first is stored."""
        if entries:
            await _in_thread(lambda: self._append(key, [*map(_line, entries)]))

    async def load(self, key: Key) -> list[Any] | None:
        """Return the lines of a session or sub-agent; None if there are none."""
        return await _in_thread(lambda: self._load(key))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the ids of a project's sessions, and when each was last written, in milliseconds."""
        return await _in_thread(lambda: [*self._folded(project_key, _written)])

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return the SDK's summary of each of a project's sessions."""
        summarise = import_module("claude_agent_sdk").fold_session_summary

        def summarised(state: Json, entry: Entry, given: Json) -> Json:
            lines = [json.loads(content) for _, content in self._contents([given])]
            before = None if not state else {**state, "data": dict(state["data"])}
            found = summarise(before, given["key"], lines)
            return {**found, **_written(state, entry, given)}

        return await _in_thread(lambda: [*self._folded(project_key, summarised)])

    async def delete(self, key: Key) -> None:
        """Delete a session with its sub-agents and forks; with a subpath, erase a sub-agent's entries."""
        await _in_thread(lambda: self._delete(key))

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the subpaths of a session's sub-agents, as they were given: no paths of this machine."""
        found = await _in_thread(lambda: [as_str(each.get("file")) for each in _batches(self._stored(key))])
        return [path for path in dict.fromkeys(found) if path]

    def _append(self, key: Key, lines: list[StoredLine]) -> None:
        place, path = self._find(key), as_str(key.get("subpath"))
        while True:
            conversation = self.log[place.name]
            head = _head(conversation)
            known, count = self._known_lines(conversation, path, head)
            fresh = list[StoredLine]()
            for line in lines:
                if not (line.id and line.id in known):
                    fresh.append(line)
                    known.add(line.id)
            if not fresh:
                return
            named = [{"blob": line.sha, **({"line": line.id} if line.id else {})} for line in fresh]
            given: Json = {"file": path, "key": dict(key), "lines": named}
            switch = ModeSwitch(in_context=False, meta={ORIGINAL: given})
            read = self._imported(place, path, fresh, switch, head)
            if read is not None:
                self._keep(path, *read, known, count + len(fresh))
                return
            # Lines that their reader refuses are kept all the same; another process's append is read first.
            if self.log[place.name].position == head.position:
                self.log.blobs.put_all(line.content for line in fresh)
                with suppress(VersionConflictError):
                    conversation.append(switch, expected=head.position)
                    return

    def _known_lines(self, conversation: Conversation, path: str, head: Head) -> tuple[set[str], int]:
        """Return the ids of a session's lines, and how many lines it has."""
        reading = self._readings.get((conversation.stream.key, path))
        if reading is not None and reading.head == head:
            return {*reading.known}, reading.lines
        lines = [as_dict(line) for given in _batches(conversation, path) for line in as_list(given["lines"])]
        return {id for line in lines if (id := as_str(line.get("line")))}, len(lines)

    def _imported(
        self, place: Place, path: str, fresh: list[StoredLine], last: ModeSwitch, head: Head
    ) -> tuple[Batch, ConversationImport] | None:
        """Append after a head what lines say, and then `last`; return how, None if nothing was written.

        The reading goes on from its end, unless something else was written since.
        """
        conversation = self.log[place.name]
        reading = self._readings.pop((conversation.stream.key, path), None)
        contents = [line.content for line in fresh]
        is_noted = any(b'"agent_metadata"' in content for content in contents)
        if reading is not None and reading.head == head and not is_noted:
            batch, intake, before = reading.batch, reading.intake, reading.lines
            intake.go_on()
        else:
            batch, before = Batch(self.log), 0
            intake = ConversationImport(batch, place, ClaudeCode)
            if intake.position != head.position:
                return None
            held = self._contents(_batches(conversation, path), gone=True)
            contents = [*(content for _, content in held), *contents]
        try:
            for record in _records(contents, path, before):
                intake.take(record)
            intake.end()
        except (LookupError, TypeError, AttributeError):
            return None
        intake.add(NewEntry(last), {line.sha: line.content for line in fresh})
        batch.flush()
        return None if intake.found.failed else (batch, intake)

    def _keep(self, path: str, batch: Batch, intake: ConversationImport, known: set[str], lines: int) -> None:
        """Keep a reading, unless something was written after it already."""
        conversation = self.log[intake.found.name]
        head = _head(conversation)
        if head.position == intake.position and intake.can_go_on:
            while len(self._readings) >= MOST:
                self._readings.pop(next(iter(self._readings)))
            self._readings[conversation.stream.key, path] = Reading(batch, intake, known, head, lines)

    def _load(self, key: Key) -> list[Any] | None:
        conversation, path = self._stored(key), as_str(key.get("subpath"))
        found = [*_batches(conversation, path)]
        return [json.loads(content) for _, content in self._contents(found)] if found else None

    def _contents(self, batches: Iterable[Json], *, gone: bool = False) -> Iterator[tuple[str, bytes]]:
        """Yield the lines of batches with their hashes; with `gone`, erased ones as empty."""
        for line in (line for given in batches for line in as_list(given.get("lines"))):
            sha = as_str(as_dict(line).get("blob"))
            try:
                yield sha, self.log.blobs[sha]
            except BlobNotFoundError:
                if gone:
                    yield sha, b""

    def _folded(self, project: str, evolve: Callable[[Json, Entry, Json], Json]) -> Iterator[Json]:
        def after(state: Json, entry: Entry) -> Json:
            given = _of_switch(entry)
            return evolve(state, entry, given) if given and not given.get("file") else state

        fold: Fold[Json] = Fold(evolve.__name__, {}, after, kinds=(ModeSwitch,), state=dict[str, Any])
        kept = persistent(replace(fold, name=f"claude-agent-sdk {fold.name}"))
        for name in self.log.names(prefix=f"{_short(project)}/"):
            state = fold_at(self.log[name], kept)
            place = state and self._find({"project_key": project, "session_id": state["session_id"]})
            if place and place.name == name:  # a fork has the session's beginning, and another name
                yield state

    def _delete(self, key: Key) -> None:
        conversation, path = self._stored(key), as_str(key.get("subpath"))
        if conversation is None:
            return
        if path:
            positions = self._positions(conversation, path)
            conversation.erase(*positions, reason="the program deleted its sub-agent's session")
            return
        forks = self.log.recorder.erasure.conversations_with(conversation.stream, 1)
        for _, name in sorted(forks.items(), reverse=True):
            self.log[name].delete()

    def _positions(self, conversation: Conversation, path: str) -> list[int]:
        """Return the positions of a subpath's batches, and of the entries that came of its lines."""
        lines = [json.loads(content) for _, content in self._contents(_batches(conversation, path))]
        uuids = {uuid for line in lines if (uuid := key_of(as_str(line.get("uuid"))))}
        return [
            entry.position
            for entry in conversation.entries()
            if _of_switch(entry).get("file") == path
            or entry.id.partition(":")[0] in uuids
            or not uuids.isdisjoint(getattr(getattr(entry.event, "source", None), "lines", ()))
        ]

    def _stored(self, key: Key) -> Conversation | None:
        name = self._find(key).name
        return self.log[name] if name in self.log else None  # noqa: SIM401 - a log has no `get`

    def _find(self, key: Key) -> Place:
        """Return a session's conversation, which an import of the session's file continues."""
        project, session = as_str(key.get("project_key")), as_str(key.get("session_id"))
        if not (project and session):
            raise CallerError(f"expected a project_key and a session_id, found {dict(key)!r:.80}")
        own = f"{_short(project)}/{_short(session)}"
        place = Naming(self.log, own, None, is_session=True, again=True).find_place(own)
        file = mark_of(session)
        return place if name_now(self.log, file) else place._replace(marks=(*place.marks, file))


def claude_session_store(log: Log) -> ClaudeSessionStore:
    """Return a session store for the Claude Agent SDK that keeps sessions in the log."""
    return ClaudeSessionStore(log)


async def _in_thread(work: Callable[[], T]) -> T:
    from anyio import to_thread  # the SDK brings it: its programs run on asyncio or on trio

    return await to_thread.run_sync(work)


def _line(entry: Mapping[str, Any]) -> StoredLine:
    if not isinstance(entry, Mapping):
        raise CallerError(f"expected lines that are objects, found {type(entry).__name__}")
    try:
        content = json.dumps(entry, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CallerError(f"expected a line that is JSON: {error}") from error
    return StoredLine(sha256(content).hexdigest(), content, key_of(as_str(entry.get("uuid"))))


def _records(lines: Iterable[bytes], path: str, before: int) -> list[Record]:
    """Return the records of lines that come after so many others."""
    found = []
    for record in JsonLinesReader().records(BytesIO(b"".join(line + b"\n" for line in lines))):
        is_note = record.value.get("type") == NOTE
        value = note_record(record.value, path.rpartition("/")[2]) if is_note else record.value
        found.append((not is_note, Record(str(before + record.number), value)))
    # On disk, what is known of a sub-agent comes before its lines.
    return [record for _, record in sorted(found, key=lambda each: each[0])]


def _head(conversation: Conversation) -> Head:
    position = conversation.position
    return Head(conversation.name, position, conversation.entry(position).digest if position else "")


def _short(text: str) -> str:
    """Return a key as part of a name: different keys never become the same text."""
    if len(text) <= LONGEST and "/" not in text and key_of(text) == text:
        return text
    whole = sha256(text.encode(errors="replace")).hexdigest()
    return f"{key_of(text.replace('/', '-'))[: LONGEST - 20]}-{whole[:16]}"


def _of_switch(entry: Entry) -> Json:
    """Return what an entry says of a batch; empty for any other."""
    given = as_dict(entry.event.meta.get(ORIGINAL)) if isinstance(entry.event, ModeSwitch) else {}
    return given if "lines" in given else {}


def _batches(conversation: Conversation | None, path: str | None = None) -> Iterator[Json]:
    """Yield what a conversation's switches say of batches, all of them or of one path."""
    for entry in conversation.entries() if conversation else ():
        if (given := _of_switch(entry)) and path in (None, given.get("file")):
            yield given


def _written(state: Json, entry: Entry, given: Json) -> Json:
    session = as_str(as_dict(given.get("key")).get("session_id"))
    return {"session_id": session, "mtime": int(entry.time.timestamp() * 1000)}
