"""The shared statements in PostgreSQL."""

from __future__ import annotations

from stenolog.adapters.store.contract.shared_rows import SharedRows
from stenolog.adapters.store.postgres.connection.datastore import LogConnection

shared = SharedRows(LogConnection.run)
