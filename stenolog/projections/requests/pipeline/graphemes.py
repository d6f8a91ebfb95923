"""Boundaries of visible characters, at which a text may be cut."""

from __future__ import annotations

import re

# What belongs to the character before it: marks, joiners, variation selectors, skin tones, tags. A list of
# our own, since Python's tables differ from version to version.
_EXTENDS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0951-\u0957\u0981-\u0983\u09bc"
    "\u09be-\u09cd\u0b82\u0bbe-\u0bcd\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u1160-\u11ff\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u200c\u200d\u20d0-\u20f0\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_JOINER = "\u200d"
_LONGEST_CHARACTER = 32


def cut_before(text: str, at: int) -> int:
    """The last place up to `at` (in characters) where nothing that a reader sees as one is cut in two."""
    places = range(at, max(0, at - _LONGEST_CHARACTER), -1)
    return next((place for place in places if _between(text, place)), at)


def cut_after(text: str, at: int) -> int:
    """The first such place from `at` on."""
    places = range(at, min(len(text), at + _LONGEST_CHARACTER))
    return next((place for place in places if _between(text, place)), at)


def _between(text: str, at: int) -> bool:
    """Return whether one character ends before `at`, and another begins there."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    joined = before == _JOINER or _EXTENDS.match(after) or before + after == "\r\n"
    return not (joined or (_FLAG.match(before) and _FLAG.match(after)))
