"""Connections that close themselves when nothing refers to them any more."""

from __future__ import annotations

import sqlite3
from contextlib import suppress


class SelfClosingConnection(sqlite3.Connection):
    """A connection of a log, or of a file beside it.

    A log that is forgotten is closed with all its files. The garbage collector may come to its connections
    first, and since Python 3.13 each of SQLite's own warns then that nobody has closed it.
    """

    def __del__(self) -> None:
        # Ctrl-C may have come before it was opened.
        with suppress(sqlite3.ProgrammingError):
            self.close()
