"""CrewAgent's folder as a format to import and to export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stenolog.importers import Exporter, FolderFormat, Importer

from .export import export_crewagent
from .folder import CONVERSATIONS, MESSAGES, are_messages, conversations, folder_of, is_one, own_name, read


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of messages in and below a folder."""
    yield from folder.glob(f"*/{MESSAGES}")
    yield from folder.glob(f"{CONVERSATIONS}/*/{MESSAGES}")


CREWAGENT = Importer(
    "crewagent",
    "CrewAgent messages",
    read,
    is_document=are_messages,
    name_of=own_name,
    folder=FolderFormat(folder_of, is_one, conversations, _files),
)
TO_CREWAGENT = Exporter("crewagent", "a folder that CrewAgent reads", write_folder=export_crewagent)
