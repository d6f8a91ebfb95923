"""A conversation as the old app keeps it, in a folder that it can go on with."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, LaterRelease, NotATranscript
from stenolog.domain.events import UNCHANGED, Known, ModeSwitch, ToolResult, Unknown
from stenolog.domain.settings import settings
from stenolog.projections.context import Context, context

from ..fields import Json, obj, text
from ..lines import Reading
from ..media import Blobs
from .folder import INDEX, MESSAGES, index_in, is_folder_name
from .hearing import Ear, beyond, mode_after
from .schema import OURS, SETTINGS, SYSTEM, Message, restored
from .writing import Place, is_sent, iso, written

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation


def export_crewagent(talk: Conversation, folder: Path) -> Path:
    """Write the conversation into a folder of conversations, new or there already; its `messages.json`.

    A conversation of the same id is replaced, all others stay. Both files are written beside their places
    before either takes its own. Raises `CallerError` where the index there cannot be read, `LaterRelease` for
    an event of one, `MissingBlob` where a picture or an output is gone, and OSError.
    """
    entries = list(talk.entries())
    id = _id(talk.name, entries)
    target, index = folder / id / MESSAGES, folder / INDEX
    _write({target: messages(entries, talk.log.blobs), index: _indexed(index, _about(id, entries))})
    return target


def messages(entries: Sequence[Entry], blobs: Mapping[str, bytes]) -> list[Message]:
    """The messages of a conversation; what they cannot say stands in their field `stenolog`."""
    now, told = context(entries), _about_of(entries)
    ear = Ear(results=told.get("includeToolResultsInContext") is not False)
    made: list[Message] = []
    for entry in entries:
        if isinstance(entry.event, Unknown):
            raise LaterRelease(f"position {entry.position}: {entry.event.topic} needs a later release")
        if not _is_made(entry.event):
            made.append(_message(entry, entry.event, ear, now, blobs))
        ear.note(entry.event)
    return made


def _message(entry: Entry, event: Known, ear: Ear, now: Context, blobs: Mapping[str, bytes]) -> Message:
    mode = mode_after(event, ear.mode)
    place = Place(entry.id, entry.at, mode, is_sent(event) and not _is_out(now, entry.position))
    message = restored(written(event, place, blobs), event.meta)
    ours: Message = {} if _is_foreign(event) else {"native": True}
    if ours and message.get("id") != entry.id:
        ours["id"] = entry.id
    found: Blobs = {}
    heard = ear.hear({**message, OURS: ours} if ours else message, entry.id, entry.at, found)
    ours |= beyond(event, heard)
    if isinstance(event, ToolResult) and event.blob and event.blob not in found:
        ours["blobs"] = {event.blob: b64encode(blobs[event.blob]).decode()}
    return {**message, OURS: ours} if ours else message


def _is_out(now: Context, position: int) -> bool:
    """Whether it is out of context for everybody, or a summary stands in its place."""
    return position in now.out or any(summary.covers(position) for summary in now.summaries)


def _is_foreign(event: Known) -> bool:
    """Whether it was imported."""
    return event.source is not None and event.source.system == SYSTEM


def _is_made(event: Known) -> bool:
    """Whether an import has made it, of no message."""
    return _is_foreign(event) and event.source is not None and event.source.role == SETTINGS


def _opening_of(entries: Sequence[Entry]) -> ModeSwitch:
    """The opening that an import has made; an empty one where the conversation was begun here."""
    first = entries[0].event if entries else None
    return first if isinstance(first, ModeSwitch) and _is_made(first) else ModeSwitch()


def _about_of(entries: Sequence[Entry]) -> Message:
    """What the index said of the conversation when it was imported."""
    return obj(_opening_of(entries).meta.get(SYSTEM))


def _id(name: str, entries: Sequence[Entry]) -> str:
    """The conversation's own id, or its name as a folder may be called."""
    if not entries:
        raise CallerError(f"{name!r}: expected a conversation with entries, found none")
    own = text(_about_of(entries).get("id"))
    quoted = re.sub(r"[/\\\0:%]|^\.", lambda found: f"%{ord(found[0]):02X}", name)
    return own if is_folder_name(own) else quoted


def _about(id: str, entries: Sequence[Entry]) -> Message:
    """The index's entry: as it was, with what has changed since."""
    told, now = _about_of(entries), settings(entries)
    titled = {"title": now.title} if now.title or not told else {}
    has_grown = any(not isinstance(e.event, Unknown) and not _is_foreign(e.event) for e in entries)
    if told and not has_grown:
        return {**told, **titled}
    begun = {} if told else {"createdAt": iso(entries[0].at)}
    lately = {"updatedAt": iso(entries[-1].at), "mode": now.mode}
    first = _opening_of(entries).mode  # which its messages may not tell, and the latest mode is another
    opened = {} if first is UNCHANGED else {OURS: {"mode": first}}
    return {"id": id, **begun, **told, **titled, **lately, **opened}


def _indexed(path: Path, about: Message) -> Json:
    """The index with the entry, in the form that it has."""
    if not path.exists():
        return {"conversations": [about]}
    try:
        with path.open("rb") as stream:
            document = Reading().document(stream)
    except NotATranscript as error:
        raise CallerError(f"{path}: {error}") from None
    entries = index_in(document)
    if entries is None:
        raise CallerError(f"{path}: expected an index of conversations, found something else")
    others = [entry for entry in entries if obj(entry).get("id") != about["id"]]
    at = next((nth for nth, entry in enumerate(entries) if obj(entry).get("id") == about["id"]), len(others))
    whole = [*others[:at], about, *others[at:]]
    return {**document, "conversations": whole} if isinstance(document, dict) else whole


def _write(documents: Mapping[Path, Json]) -> None:
    """Write the files beside their places, and then put them there."""
    parts = {path: path.with_name(f"{path.name}.part") for path in documents}
    try:
        for path, part in parts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            words = f"{json.dumps(documents[path], ensure_ascii=False, indent=2)}\n"
            part.write_text(words, encoding="utf-8", newline="\n")
        for path, part in parts.items():
            part.replace(path)
    finally:
        for path, part in parts.items():
            part.unlink(missing_ok=True)
            with suppress(OSError):  # there is something in it, as there should be
                path.parent.rmdir()
