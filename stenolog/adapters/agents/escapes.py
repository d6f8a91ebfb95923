"""Escape sequences of terminals, as programs write them."""

from __future__ import annotations

import re

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # what only a terminal understands
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
)
BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")


def without_escapes(text: str) -> str:
    """Return the text without escape sequences, whole ones and those whose beginning or end was cut off."""
    return BEGUN_ESCAPE.sub("", ESCAPES.sub("", text)).replace("\x1b", "")
