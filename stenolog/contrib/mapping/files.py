"""Files that a mapping describes: JSON Lines, JSON with a list of records, or CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.events import EPOCH, AssistantMessage, ToolResult, UserMessage
from stenolog.importers import Json, JsonObject, Record, as_list, as_time, compact_json
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall

from .mapping import FieldPath, Mapping, as_role, paths_in, read_mapping, words_in

MAIN = "assistant"
_NUMBER = re.compile(r"\d{9,}(\.\d+)?")


class Mapped(importers.RecordConverter):
    """Converter of a conversation that a mapping describes."""

    def __init__(self, mapping: Mapping, log: importers.ExistingLog) -> None:
        self._mapping = mapping
        super().__init__(importers.EventWriter(mapping.name, MAIN, log))
        self.setup = importers.SettingsWriter(self.writer, mode="chat", scope="open")
        self._time = EPOCH
        self._agent = MAIN
        self._begun = False
        self._ids: set[str] = set()
        if "agent" not in mapping.paths:
            self.setup.card(MAIN)

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record; one of an unknown role is skipped."""
        value = record.value
        kind = self._kind(value)
        if kind == "ignore":
            self.ignored[f"role {self._text('role', value)}"] += 1
            return []
        key = self._key(record)
        self._time = _time(self._find("time", value), self._time)
        title = self._text("title", value)
        if title or (kind == "user" and self.setup.title is None):
            self.setup.title = importers.title_of(title or self._text("text", value)) or self.setup.title
        if kind == "system" and not self._begun:
            self._persona(value)
            return self.writer.drain()
        self._begun = True
        match kind:
            case "assistant":
                self._answer(key, value)
            case "tool":
                self._result(key, value)
            case _:
                self._message(key, value, kind)
        return self.writer.drain()

    def _kind(self, value: JsonObject) -> str:
        """Return the speaker's kind. Raises `ValueError` for an unknown role."""
        role, mapping = self._find("role", value), self._mapping
        kind = mapping.kinds.get(as_role(role)) if role is not None else None
        if kind is None:
            written = mapping.paths["role"].written
            found = f"{written} = {compact_json(role)}" if role is not None else f"no {written}"
            known = ", ".join(mapping.kinds)
            raise ValueError(f"{mapping.location('role')}: expected one of the roles {known}, found {found}")
        return kind

    def _key(self, record: Record) -> str:
        own = importers.key_of(words_in(self._find("id", record.value)))
        key = own if own and own not in self._ids else f"{own}#{record.line}"
        self._ids.add(key)
        return key

    def _persona(self, value: JsonObject) -> None:
        self.setup.card(self._agent, persona=self._text("text", value))

    def _speaker(self, value: JsonObject) -> str:
        """Return the speaking agent; the first one gets the persona before it."""
        named = self._text("agent", value)
        agent = importers.agent_called(named, MAIN) if named else self._agent
        if agent != self._agent and self._agent == MAIN and MAIN in self.setup.cards:
            self.setup.cards[agent] = self.setup.cards.pop(MAIN)
        self._agent = agent
        model = self._text("model", value)
        self.setup.card(agent, **({"model": model} if model else {}))
        return agent

    def _message(self, key: str, value: JsonObject, kind: str) -> None:
        self.setup.settle(key, self._time)
        message = UserMessage(
            text=self._text("text", value),
            author=self._text("author", value),
            author_kind="person" if kind == "user" else "system",
            meta=self._others(value),
            source=self.writer.source(key, self._text("role", value), key),
        )
        self.writer.write(message, key, self._time)

    def _answer(self, key: str, value: JsonObject) -> None:
        agent = self._speaker(value)
        self.setup.settle(key, self._time)
        answer = AssistantMessage(
            agent=agent,
            parts=self._parts(key, value),
            model=self._text("model", value),
            meta=self._others(value),
            source=self.writer.source(key, "assistant", key),
        )
        self.writer.say(answer, key, self._time)

    def _parts(self, key: str, value: JsonObject) -> list[AssistantPart]:
        thoughts, words = self._text("reasoning", value), self._text("text", value)
        parts: list[AssistantPart] = [ReasoningPart(text=thoughts)] if thoughts else []
        parts += [TextPart(text=words)] if words else []
        for nth, item in enumerate(_items(self._mapping.calls.get("list"), value, self._mapping.calls)):
            call = _call(self._mapping.calls, item, f"{key}-{nth}")
            if call is not None:
                parts.append(call)
        return parts

    def _result(self, key: str, value: JsonObject) -> None:
        """Write a result of the call that it names, else of the previous one."""
        paths = self._mapping.result
        name = words_in(_at(paths.get("name"), value))
        call_id = words_in(_at(paths.get("call"), value)) or self.writer.call_before(name)
        call = self.writer.closed(call_id)
        self.setup.settle(key, self._time)
        words = words_in(_at(paths["text"], value)) if "text" in paths else self._text("text", value)
        result = ToolResult(
            call_id=call_id,
            call=call.ref if call else None,
            name=name or (call.name if call else ""),
            parts=[TextPart(text=words)],
            is_error=_is_true(_at(paths.get("error"), value)),
            meta=self._others(value),
            source=self.writer.source(call_id, "tool", key),
        )
        self.writer.write(result, key, self._time)

    def _others(self, value: JsonObject) -> JsonObject:
        mapping = self._mapping
        used = {
            path.top for paths in (mapping.paths, mapping.calls, mapping.result) for path in paths.values()
        }
        others = {name: each for name, each in value.items() if name not in used}
        return {mapping.name: others} if others else {}

    def _find(self, name: str, value: JsonObject) -> Json:
        return _at(self._mapping.paths.get(name), value)

    def _text(self, name: str, value: JsonObject) -> str:
        return words_in(self._find(name, value))


def _at(path: FieldPath | None, value: Json) -> Json:
    return path.find(value) if path else None


def _items(path: FieldPath | None, value: JsonObject, calls: dict[str, FieldPath]) -> Iterable[Json]:
    if path is None:
        return [value] if calls else []
    found = path.find(value)
    return found if isinstance(found, list) else as_list([found] if found is not None else [])


def _call(paths: dict[str, FieldPath], item: Json, stand_in: str) -> ToolCall | None:
    name = words_in(_at(paths.get("name", FieldPath("name")), item))
    if not name:
        return None
    given = _at(paths.get("arguments", FieldPath("arguments")), item)
    arguments = given if isinstance(given, str) else compact_json({} if given is None else given)
    id = words_in(_at(paths.get("id", FieldPath("id")), item))
    return ToolCall(id=id or stand_in, name=name, arguments=arguments)


def _is_true(value: Json) -> bool:
    """Return whether a value means failure: anything but false, none, nothing and 0, as words too."""
    if isinstance(value, str):
        return value.strip().casefold() not in ("", "0", "false", "no", "none", "null", "ok")
    return bool(value)


def _time(value: Json, default: datetime) -> datetime:
    """Return a time; a CSV has the seconds since 1970 as a text."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    return as_time(value, default)


_JSON = (b"{", b"[")
_SHOWN = 12
"""So many paths of a record are named in an error."""


def read(
    mapping: Mapping, stream: BinaryIO, reader: importers.JsonLinesReader
) -> Iterator[importers.SourceConversation]:
    """Yield a file's conversations, split by the mapping's `conversation` if it has one.

    Raises `UnknownFormatError`, naming the mapping's line, if no record has its fields.
    """
    spool = importers.RecordSpool()
    named = mapping.paths.get("conversation")
    first: Record | None = None
    is_found = False
    for record in _records(mapping, stream, reader):
        first = first or record
        is_found = is_found or mapping.paths["role"].find(record.value) is not None
        spool.add(words_in(named.find(record.value)) if named else "", record)
    if first is None:
        raise UnknownFormatError(f"{mapping.file}: expected records in the file, found none")
    if not is_found:
        raise _not_there(mapping, "role", first.value)
    if "text" in mapping.paths and not _has_text(mapping, spool):
        raise _not_there(mapping, "text", first.value)
    for name in spool:
        yield importers.SourceConversation(name, spool.records(name), partial(Mapped, mapping), unit="record")


def _has_text(mapping: Mapping, spool: importers.RecordSpool) -> bool:
    path = mapping.paths["text"]
    return any(path.find(record.value) is not None for name in spool for record in spool.records(name))


def _not_there(mapping: Mapping, setting: str, value: Json) -> UnknownFormatError:
    written = mapping.paths[setting].written
    paths = list(paths_in(value))
    shown = ", ".join(paths[:_SHOWN]) + (" …" if len(paths) > _SHOWN else "")
    return UnknownFormatError(
        f'{mapping.location(setting)}: {setting} = "{written}": expected it in the records, found none; '
        f"the first record has {shown or 'no field'}"
    )


def _records(mapping: Mapping, stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[Record]:
    """Yield a file's records; CSV if the mapping says so, or if it is neither list nor object."""
    first = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    stream.seek(0)
    if mapping.format == "csv" or (not mapping.format and first and not first.startswith(_JSON)):
        try:
            yield from importers.csv_rows(stream, mapping.delimiter or _delimiter(stream))
        except UnknownFormatError as error:
            raise UnknownFormatError(f"{mapping.file}: {error}") from None
    elif "records" in mapping.paths or first.startswith(b"["):
        yield from _listed(mapping, reader.document(stream), reader)
    else:
        yield from reader.records(stream)


def _delimiter(stream: BinaryIO) -> str:
    """Return the most frequent of the usual signs in the first row."""
    head = stream.readline().decode("utf-8", "replace")
    stream.seek(0)
    return max((",", ";", "\t"), key=head.count)


def _listed(mapping: Mapping, document: Json, reader: importers.JsonLinesReader) -> Iterator[Record]:
    path = mapping.paths.get("records")
    found = path.find(document) if path else document
    if not isinstance(found, list):
        written = f'records = "{path.written}"' if path else "records"
        raise UnknownFormatError(
            f"{mapping.location('records')}: {written}: expected a list there, found "
            f"{'nothing' if found is None else type(found).__name__}"
        )
    for number, item in enumerate(found, 1):
        if isinstance(item, dict):
            yield Record(str(number), item)
        else:
            reader.skipped.append(
                importers.Skipped(number, f"expected an object, found {type(item).__name__}", "record")
            )


def importer_of(path: Path) -> importers.Importer:
    """Return an importer of files that a mapping describes. Raises `CallerError` for a bad one."""
    mapping = read_mapping(path)
    return replace(MAPPING, read=partial(read, mapping), with_mapping=None)


def _mapping_of(stream: BinaryIO) -> Path | None:
    name = getattr(stream, "name", None)
    return next(importers.mappings_beside(Path(name)), None) if isinstance(name, str) else None


def read_beside(
    stream: BinaryIO, reader: importers.JsonLinesReader
) -> Iterator[importers.SourceConversation]:
    """Yield the conversations of a file by the mapping beside it. Raises `UnknownFormatError` without one."""
    path = _mapping_of(stream)
    if path is None:
        raise UnknownFormatError("expected a mapping beside the file, found none")
    yield from read(read_mapping(path), stream, reader)


MAPPING = importers.Importer(
    "mapping",
    read=read_beside,
    with_mapping=importer_of,
)
