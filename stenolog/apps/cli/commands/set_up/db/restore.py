"""Command `db restore`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from stenolog.adapters.store.contract.address import make_home
from stenolog.apps.cli.arguments.database import (
    DATABASE,
    Database,
    file_of,
)
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line, paragraph
from stenolog.apps.cli.terminal import there

RESTORED = "pg_restore brings back a dump of it; `stenolog import` takes in the conversations of a backup"


@command("restore", example="stenolog db restore copy.db")
@click.argument("file", type=DATABASE)
@click.option("--lift-holds", is_flag=True, help="Restore even if the backup lacks a hold.")
@takes_db
def db_restore_command(db: Database, file: Database, lift_holds: bool) -> CommandResult:
    """Put a backup in the place of the database.

    It is verified first; the old files are moved aside. Refused while a process has the database open, and
    for a hold in force that the backup lacks.
    """
    from stenolog.adapters.conversation.verifying.integrity import restore

    place = file_of(db, RESTORED)
    backup = there(file_of(file, RESTORED))
    make_home(place)
    done = restore(backup, place, lift_holds=lift_holds)

    def draw() -> Iterator[Piece]:
        what = f"{counted(done.conversations, 'conversation')}, {counted(done.entries, 'entry', 'entries')}"
        yield line(("✓ ", "green"), f"{db} is restored from {file}: {what}")
        for moved in done.moved:
            # No line of a screen's width: nothing of a path may be cut.
            yield f"· moved aside: {moved}, {Path(moved).stat().st_size:,} bytes"
        if erased := _may_hold_erased(done.moved, backup):
            yield paragraph(f"! {erased}", "yellow")

    return CommandResult({**done._asdict(), "file": str(file)}, draw)


def _may_hold_erased(moved: Iterable[str], backup: Path) -> str:
    """Name the files that may have words erased since the backup; empty if none was moved aside."""
    files = [*moved, str(backup)]
    return f"{' and '.join(files)} may still hold erased words" if len(files) > 1 else ""
