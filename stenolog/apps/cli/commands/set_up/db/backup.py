"""Command `db backup`."""

from __future__ import annotations

import click

from stenolog.apps.cli.arguments.database import (
    COPIED,
    DATABASE,
    Database,
    file_of,
)
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, done


@command("backup", example="stenolog db backup copy.db")
@click.argument("file", type=DATABASE)
@takes_db
def db_backup_command(db: Database, file: Database) -> CommandResult:
    """Copy the whole database into a file.

    Others may go on writing.
    """
    copy = file_of(file, COPIED)
    log = open_log(db)
    if copy.exists():
        raise click.UsageError(f"{copy} exists; a backup overwrites nothing")
    log.backup(copy)
    return done(f"{db} is backed up as {copy}", db=str(db), file=str(copy), bytes=copy.stat().st_size)
