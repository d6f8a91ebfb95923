"""`gc`: remove what no conversation needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .framework import command, open_log, takes_db
from .lines import Piece, line
from .result import CommandResult
from .words import counted


@command("gc")
@takes_db
def gc_command(db: Path) -> CommandResult:
    """Remove the blobs that no entry names. The write-ahead log is emptied.

    A blob that a running process has put for an entry still to come stays. One whose sha256 is kept outside
    of the log alone is removed.
    """
    done = open_log(db).collect()

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{counted(done.blobs, 'blob')} removed, {done.bytes:,} bytes")
        if done.kept:
            kept = counted(done.kept, "blob")
            yield line(("· ", "cyan"), f"{kept} kept for entries that running processes may still append")
        if not done.folded:
            yield line(("! ", "yellow"), f"others are reading: what was deleted may still stand in {db}-wal")

    return CommandResult(done, draw)
