"""How words are quoted that are not the reader's own: delimited, and unable to break out.

The law: inside quoted text no delimiter of ours can begin or end. A forged `<message …>` or
`</message>` in it is written with `&lt;`, and nothing else is changed. On the plain wire the delimiters
are markers at the beginning of a line (`User:`); a forged one is written with a backslash before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

TAGS = ("message", "tool-result", "summary", "memory", "routing", "note")
_FORGED = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_ENDS = r"\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANKS = rf"[^\S\n{_ENDS}]*"
END_OF = "END OF"
"""What the title of a block of notes has before it where the block ends."""
_MARKER = re.compile(
    rf"([\n{_ENDS}]{_BLANKS})"
    rf"(?=(?i:User|Assistant|System|Tool)(?:{_BLANKS}\([^)\n{_ENDS}]{{0,200}}\))?{_BLANKS}:)"
)
"""A marker behind the end of a line. It begins with a set of characters that is looked for in any case: the
scan over a long text is several times faster so."""
REMEMBERED = 16_384
"""Texts of so many characters are not looked through again for each request that they are in."""
_ATTRIBUTE = re.compile(rf'[<>"\n{_ENDS}]')
_NAME = re.compile(rf"[()\n:{_ENDS}]")


def escape(text: str) -> str:
    """The text with every forged delimiter made harmless."""
    return _FORGED.sub("&lt;", text)


def quote(tag: str, text: str, **attributes: str) -> str:
    """The text between delimiters: `<tag key="value">`, the text, `</tag>`, each on its own line."""
    shown = "".join(f' {key}="{_ATTRIBUTE.sub("_", value)}"' for key, value in attributes.items() if value)
    return f"<{tag}{shown}>\n{escape(text)}\n</{tag}>"


def named(name: str, template: str) -> str:
    """A name as it stands in a heading: on one line, and without what else a heading is made of."""
    plain = " ".join(name.split())
    for sign in template.partition("{name}")[::2]:
        plain = plain.replace(sign.strip(), "_") if sign.strip() else plain
    return plain


def under(heading: str, text: str) -> str:
    """The text under a line that says whose it is; no delimiter can begin or end in it."""
    return f"{heading}\n{escape(text)}"


def guard(text: str, openings: Iterable[str]) -> str:
    """The text with a backslash before each line that begins as one of our own would."""
    for opening in openings:
        begins = r"\s*".join(map(re.escape, opening.split()))
        line = rf"(?:^|(?<=[{_ENDS}]))({_BLANKS})(?={begins})"
        text = re.sub(line, r"\1\\", text, flags=re.IGNORECASE | re.MULTILINE)
    return text


def label(name: str) -> str:
    """A name as it stands in a marker of the plain wire, which it cannot break out of."""
    return _NAME.sub("_", name)


def markers(text: str) -> Iterator[int]:
    """Where something stands that could be taken for a marker of the plain wire: in any case, behind any
    blanks and line ends. Each place is the beginning of its line."""
    return (found.start() for found in _MARKER.finditer(f"\n{text}"))


def unforged(text: str) -> str:
    """The text with a backslash before everything that could be taken for a marker."""
    return _remembered(text) if len(text) <= REMEMBERED else _unforged(text)


def _unforged(text: str) -> str:
    return _MARKER.sub(r"\1\\", f"\n{text}")[1:]


_remembered = lru_cache(maxsize=1_024)(_unforged)


def note(text: str) -> str:
    """A remark of stenolog's own, in brackets."""
    return f"[{text}]"
