"""The place of the files beside a log in PostgreSQL: caches of this machine, which may vanish at any time."""

from __future__ import annotations

import os
from pathlib import Path


def sidecar_path(log: str) -> str:
    """Return the path that the names of a log's files begin with: below `XDG_CACHE_HOME`, by the log's id."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "stenolog" / log
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(folder / "log")
