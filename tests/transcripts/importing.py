"""What a process does that is killed while it imports."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import stenolog
from stenolog.adapters.importers.intake import sessions
from stenolog.importers import import_files


def import_in_pieces(database: str, files: list[str], sender: Connection) -> None:
    """Import the files, an entry or two to a transaction, and tell of each that is about to be committed."""
    sessions.BYTES = 1_500
    with stenolog.open(database) as log:
        log.datastore.commit_hooks.append(lambda _: _tell(sender))
        list(import_files(log, files))


def _tell(sender: Connection) -> None:
    os.write(sender.fileno(), b".")
