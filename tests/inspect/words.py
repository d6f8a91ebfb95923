"""Words of a page."""

from __future__ import annotations

import re
from html import unescape


def words(page: str) -> str:
    """Return what a reader sees of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
