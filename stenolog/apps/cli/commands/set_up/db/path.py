"""Command `db path`."""

from __future__ import annotations

from stenolog.apps.cli.arguments.database import (
    Database,
    ServerDatabase,
)
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult


@command("path", example="stenolog db path")
@takes_db
def db_path_command(db: Database) -> CommandResult:
    """Print the path of the database."""
    if isinstance(db, ServerDatabase):
        # Whether it has a log is not asked: the server may be away.
        return CommandResult({"path": str(db), "exists": None}, lambda: [str(db)])
    return CommandResult({"path": str(db.absolute()), "exists": db.exists()}, lambda: [str(db.absolute())])
