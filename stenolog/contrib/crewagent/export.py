"""Export to a folder that CrewAgent continues, and its folder as a file format."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stenolog import events, importers
from stenolog.analysis import Context, context, settings
from stenolog.errors import CallerError, UnsupportedVersionError
from stenolog.events import Entry

from .folder import (
    CONVERSATIONS,
    MESSAGES,
    are_messages,
    conversations,
    folder_of,
    is_folder_name,
    is_one,
    own_name,
    put,
    read,
)
from .message_format import MessageReader, WritePlace, ignored, is_sent, iso, mode_after, written
from .output_files import NewFiles, WholeOutput, there_already
from .references import Trail, ids_of, is_made, with_ids
from .schema import ACTIVE, OURS, SYSTEM, Message, Shown, restored

if TYPE_CHECKING:
    from stenolog import Conversation


def export_crewagent(conversation: Conversation, folder: Path) -> Path:
    """Write the conversation into a new or existing folder; return its `messages.json`.

    Replaces the same conversation; a fork gets a place of its own. Raises `CallerError` for an unreadable
    index, `UnsupportedVersionError`, `BlobNotFoundError` for a missing picture or output, and OSError.
    """
    entries = list(conversation.entries())
    about, files = _about(_id(conversation, entries), entries), _files_of(conversation, entries, folder)
    return put(folder, about, messages(entries, conversation.log.blobs, files), files)


def _files_of(conversation: Conversation, entries: Sequence[Entry], folder: Path) -> NewFiles:
    """Return files for whole outputs of which messages have a preview.

    An imported result goes where it came from, unless another file is there.
    """
    large = {e.position: e.event for e in entries if isinstance(e.event, events.ToolResult) and e.event.blob}
    outputs, wholes = conversation.outputs, {}
    for each in outputs.listed():
        result = large.get(each.position)
        if result is not None and _is_foreign(result):
            whole = WholeOutput(each.alias, outputs.content(each), is_named=True)
            named = importers.as_dict(result.meta.get(OURS)).get("alias")
            if named == each.alias and there_already(folder, each.alias) in (None, whole.content):
                wholes[each.position] = whole
        elif result is not None and not each.alias.startswith("@project"):
            wholes[each.position] = WholeOutput(each.alias, outputs.content(each))
    return NewFiles(wholes)


def messages(entries: Sequence[Entry], blobs: Mapping[str, bytes], files: NewFiles) -> list[Message]:
    """Return a conversation's messages; fields that they lack are in `stenolog`.

    `files` are written beside them. Raises `UnsupportedVersionError` for an event of a later release.
    """
    now, about = context(entries), _about_of(entries)
    before = Before(MessageReader(Shown.stated(about), files), [], Trail())
    made: dict[str, Message] = {}
    last = max((entry.position for entry in entries if _is_ours(entry.event)), default=0)
    for entry in entries:
        if isinstance(entry.event, events.Unknown):
            raise UnsupportedVersionError(
                f"position {entry.position}: {entry.event.topic} needs a later release"
            )
        if not (is_made(entry.event) or (_is_active_mode(entry.event) and entry.position > last)):
            made[entry.id] = _message(entry, entry.event, before, now, blobs, files)
        before.note(entry.event, entry.id)
    return _identified(made)


class Before(NamedTuple):
    """The context before a message: its reader, the ids by position, and their digests."""

    reader: MessageReader
    ids: list[str]
    trail: Trail

    def note(self, event: events.Known, id: str) -> None:
        """Note one more entry."""
        self.reader.note(event)
        self.ids.append(id)
        self.trail.note(event, id, len(self.ids))


def _message(
    entry: Entry,
    event: events.Known,
    before: Before,
    now: Context,
    blobs: Mapping[str, bytes],
    files: NewFiles,
) -> Message:
    is_out = is_sent(event) and (entry.position in now.out or entry.position in now.covered)
    place = WritePlace(
        entry.id, entry.time, mode_after(event, before.reader.mode), is_sent(event) and not is_out
    )
    hidden = {"includeInContext": False} if is_out else {}
    base = files.with_path(written(event, place, blobs), entry.position, event)
    message = restored(base, event.meta, hidden)
    ours: Message = {} if _is_foreign(event) else {"native": True}
    found: importers.Blobs = {}
    # Whom it is for stands in the messages around it, where CrewAgent wrote it.
    to = tuple(event.to) if isinstance(event, events.UserMessage) and not ours else ()
    heard = before.reader.read({**message, OURS: ours} if ours else message, entry.id, entry.time, found, to)
    ours |= ignored(event, heard)
    if "set" in ours:
        ours["set"] = with_ids(ours["set"], before.ids)
    if isinstance(event, events.AssistantMessage | events.LlmError) and event.receipt is not None:
        ours["prefix"] = before.trail.at(event.receipt.view)
    if isinstance(event, events.ToolResult) and event.blob and event.blob not in found:
        ours["blobs"] = {event.blob: b64encode(blobs[event.blob]).decode()}
    return {**message, OURS: ours} if ours else message


def _identified(made: Mapping[str, Message]) -> list[Message]:
    """Return the messages; one that an import would give another id carries its own."""
    messages = dict(made)
    while True:  # what one says of itself may give another one its id, or take it
        found = ids_of(
            [importers.Record(str(number), message) for number, message in enumerate(messages.values(), 1)]
        )
        astray = [id for id, known in zip(messages, found.values(), strict=True) if id != known]
        silent = [id for id in astray if importers.as_dict(messages[id].get(OURS)).get("id") != id]
        if not silent:
            return list(messages.values())
        messages |= {
            id: {**messages[id], OURS: {**importers.as_dict(messages[id].get(OURS)), "id": id}}
            for id in silent
        }


def _is_foreign(event: events.Known) -> bool:
    return event.source is not None and event.source.system == SYSTEM


def _is_ours(event: events.Event) -> bool:
    return not isinstance(event, events.Unknown) and not _is_foreign(event)


def _is_active_mode(event: events.Known) -> bool:
    return event.source is not None and (event.source.system, event.source.role) == (SYSTEM, ACTIVE)


def _opening_of(entries: Sequence[Entry]) -> events.ModeSwitch:
    first = entries[0].event if entries else None
    return first if isinstance(first, events.ModeSwitch) and is_made(first) else events.ModeSwitch()


def _about_of(entries: Sequence[Entry]) -> Message:
    return importers.as_dict(_opening_of(entries).meta.get(SYSTEM))


def _id(conversation: Conversation, entries: Sequence[Entry]) -> str:
    if not entries:
        raise CallerError(f"{conversation.name!r}: expected a conversation with entries, found none")
    own = importers.as_str(_about_of(entries).get("id"))
    if is_folder_name(own) and not _is_fork(entries) and _is_the_one(conversation, own):
        return own
    quoted = re.sub(r"[/\\\0:%]|^\.", lambda found: f"%{ord(found[0]):02X}", conversation.name)
    return quoted if is_folder_name(quoted) else quoted.replace(".", "%2E")


def _is_fork(entries: Iterable[Entry]) -> bool:
    return any(isinstance(entry.event, events.ModeSwitch) and entry.event.fork for entry in entries)


def _is_the_one(conversation: Conversation, own: str) -> bool:
    """Return whether no other conversation has that name or imported id."""
    name = importers.conversation_name(own)
    if conversation.name == name:
        return True
    others = [
        conversation.log[other]
        for other in conversation.log.names(archived=True)
        if other != conversation.name
    ]
    is_taken = any(_about_of([*other.entries(at=1)]).get("id") == own for other in others)
    return name not in conversation.log and not is_taken


def _about(id: str, entries: Sequence[Entry]) -> Message:
    about, now = _about_of(entries), settings(entries)
    titled = {"title": now.title} if now.title or not about else {}
    has_grown = any(_is_ours(entry.event) for entry in entries)
    if about.get("id") == id and not has_grown:
        return {**about, **titled}
    begun = {} if about else {"createdAt": iso(entries[0].time)}
    lately = {"updatedAt": iso(entries[-1].time), ("mode" if "mode" in about else ACTIVE): now.mode}
    ours = {**importers.as_dict(about.get(OURS)), **_beginning(id, entries)}
    return {**about, "id": id, **begun, **titled, **lately, **({OURS: ours} if ours else {})}


def _beginning(id: str, entries: Sequence[Entry]) -> Message:
    first, own = _opening_of(entries).mode, _about_of(entries).get("id", id)
    found = {"mode": None if first is events.UNCHANGED else first, "id": None if own == id else own}
    return {name: value for name, value in found.items() if value}


def _files(folder: Path) -> Iterator[Path]:
    yield from folder.glob(f"*/{MESSAGES}")
    yield from folder.glob(f"{CONVERSATIONS}/*/{MESSAGES}")


CREWAGENT = importers.Importer(
    "crewagent",
    read=read,
    is_document=are_messages,
    name_of=own_name,
    folder=importers.FolderFormat(folder_of, is_one, conversations, _files),
)
TO_CREWAGENT = importers.Exporter("crewagent", "a folder that CrewAgent reads", write_folder=export_crewagent)
