"""The file of a dsh session: `session.jsonl` or `session.vN.jsonl`, plain or compressed."""

from __future__ import annotations

from stenolog.importers import Importer, Json, JsonObject, LineFormat, as_dict, as_str

from .converter import DeepseekHarness
from .vocabulary import is_event, is_header


def is_session(record: Json) -> bool:
    """Return whether a record is of a session; its head may be lost."""
    value = as_dict(record)
    return is_header(value) or is_event(value)


def session_of(record: JsonObject, _has_begun: bool) -> str:
    """Return the session that a record begins."""
    return as_str(record.get("id")) if is_header(record) else ""


DEEPSEEK_HARNESS = Importer(
    "deepseek-harness",
    lines=LineFormat(DeepseekHarness, session_of),
    is_record=is_session,
)
