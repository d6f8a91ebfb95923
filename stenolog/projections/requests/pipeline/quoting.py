"""Quoting of words that are not the reader's own: delimited, and unable to break out.

The law: inside quoted text no delimiter of ours can begin or end. A forged `<message …>` or
`</message>` in it is written with `&lt;`, and nothing else is changed. On the plain API the delimiters
are markers at the beginning of a line (`User:`); a forged one is written with a backslash before it.

A look-alike counts as the delimiter that it looks like: texts are searched in NFKC, and without invisible
characters (zero width spaces, soft hyphens, tag characters).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from unicodedata import category, normalize

from stenolog.domain.parts import FilePart, ImagePart

NO_BRACKETS = str.maketrans("[]", "()")
TOO_LARGE = "is too large to be shown"
TAGS = ("message", "tool-result", "summary", "memory", "routing", "note")
# Possessive quantifiers: a text of many blanks behind `<` is still read in linear time.
_FORGED = re.compile(rf"<(?=\s*+(?:/\s*+)?(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_ENDS = r"\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANKS = rf"[^\S\n{_ENDS}]*"
END_OF = "END OF"
"""Prefix of a title at the end of a block of notes."""
# A set of characters at its beginning, in place of `^`, makes long scans several times faster.
_MARKER = re.compile(
    rf"([\n{_ENDS}]{_BLANKS})"
    rf"(?=(?i:User|Assistant|System|Tool)(?:{_BLANKS}\([^)\n{_ENDS}]{{0,200}}\))?{_BLANKS}:)"
)
"""A marker of the plain API, behind the end of a line."""
REMEMBERED = 16_384
"""Characters up to which a text's markers are cached."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters without a shape of their own that are not of the category Cf."""
_ATTRIBUTE = re.compile(rf'[<>"\n{_ENDS}]')
_NAME = re.compile(rf"[()\n:{_ENDS}]")


class _Looks(dict[int, str]):
    """A table for `str.translate` from each character to the text that it looks like."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        unseen = category(char) == "Cf" or _UNSEEN.match(char)
        self[code] = looks = "" if unseen else normalize("NFKC", char)
        return looks


_LOOKS = _Looks()


def looks(text: str) -> str:
    """Return the text as a reader sees it: in NFKC, character by character, without invisible ones."""
    # ASCII has no look-alikes, and most texts are ASCII.
    return text if text.isascii() else text.translate(_LOOKS)


def _places(text: str, found: list[int]) -> list[int]:
    """Return the places in a text that belong to these places in its visible form."""
    if text.isascii() or not found:
        return found
    # One character may look like several, or like none, so places have to be mapped back.
    starts = [0, *accumulate(len(_LOOKS[ord(char)]) for char in text)]
    return [min(bisect_right(starts, place) - 1, len(text)) for place in found]


def _backslashed(text: str, places: Iterable[int]) -> str:
    """Return the text with a backslash before each of these places."""
    made, last = [], 0
    for place in places:
        made += [text[last:place], "\\"]
        last = place
    return "".join([*made, text[last:]])


def escape(text: str) -> str:
    """Return the text with every forged delimiter made harmless."""
    if text.isascii():
        return _FORGED.sub("&lt;", text)
    places = _places(text, [found.start() for found in _FORGED.finditer(looks(text))])
    made, last = [], 0
    for place in places:
        made += [text[last:place], "&lt;"]
        last = place + 1
    return "".join([*made, text[last:]])


def _blotted(signs: re.Pattern[str], text: str) -> str:
    """Return the text with `_` in place of these signs, and of signs that look like them."""
    if text.isascii():
        return signs.sub("_", text)
    return "".join("_" if signs.search(char) or signs.search(looks(char)) else char for char in text)


def quote(tag: str, text: str, **attributes: str) -> str:
    """Return the text between delimiters: `<tag key="value">`, the text, `</tag>`, each on its own line."""
    shown = "".join(f' {key}="{_blotted(_ATTRIBUTE, value)}"' for key, value in attributes.items() if value)
    return f"<{tag}{shown}>\n{escape(text)}\n</{tag}>"


def heading_name(name: str, template: str) -> str:
    """Return a name for a heading: on one line, and without the other signs of a heading."""
    plain = " ".join(name.split())
    for sign in template.partition("{name}")[::2]:
        plain = plain.replace(sign.strip(), "_") if sign.strip() else plain
    return plain


def under(heading: str, text: str) -> str:
    """Return the text under a line that says whose it is; no delimiter can begin or end in it."""
    return f"{heading}\n{escape(text)}"


def guard(text: str, openings: Iterable[str]) -> str:
    """Return the text with a backslash before each line that begins as one of our own would."""
    for opening in openings:
        begins = r"\s*".join(map(re.escape, looks(opening).split()))
        line = rf"(?:^|(?<=[{_ENDS}]))({_BLANKS})(?={begins})"
        found = re.finditer(line, looks(text), flags=re.IGNORECASE | re.MULTILINE)
        text = _backslashed(text, _places(text, [each.end() for each in found]))
    return text


def label(name: str) -> str:
    """Return a name for a marker of the plain API, which it cannot break out of."""
    return _blotted(_NAME, name)


def markers(text: str) -> Iterator[int]:
    """Yield the line start of each text that could be taken for a marker of the plain API.

    Case does not matter, and neither do blanks and line ends before it.
    """
    return iter(_places(text, [found.start() for found in _MARKER.finditer("\n" + looks(text))]))


def unforged(text: str) -> str:
    """Return the text with a backslash before everything that could be taken for a marker."""
    return _remembered(text) if len(text) <= REMEMBERED else _unforged(text)


def _unforged(text: str) -> str:
    if text.isascii():
        return _MARKER.sub(r"\1\\", f"\n{text}")[1:]
    found = [each.end() - 1 for each in _MARKER.finditer("\n" + looks(text))]
    return _backslashed(text, _places(text, found))


_remembered = lru_cache(maxsize=1_024)(_unforged)


def note(text: str) -> str:
    """Return a remark of stenolog's own, in brackets."""
    return f"[{text}]"


def placeholder(part: ImagePart | FilePart, why: str) -> str:
    """Return the line in place of a picture or a file that cannot be sent."""
    name = f" {part.name}" if isinstance(part, FilePart) and part.name else ""
    what = " ".join(f"{part.type}{name} ({part.media_type})".split())
    return f"[{escape(what).translate(NO_BRACKETS)} {why}]"
