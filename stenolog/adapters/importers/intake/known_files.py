"""Files of earlier imports: unchanged ones are skipped; originals can be kept as blobs.

The memory, with the checkpoints beside the log, may be deleted at any time. A grown file's parts, in order,
are the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from stenolog._version import __version__
from stenolog.adapters.importers.door.json_lines import Skipped
from stenolog.adapters.importers.formats import IMPORTERS, mappings_beside
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.sidecar.checkpoints import WHOLE_LOG, CheckpointRun
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import ORIGINAL
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import ModeSwitch
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str

from . import known_sessions
from .report import Imported, LeftOut, Report

if TYPE_CHECKING:
    from io import BufferedReader

    from stenolog.adapters.conversation.log import Conversation, Log


REVISION = 5
"""Raised when the importers take down more of a file than they did."""
OWN = ("stenolog", "stenolog-db")
"""Formats whose conversations are compared with those of the log each time."""
LARGEST = 100_000
"""Bytes of what is remembered of one file: of one with more, nothing is."""


class KnownFile(NamedTuple):
    """A file's present state: place, requested name, sha256 of its content."""

    path: Path
    name: str | None
    sha: str

    @property
    def key(self) -> str:
        return f"import {json.dumps([str(self.path.absolute()), self.name])}"


def file(path: Path, name: str | None, stream: BinaryIO) -> KnownFile:
    """Return a stream's file; the stream is reset to its start."""
    sha = file_digest(cast("BufferedReader", stream), "sha256").hexdigest()
    stream.seek(0)
    wal = path.with_name(f"{path.name}-wal")  # a database grows there first
    for beside in (*([wal] * wal.is_file()), *mappings_beside(path)):
        with beside.open("rb") as content:
            sha += file_digest(content, "sha256").hexdigest()
    return KnownFile(path, name, sha)


def remember(log: Log, file: KnownFile, report: Report) -> None:
    """Remember an import's result."""
    if report.format in OWN or any(found.failed for found in report.conversations):
        return
    kept = {
        "sha": file.sha,
        "format": report.format,
        "importer": IMPORTERS[report.format].version,
        "conversations": [_entry_of(log, found) for found in report.conversations],
        "skipped": report.skipped,
        "repaired": report.repaired,
        "incomplete": report.incomplete,
        "left_out": report.left_out,
    }
    state = json.dumps(kept).encode()
    if len(state) <= LARGEST:
        log.checkpoints.put(WHOLE_LOG, file.key, _version(), CheckpointRun(0, b"", ((0, state),)))


def recall(log: Log, file: KnownFile) -> Report | None:
    """Return the report of importing an unchanged file again; None if there may be new records."""
    checkpoint = log.checkpoints.get(WHOLE_LOG, file.key, _version(), 0)
    if checkpoint is None:
        return None
    kept = json.loads(checkpoint.state)
    if not _is_same_importer(**kept):
        return None
    if kept["sha"] != file.sha or not all(_is_unchanged(log, **found) for found in kept["conversations"]):
        return None
    left_out = [LeftOut(*found) for found in kept["left_out"]]
    if any(found.name in log or not known_sessions.is_deleted(log, found.mark) for found in left_out):
        return None
    return Report(
        str(file.path),
        kept["format"],
        [_recalled(**found) for found in kept["conversations"]],
        [Skipped(*skipped) for skipped in kept["skipped"]],
        Counter(kept["repaired"]),
        kept["incomplete"],
        left_out,
    )


def note_refusal(log: Log, file: KnownFile, reason: str) -> bool:
    """Remember a refused file; return whether it was refused so before, unchanged."""
    state = json.dumps([file.sha, reason]).encode()
    key = f"refused {file.key}"
    before = log.checkpoints.get(WHOLE_LOG, key, _version(), 0)
    if before is not None and before.state == state:
        return True
    if len(state) <= LARGEST:
        log.checkpoints.put(WHOLE_LOG, key, _version(), CheckpointRun(0, b"", ((0, state),)))
    return False


def _entry_of(log: Log, found: Imported) -> dict[str, Any]:
    position, digest = log.recorder.head(log[found.name].stream)
    return {
        "name": found.name,
        "position": position,
        "digest": digest.hex(),
        "already": found.already + found.appended,
        "skipped": found.skipped,
        "ignored": found.ignored,
        "decisions": found.decisions,
    }


def _is_unchanged(log: Log, name: str, position: int, digest: str, **_: Any) -> bool:
    """Return whether the conversation is as the import left it, apart from later entries."""
    with suppress(PositionNotFoundError):
        return reader.digest_at(log.recorder, log[name].stream, position).hex() == digest
    return False


def _recalled(
    name: str, already: int, skipped: list[Any], ignored: dict[str, int], decisions: dict[str, int], **_: Any
) -> Imported:
    return Imported(
        name,
        already=already,
        skipped=[Skipped(*each) for each in skipped],
        ignored=Counter(ignored),
        decisions=Counter(decisions),
    )


def _is_same_importer(*, format: str, importer: int, **_: Any) -> bool:
    return format in IMPORTERS and IMPORTERS[format].version == importer


def _version() -> str:
    return f"{REVISION} of {__version__}"


PIECE = 8 * 1024 * 1024
"""Bytes of the largest blob that a file is cut into."""


class FilePiece(NamedTuple):
    """A part of a file: its blob and its size."""

    blob: str
    size: int


def keep_original(conversation: Conversation, stream: BinaryIO, file: str) -> None:
    """Keep the file's new bytes as blobs, named by a mode switch without settings."""
    stream.seek(0)
    for piece in file_pieces(conversation.entries()):
        if sha256(stream.read(piece.size)).hexdigest() != piece.blob:
            stream.seek(0)
            break
    pieces: list[Json] = []
    while content := stream.read(PIECE):
        pieces.append({"blob": conversation.log.blobs.put(content), "size": len(content)})
    if pieces:
        switch = ModeSwitch(in_context=False, meta={ORIGINAL: {"file": file, "pieces": pieces}})
        conversation.append(switch, expected=conversation.position)


def file_pieces(entries: Iterable[Entry]) -> list[FilePiece]:
    """Return the pieces of files kept with a conversation, in order."""
    named = [
        as_dict(entry.event.meta.get(ORIGINAL)) for entry in entries if isinstance(entry.event, ModeSwitch)
    ]
    pieces = [as_dict(piece) for original in named for piece in as_list(original.get("pieces"))]
    return [FilePiece(as_str(piece.get("blob")), as_int(piece.get("size"))) for piece in pieces]
