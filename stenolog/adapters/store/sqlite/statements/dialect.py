"""The shared statements in SQLite."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Any

from stenolog.adapters.store.contract.shared_rows import SharedRows


@cache
def plain(statement: str) -> str:
    """Return a shared statement as SQLite takes it."""
    return statement.replace("{s}.", "").replace("%s", "?")


def _run(connection: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
    return connection.execute(plain(statement), values)


def clean_text(text: str) -> str:
    """Return the text as SQLite takes it: a lone surrogate, which no name has, is replaced."""
    return text.encode(errors="surrogatepass").decode(errors="replace")


shared = SharedRows(_run, clean_text)
