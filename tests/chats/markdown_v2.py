"""MarkdownV2 as Telegram reads it: strictly. Written from its documentation, to judge what we render."""

from __future__ import annotations

RESERVED = "_*[]()~`>#+-=|{}.!"
ENDS = ("__", "||", "_", "*", "~")


class CannotParseError(Exception):
    """The text is no MarkdownV2."""


def read(text: str) -> str:
    """Return the text as people read it. Raises `CannotParseError`."""
    made: list[str] = []
    open_marks: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text) and 0 < ord(text[at + 1]) < 127:
            made.append(text[at + 1])
            at += 2
        elif text.startswith("```", at):
            at = _code(text, at, "```", made)
        elif char == "`":
            at = _code(text, at, "`", made)
        elif char == ">" and (at == 0 or text[at - 1] == "\n"):
            at += 1
        elif mark := next((mark for mark in ENDS if text.startswith(mark, at)), ""):
            _toggle(mark, open_marks, at)
            at += len(mark)
        elif char == "[":
            open_marks.append("[")
            at += 1
        elif char == "]" and open_marks and open_marks[-1] == "[":
            open_marks.pop()
            at = _url(text, at + 1)
        elif char in RESERVED:
            raise CannotParseError(f"character {char!r} is reserved and must be escaped, at {at} of {text!r}")
        else:
            made.append(char)
            at += 1
    if open_marks:
        raise CannotParseError(f"can't find end of the entity {open_marks[-1]!r} in {text!r}")
    return "".join(made)


def _toggle(mark: str, open_marks: list[str], at: int) -> None:
    if mark in open_marks:
        if open_marks[-1] != mark:
            raise CannotParseError(f"{mark!r} at {at} ends before {open_marks[-1]!r} does")
        open_marks.pop()
    else:
        open_marks.append(mark)


def _code(text: str, at: int, mark: str, made: list[str]) -> int:
    """Read code, whose only escapes are those of a backtick and a backslash; where it ends."""
    begin = at = at + len(mark)
    content = ""
    while not text.startswith(mark, at):
        if at >= len(text):
            raise CannotParseError(f"can't find end of the code that begins at {begin} of {text!r}")
        at += text[at] == "\\"
        content += text[at : at + 1]
        at += 1
    if mark == "```":
        first, line_end, rest = content.partition("\n")
        content = rest if line_end and " " not in first else content
    made.append(content)
    return at + len(mark)


def _url(text: str, at: int) -> int:
    end = text.find(")", at)
    if not text.startswith("(", at) or end < 0:
        raise CannotParseError(f"a link without an address at {at} of {text!r}")
    return end + 1
