"""Files beside a log in PostgreSQL: disposable caches of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def sidecar_path(log: str) -> str:
    """Return the prefix of a log's files: below `XDG_CACHE_HOME`, by the log's id."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "stenolog" / log
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(folder / "log")
