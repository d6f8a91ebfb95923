"""The database to use where none is named: that of STENOLOG_DB, else the one in the user's data folder."""

from __future__ import annotations

import os
from pathlib import Path

from .address import is_address

VARIABLE = "STENOLOG_DB"
"""The environment variable that names a database."""


def home_database() -> Path:
    """Return the path of the user's own database, `$XDG_DATA_HOME/stenolog/talks.db`."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has programs ignore a relative path here.
    folder = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return folder / "stenolog" / "talks.db"


def default_database() -> Path | str:
    """Return the path of the database that is used where none is named; an address is a text."""
    named = os.environ.get(VARIABLE)
    if named and is_address(named):
        return named
    return Path(named) if named else home_database()


def make_home(path: Path | str) -> None:
    """Make the folder of the home database, readable by its owner alone; leave any other folder alone.

    Raises OSError.
    """
    # A folder that is missing elsewhere is more likely a slip in a path.
    if isinstance(path, Path) and path == home_database():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
