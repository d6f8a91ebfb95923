"""The shared statements in PostgreSQL."""

from __future__ import annotations

from stenolog.adapters.store.contract.shared_rows import SharedRows
from stenolog.adapters.store.postgres.connection.datastore import LogConnection


def can_be_stored(text: str) -> bool:
    """Return whether PostgreSQL accepts the text: no NUL or lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


shared = SharedRows(LogConnection.run, lambda text: text if can_be_stored(text) else None)
