"""How words are quoted that are not the reader's own: delimited, and unable to break out.

The law: inside quoted text no delimiter of ours can begin or end. A forged `<message …>` or
`</message>` in it is written with `&lt;`, and nothing else is changed. On the plain wire the delimiters
are markers at the beginning of a line (`User:`); a forged one is written with a backslash before it.
"""

from __future__ import annotations

import re

TAGS = ("message", "tool-result", "summary", "memory", "routing", "note")
_FORGED = re.compile(rf"<(?=/?(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_ENDS = r"\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANKS = rf"[^\S\n{_ENDS}]*"
MARKER = re.compile(
    rf"(?:^|(?<=[{_ENDS}]))({_BLANKS})"
    rf"(?=(?:User|Assistant|System|Tool)(?:{_BLANKS}\([^)\n{_ENDS}]{{0,200}}\))?{_BLANKS}:)",
    re.IGNORECASE | re.MULTILINE,
)
"""What could be taken for a marker of the plain wire: in any case, behind any blanks and line ends."""
_ATTRIBUTE = re.compile(r'[<>"\n\r]')


def escape(text: str) -> str:
    """The text with every forged delimiter made harmless."""
    return _FORGED.sub("&lt;", text)


def quote(tag: str, text: str, **attributes: str) -> str:
    """The text between delimiters: `<tag key="value">`, the text, `</tag>`, each on its own line."""
    shown = "".join(f' {key}="{_ATTRIBUTE.sub("_", value)}"' for key, value in attributes.items() if value)
    return f"<{tag}{shown}>\n{escape(text)}\n</{tag}>"


def under(template: str, name: str, text: str) -> str:
    """The text under a line that says whose it is: `template`, with the name in the place of `{name}`.

    A line of the text that begins as the template begins gets a backslash, so none can be taken for one.
    """
    opening = template.partition("{name}")[0].strip()
    forged = re.compile(
        rf"(?:^|(?<=[{_ENDS}]))({_BLANKS})(?={re.escape(opening)})", re.IGNORECASE | re.MULTILINE
    )
    return "\n".join((template.replace("{name}", " ".join(name.split())), forged.sub(r"\1\\", text)))


def unforged(text: str) -> str:
    """The text with a backslash before everything that could be taken for a marker."""
    return MARKER.sub(r"\1\\", text)


def note(text: str) -> str:
    """A remark of stenolog's own, in brackets."""
    return f"[{text}]"
