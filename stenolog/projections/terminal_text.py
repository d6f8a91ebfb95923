"""Stored text on a terminal: nobody's words may move the cursor, recolour the screen or turn a line round."""

from __future__ import annotations

import json
import re
from typing import Any, TextIO

# C0, DEL and C1 controls; marks, embeddings, overrides and isolates of direction; line and paragraph
# separators; invisible tags; halves of surrogate pairs.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def safe(text: str) -> str:
    """The text with everything that a terminal would obey spelled out; tabs and line feeds stay."""
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, blanks run together."""
    return " ".join(safe(text).split())


def safe_json(data: Any, *, indent: int | None = None) -> str:
    """The data as JSON that a terminal does not obey; a reader of JSON gets the same data."""
    text = json.dumps(data, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _UNSAFE.sub(_escaped, text)


class EscapedStream:
    """A stream of JSON in front of a terminal: what is written to it is the same data, and not obeyed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write JSON text."""
        return self.stream.write(_UNSAFE.sub(_escaped, text))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
