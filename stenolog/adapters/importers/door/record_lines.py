"""The lines of records in a file, by their ids."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import BinaryIO

from .json_lines import LONGEST_LINE, physical_lines

_NUMBERED = re.compile(r"#[1-9]\d*(?:\.\d+)?", re.ASCII)
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"(\s*:)?|\Z)', re.DOTALL)
_OWN_ID = (b"id", b"uuid")
"""The keys under which a record has its own id, not another's."""


def lines_of(stream: BinaryIO, ids: Collection[str]) -> dict[str, int]:
    """Return the first line of JSON Lines that has each id as its own, else the first that names it.

    `#12`, the id of a record that has none, is line 12.
    """
    own = {id: int(id[1:].partition(".")[0]) for id in ids if _NUMBERED.fullmatch(id)}
    named: dict[str, int] = {}
    for number, raw, _ in physical_lines(stream, LONGEST_LINE):
        text, key = (raw or b"").strip(), b""
        if number == 1 and not (text.startswith(b"{") and text.endswith(b"}")):
            return {}
        for string in _STRING.finditer(text):
            if string[2]:
                key = string[1]
            elif (id := string[1].decode(errors="replace")) in ids:
                (own if key in _OWN_ID else named).setdefault(id, number)
    return named | own
