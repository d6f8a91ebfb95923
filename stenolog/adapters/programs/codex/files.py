"""Codex's rollouts as a format that can be imported."""

from __future__ import annotations

from stenolog.adapters.importers.door.json_lines import JsonObject
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.projections.messages.json_fields import as_dict, as_str

from . import TYPES
from .sessions import Codex


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return a rollout's session: its first, even if others' history was copied."""
    payload = as_dict(record.get("payload")) if record.get("type") == "session_meta" else {}
    return "" if has_begun else as_str(payload.get("id")) or as_str(payload.get("session_id"))


CODEX = Importer(
    "codex",
    lines=LineFormat(Codex, session_of),
    is_record=lambda value: value.get("type") in TYPES and isinstance(value.get("payload"), dict),
)
