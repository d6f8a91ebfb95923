"""Export of a conversation as AG-UI's serialized event stream, from which clients restore a thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from stenolog.frameworks import ag_ui_runs
from stenolog.importers import Exporter

if TYPE_CHECKING:
    from stenolog import Conversation


def write(conversation: Conversation, stream: TextIO, agent: str) -> None:
    """Write the events as one JSON list. Raises `MissingExtraError`."""
    events = ag_ui_runs(conversation.entries())
    dumped = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in events]
    json.dump(dumped, stream, ensure_ascii=False, indent=2)
    stream.write("\n")


TO_AG_UI = Exporter("ag-ui", "AG-UI's serialized events", write)
