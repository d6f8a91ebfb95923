"""Names of files that a browser saves: those of conversations, whatever characters they have."""

from __future__ import annotations

import re
from urllib.parse import quote

LONGEST = 120
"""The most characters of a file's name, beside its ending."""


def attachment(name: str) -> str:
    """Return the value of `Content-Disposition` by which a browser saves a file under a name and its ending.

    The name comes twice: in letters that every browser takes, and with all of its letters.
    """
    stem, _, ending = name.rpartition(".")
    plain, full = f"{_ascii_name(stem)}.{ending}", f"{_utf8_name(stem)}.{ending}"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{full}"


def _ascii_name(stem: str) -> str:
    """Return the name without other letters; never empty, never that of a hidden file."""
    return re.sub(r"[^A-Za-z0-9~-]+", "-", stem)[:LONGEST].strip("-") or "conversation"


def _utf8_name(stem: str) -> str:
    return quote(re.sub(r"[\x00-\x1f\x7f/\\:]+", "-", stem)[:LONGEST].lstrip("."), safe="") or "conversation"
