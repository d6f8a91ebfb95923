"""Export of a conversation as AG-UI's serialized event stream, from which clients restore a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stenolog.frameworks import ag_ui_runs
from stenolog.importers import Exporter, JsonObject

if TYPE_CHECKING:
    from stenolog import Conversation


def document(conversation: Conversation) -> list[JsonObject]:
    """Return the events. Raises `MissingExtraError`."""
    events = ag_ui_runs(conversation.entries())
    return [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in events]


TO_AG_UI = Exporter.of_document("ag-ui", "AG-UI's serialized events", document)
