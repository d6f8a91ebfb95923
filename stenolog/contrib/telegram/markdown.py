"""Markdown, as models write it, in the form that Telegram calls MarkdownV2.

What is known (code, headings, bold, italic, struck out, links, lists, quotes) is carried over; every other
mark is escaped, so that it stands there as it was written.
"""

from __future__ import annotations

import re

from stenolog.chats import Fence, fence_of, utf16_length

MARKS = "_*[]()~`>#+-=|{}.!\\"
SPECIAL = re.compile(rf"[{re.escape(MARKS)}]")
IN_CODE = re.compile(r"[`\\]")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*?)(?:[ \t]+#+)?[ \t]*")
BULLET = re.compile(r"([ \t]*)[-*+] (?=.*\S)")
QUOTE = re.compile(r"> ?")
INLINE = re.compile(
    r"(?P<ticks>(?<!`)`+(?!`))(?P<code>[^\n]*?\S[^\n]*?)(?<!`)(?P=ticks)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|\[(?P<words>[^\[\]\n]*[^\[\]\s][^\[\]\n]*)\]\((?P<url>https?://[^\s()<>\\`]+)\)"
    r"|\*\*(?=\S)(?P<bold>[^*`\n]*[^*`\s])\*\*"
    r"|(?<!\w)__(?=\S)(?P<strong>[^_`\n]*[^_`\s])__(?!\w)"
    r"|~~(?=\S)(?P<struck>[^~`\n]*[^~`\s])~~"
    r"|(?<![\w*])\*(?=\S)(?P<italic>[^*`\n]*[^*`\s])\*(?![\w*])"
    r"|(?<!\w)_(?=\S)(?P<slanted>[^_`\n]*[^_`\s])_(?!\w)"
)
AROUND = {"bold": "*", "strong": "*", "struck": "~", "italic": "_", "slanted": "_"}


def weigh(text: str) -> int:
    """Return the most that a rendered text weighs, in UTF-16 code units: any mark may be escaped."""
    return utf16_length(text) + len(SPECIAL.findall(text))


def escaped(text: str) -> str:
    """The text, with nothing in it that Telegram would take for a mark."""
    return SPECIAL.sub(r"\\\g<0>", text)


def rendered(text: str) -> str:
    """Markdown as MarkdownV2. A block of code that is not ended is ended with the text."""
    rows, fence = [], None
    for line in text.split("\n"):
        found = fence_of(line)
        if fence is None:
            fence = found
            rows.append(_opening(found) if found else _line(line))
        elif found and found.ends(fence):
            fence = None
            rows.append("```")
        else:
            rows.append(_code(line))
    return "\n".join(rows if fence is None else [*rows, "```"])


def _opening(fence: Fence) -> str:
    return f"```{_code(fence.language.partition(' ')[0])}"


def _code(text: str) -> str:
    return IN_CODE.sub(r"\\\g<0>", text)


def _line(line: str) -> str:
    if heading := HEADING.fullmatch(line):
        return f"*{escaped(heading[1].replace('**', ''))}*"
    if quote := QUOTE.match(line):
        return f">{_inline(line[quote.end() :])}"
    if bullet := BULLET.match(line):
        return f"{bullet[1]}• {_inline(line[bullet.end() :])}"
    return _inline(line)


def _inline(text: str) -> str:
    made, end = [], 0
    for found in INLINE.finditer(text):
        made += [escaped(text[end : found.start()]), _marked(found)]
        end = found.end()
    return "".join([*made, escaped(text[end:])])


def _marked(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "code":
            return f"`{_code(found['code'])}`"
        case "escaped":
            return escaped(found["escaped"])
        case "url":
            return f"[{escaped(found['words'])}]({found['url']})"
        case str(name):
            return f"{AROUND[name]}{escaped(found[name])}{AROUND[name]}"
        case None:  # pragma: no cover - every alternative has a name
            return escaped(found[0])
