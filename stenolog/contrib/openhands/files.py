"""Files of OpenHands: evaluation outputs, and events in lines, lists and folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.events import EPOCH
from stenolog.importers import (
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
    as_time,
    compact_json,
)

from .session import MAIN, OpenHandsSession
from .v0 import V0Events, event_key
from .v1 import V1Events

LANE = "stenolog.lane"
"""The key of a record that names the sub-agent whose `event` it holds."""
SOURCES = frozenset(("agent", "user", "environment", "hook"))


def is_v1_event(value: Json) -> bool:
    """Return whether a value is an event of V1."""
    event = as_dict(value)
    has_names = isinstance(event.get("kind"), str) and isinstance(event.get("id"), str)
    return has_names and "timestamp" in event and as_str(event.get("source")) in SOURCES


def is_v0_event(value: Json) -> bool:
    """Return whether a value is a V0 event: an action with arguments, or an observation."""
    event = as_dict(value)
    is_action = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    is_observation = isinstance(event.get("observation"), str) and "content" in event
    return (is_action or is_observation) and ("source" in event or "message" in event)


def is_event(value: Json) -> bool:
    """Return whether a value is an event of either version."""
    return is_v1_event(value) or is_v0_event(value)


class OpenHands(OpenHandsSession):
    """Converter of an OpenHands conversation or evaluation run.

    `about` are facts for `meta`, `title` the conversation's, `states` the agents' by name, `error` the run's
    final failure.
    """

    def __init__(
        self,
        log: importers.ExistingLog,
        *,
        about: dict[str, Any] | None = None,
        title: str = "",
        states: dict[str, dict[str, Any]] | None = None,
        error: str = "",
    ) -> None:
        super().__init__(log)
        self._v0 = V0Events(self)
        self._v1 = V1Events(self)
        self._error = error
        self._seen: dict[str, int] = {}
        """A hash of each event by its key: a stream may hold an event twice."""
        self._repeated = 0
        self.describe(about or {})
        self.setup.title = title or None
        for agent, state in (states or {}).items():
            self.agent = agent
            self._v1.describe(state)
        self.agent = MAIN

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for an event.

        Raises `ValueError` for an unexpected shape, `DuplicateIdError` for another run.
        """
        was_begun = self.setup.is_begun
        try:
            self._take(record)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if self.setup.is_begun and not was_begun:
            self.check_beginning("run")
        return self.writer.drain()

    def _take(self, record: Record) -> None:
        value, lane = record.value, as_str(record.value.get(LANE))
        if lane:
            value = as_dict(value.get("event"))
        if not is_event(value):
            self.ignored["record"] += 1
            return
        self.time = as_time(value.get("timestamp"), self.time)
        is_v1 = is_v1_event(value)
        own = importers.key_of(as_str(value.get("id"))) if is_v1 else event_key(value.get("id"))
        key = "/".join(filter(None, (lane, own or f"#{record.line}")))
        if not (key := self._unique(key, value)):
            return
        if is_v1:
            self.agent = lane or MAIN
            self._v1.take(key, value)
        else:
            self._v0.take(key, value)

    def end(self) -> list[importers.Step]:
        """Return the remaining steps, with a run's failure that no event has."""
        self.close()
        if self._error and self._error not in self.errors:
            self.agent = MAIN
            self.add_error("run-error", self._error, importers.error_category(self._error))
        self.writer.close()
        return self.writer.drain()

    def _unique(self, key: str, value: dict[str, Any]) -> str:
        digest = hash(compact_json(value))
        if key in self._seen and digest != self._seen[key]:
            self._repeated += 1
            key = f"{key}~{self._repeated}"
        elif key in self._seen:
            self.ignored["repeated event"] += 1
            return ""
        self._seen[key] = digest
        return key


HISTORY = "history"
LISTS = ("trajectory", "items", "events")
"""The fields of an object that may hold its events, as OpenHands' server answers."""
USED = frozenset(("instance_id", HISTORY, "instruction", "metadata", "error"))
EVENTS, STATE, ABOUT, SUB_AGENTS = "events", "base_state.json", "metadata.json", "subagents"
"""The names in the folder of a conversation."""
_EVENT_FILE = re.compile(r"(?:event[-_])?(\d+)(?:[-_][0-9a-fA-F-]+)?\.json")


def is_run(value: Json) -> bool:
    """Return whether a value is the output of one run of an evaluation."""
    run = as_dict(value)
    history = run.get(HISTORY)
    if "instance_id" not in run or not isinstance(history, list):
        return False
    return not history or is_event(history[0]) or isinstance(history[0], list)


def is_conversation(document: Json) -> bool:
    """Return whether a document holds events or runs."""
    return is_run(document) or is_event(document) or any(map(_is_either, _listed(document)[:1]))


def _is_either(value: Json) -> bool:
    return is_event(value) or is_run(value)


def _listed(document: Json) -> list[Json]:
    if isinstance(document, list):
        return document
    found = (as_list(as_dict(document).get(name)) for name in LISTS)
    return next((each for each in found if each and is_event(each[0])), [])


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a file that was recognised."""
    lines = importers.StreamedRecords(stream, reading)
    first = next(iter(lines), None)
    may_be_document = first is None or first.number != 1 or not _is_either(first.value)
    if may_be_document and (document := lines.document()) is not None:
        yield from _in_document(document)
        return
    found = next((record.value for record in lines if _is_either(record.value)), {})
    if not is_run(found):
        yield SourceConversation("", lines, OpenHands, unit="line")
        return
    for record in lines:
        if is_run(record.value):
            yield _run(record.value)
        else:
            reading.skipped.append(importers.Skipped(record.number, "holds no run with a history"))


def _in_document(document: Json) -> Iterator[SourceConversation]:
    runs = document if isinstance(document, list) else [document]
    if any(map(is_run, runs)):
        yield from (_run(run) for run in runs if is_run(run))
        return
    events = [document] if is_event(document) else _listed(document)
    beside = Counter(name for name in as_dict(document) if name not in LISTS and not is_event(document))
    yield SourceConversation("", _numbered(events), OpenHands, beside)


def _numbered(events: Iterable[Json]) -> list[Record]:
    flat = chain.from_iterable(each if isinstance(each, list) else [each] for each in events)
    return [Record(str(n), event if isinstance(event, dict) else {}) for n, event in enumerate(flat, 1)]


def _run(run: dict[str, Any]) -> SourceConversation:
    """Return a run's conversation, opened by its instruction unless an event repeats it."""
    metadata, instance = as_dict(run.get("metadata")), as_dict(run.get("instance"))
    records = _numbered(run[HISTORY])
    instruction = as_str(run.get("instruction"))
    if instruction and not any(_is_of_user(record.value) for record in records):
        opening = {"source": "user", "action": "message", "args": {"content": instruction}}
        records.insert(0, Record("0", opening))
    about = {
        "model": as_str(as_dict(metadata.get("llm_config") or metadata.get("llm")).get("model")),
        "agent_class": as_str(metadata.get("agent_class")),
        "dataset": as_str(metadata.get("dataset")),
        "repository": as_str(instance.get("repo")),
        "commit": as_str(instance.get("base_commit")),
    }
    make = partial(OpenHands, about=about, error=as_str(run.get("error")))
    ignored = Counter(name for name, value in run.items() if name not in USED and value)
    return SourceConversation(str(run["instance_id"]), records, make, ignored, unit="event")


def _is_of_user(event: dict[str, Any]) -> bool:
    is_message = event.get("action") in ("message", "start") or event.get("kind") == "MessageEvent"
    return is_message and event.get("source") == "user"


def folder_of(path: Path) -> Path | None:
    """Return a conversation's folder from its path or its events'."""
    if not path.is_dir():
        return None
    if holds_events(path):
        return path.absolute().parent if path.absolute().name == EVENTS else path
    return path if holds_events(path / EVENTS) else None


def is_one(folder: Path) -> bool:
    """Return whether a folder is that of a conversation."""
    return folder_of(folder) is not None


def holds_events(folder: Path) -> bool:
    """Return whether the first event's file in a folder holds an event."""
    for file in event_files(folder)[:1]:
        with suppress(UnknownFormatError, OSError), importers.regular_file(file) as stream:
            return is_event(JsonLinesReader().document(stream))
    return False


def event_files(folder: Path) -> list[Path]:
    """Return the files of the events in a folder, in their order."""
    with suppress(OSError):
        found = [(match, path) for path in folder.iterdir() if (match := _EVENT_FILE.fullmatch(path.name))]
        return [path for _, path in sorted(found, key=lambda each: (int(each[0][1]), each[1].name))]
    return []


def files_of(folder: Path) -> list[Path]:
    """Return all files of events of a conversation, with those of its sub-agents."""
    if folder_of(folder) is None:
        return []
    return [file for _, directory in _lanes(folder) for file in event_files(directory)]


def _lanes(folder: Path, agent: str = "") -> Iterator[tuple[str, Path]]:
    yield agent, folder / EVENTS if (folder / EVENTS).is_dir() else folder
    with suppress(OSError):
        for inner in sorted((folder / SUB_AGENTS).iterdir()):
            if inner.is_dir() and is_one(inner):
                yield from _lanes(inner, importers.agent_called(f"sub-agent-{inner.name[:40]}"))


class EventFiles:
    """A conversation's events by time, read again for each iteration."""

    def __init__(self, folder: Path, reading: JsonLinesReader) -> None:
        self._folder = folder
        self._reading = reading

    def __iter__(self) -> Iterator[Record]:
        self._reading.begin()
        lanes = [self._of_lane(agent, directory) for agent, directory in _lanes(self._folder)]
        return (record for _, record in merge(*lanes, key=lambda timed: timed[0]))

    def _of_lane(self, agent: str, folder: Path) -> Iterator[tuple[datetime, Record]]:
        time = EPOCH
        for number, file in enumerate(event_files(folder), 1):
            value = self._read(number, file)
            if value is not None:
                # The order of the files is that of the lane, whatever its clock says.
                time = max(time, as_time(value.get("timestamp"), time))
                yield time, Record(str(number), {LANE: agent, "event": value} if agent else value)

    def _read(self, number: int, file: Path) -> dict[str, Any] | None:
        try:
            with importers.regular_file(file) as stream:
                value = self._reading.document(stream)
        except (UnknownFormatError, OSError) as error:
            self._reading.skipped.append(importers.Skipped(number, f"{file.name}: {error}", "file"))
            return None
        if not is_event(value):
            self._reading.skipped.append(importers.Skipped(number, f"{file.name}: expected an event", "file"))
            return None
        return as_dict(value)


def read_folder(folder: Path, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversation of a folder, with its sub-agents as lanes."""
    states = {agent or MAIN: _json(directory.parent / STATE) for agent, directory in _lanes(folder)}
    about = _json(folder / ABOUT)
    facts = {
        "repository": as_str(about.get("selected_repository")),
        "branch": as_str(about.get("selected_branch")),
        "model": as_str(about.get("llm_model")),
    }
    make = partial(
        OpenHands,
        about=facts,
        title=as_str(about.get("title")),
        states={agent: state for agent, state in states.items() if state},
    )
    name = as_str(states[MAIN].get("id")) or as_str(about.get("conversation_id"))
    yield SourceConversation(name, EventFiles(folder, reading), make, unit="event")


def _json(path: Path) -> dict[str, Any]:
    with suppress(UnknownFormatError, OSError), importers.regular_file(path) as stream:
        return as_dict(JsonLinesReader().document(stream))
    return {}


OPENHANDS = importers.Importer(
    "openhands",
    read=read,
    is_document=is_conversation,
    is_record=_is_either,
    folder=importers.FolderFormat(folder_of, is_one, read_folder, files_of),
)
