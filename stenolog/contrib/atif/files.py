"""Recognise and read files of ATIF trajectories: one document, a list of them, or one on each line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.importers import (
    Importer,
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
)

from .trajectory import Trajectory

PREFIX = "ATIF"


def is_trajectory(value: Json) -> bool:
    """Return whether a value is a trajectory: its version names the format, and it lists steps."""
    found = as_dict(value)
    return as_str(found.get("schema_version")).startswith(PREFIX) and isinstance(found.get("steps"), list)


def is_document(document: Json) -> bool:
    """Return whether a document is a trajectory, or a list of them."""
    return is_trajectory(document) or any(map(is_trajectory, as_list(document)[:1]))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each trajectory in a file."""
    for place, found in reading.items(stream):
        if is_trajectory(found):
            yield _conversation(found)
        else:
            reading.skip(place, "an ATIF trajectory", found)


def _conversation(trajectory: dict[str, Any]) -> SourceConversation:
    """Return the conversation of a trajectory, named by its own id, or else by its session's."""
    name = as_str(trajectory.get("trajectory_id")) or as_str(trajectory.get("session_id"))
    continuation = as_dict(as_dict(trajectory.get("agent")).get("extra")).get("continuation_index")
    if name and isinstance(continuation, int) and not isinstance(continuation, bool):
        name = f"{name}-{continuation}"  # all continuations of a session have its id
    records = [
        Record(str(number), step if isinstance(step, dict) else {"message": step})
        for number, step in enumerate(trajectory["steps"], 1)
    ]
    return SourceConversation(name, records, partial(Trajectory, trajectory=trajectory), unit="step")


ATIF = Importer("atif", read=read, is_document=is_document, is_record=is_trajectory)
