"""Command `db gc`."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.apps.cli.arguments.database import (
    Database,
)
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line


@command("gc", example="stenolog db gc")
@takes_db
def db_gc_command(db: Database) -> CommandResult:
    """Remove unused blobs, and empty the write-ahead log.

    A sha256 that is only kept outside of the log does not count as use.
    """
    done = open_log(db).collect()

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{counted(done.blobs, 'blob')} removed, {done.bytes:,} bytes")
        if done.kept:
            kept = counted(done.kept, "blob")
            yield line(("· ", "cyan"), f"{kept} kept for entries that running processes may still append")
        if not done.is_complete:
            yield line(("! ", "yellow"), f"others are reading: what was deleted may still stand in {db}-wal")

    return CommandResult(done, draw)
