"""Sessions that delay a log's followers: with an unfinished append."""

from __future__ import annotations

from typing import NamedTuple

from .datastore import LogConnection

# A turn is held until the end of its transaction, and followers read below the oldest such transaction.
HOLDERS = """SELECT a.pid, a.application_name, coalesce(a.state, ''),
        extract(epoch FROM clock_timestamp() - a.xact_start)::float
    FROM pg_stat_activity AS a WHERE a.xact_start IS NOT NULL AND a.pid IN (
        SELECT pid FROM pg_locks WHERE granted AND locktype = 'advisory' AND classid = {class}
            AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY a.xact_start"""


class Holder(NamedTuple):
    """A server's session whose transaction followers wait for, and its age in seconds."""

    pid: int
    application: str
    state: str
    seconds: float


def holders(connection: LogConnection) -> list[Holder]:
    """Return the sessions with an unfinished append, oldest first."""
    return [Holder(*row) for row in connection.run(HOLDERS).fetchall()]
