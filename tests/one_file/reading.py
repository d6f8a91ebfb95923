"""The log in an exported page, read back as the page's script reads it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def data_of(page: str) -> Any:
    """Return the log that stands in the page."""
    found = re.search(r'<script type="application/gzip" id="log">\n(.*?)\n</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def said(data: Any, position: int) -> str:
    """Return what an entry says."""
    return str(data["entries"][position - 1][0])


def numbers(data: Any, number: int) -> tuple[list[int], list[int]]:
    """Return the numbers of a request's rows and omissions."""
    request = data["requests"][number]
    before = numbers(data, number - 1) if request[7] else ([], [])
    made = []
    for old, (first, last, new) in zip(before, (request[8:11], request[11:14]), strict=True):
        made.append([*old[:first], *new, *(old[len(old) - last :] if last else [])])
    return made[0], made[1]


def positions(data: Any, row: int) -> list[int]:
    """Return the positions that a part is from."""
    found = data["rows"]["from"][row]
    return found if isinstance(found, list) else [found]


def text(data: Any, row: int) -> str:
    """Return what a part says."""
    which = data["rows"]["text"][row]
    if which > 0:
        return str(data["texts"][which - 1])
    first = next(iter(positions(data, row)), 0)
    own = said(data, first) if first else ""
    if not which:
        return own
    before, behind = data["wraps"][-1 - which]
    return f"{before}{own}{behind}"
