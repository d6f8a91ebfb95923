"""A timeline as a Markdown document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stenolog.projections.terminal_text import safe

from .calls import MARKS
from .lines import in_words
from .timeline import TimelineItem

HTML = re.compile(r"<(?=[A-Za-z/!?])")
"""The beginning of HTML, and of a link in pointed brackets."""
_HARMLESS = r"https?://|mailto:|\)|[^\s:&()<>]+(?:[\s)>]|$)"
LINK = re.compile(rf"(?<=\])(?=[(:])(?![(:][ \t]*<?(?:{_HARMLESS}))", re.IGNORECASE)
"""The beginning of a link that leads elsewhere than to the web or a file: to a script, say."""
FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(title: str, items: Iterable[TimelineItem]) -> Iterator[str]:
    """Yield the lines of a Markdown document.

    Messages keep their Markdown, but HTML and links that run code are shown as text.
    """
    yield f"# {_plain(title)}\n"
    for item in items:
        yield ""
        match item.kind:
            case "tool":
                called = f" `{_code(item.call.name)}`" if item.call else ""
                yield f"{_heading(item)} calls{called} {MARKS.get(item.status, '')} {_outcome(item)}".rstrip()
                yield from _fenced(item.call.arguments if item.call else "", "json")
                yield from _fenced(in_words(item.output), "text")
            case "mode" | "cut" | "running":
                yield f"*{_plain(_aside(item))}*"
            case _:
                detail = f" · {_plain(item.detail)}" if item.detail else ""
                yield f"{_heading(item)}{detail}"
                if words := item.text or in_words(item.parts):
                    yield f"\n{_harmless(safe(words)).rstrip()}"


def _outcome(item: TimelineItem) -> str:
    return item.note or item.status


def _heading(item: TimelineItem) -> str:
    return f"**{_plain(_who(item))}** · {_when(item)}"


def _who(item: TimelineItem) -> str:
    return f"{item.author or '?'} → {', '.join(item.to)}" if item.to else item.author or "?"


def _when(item: TimelineItem) -> str:
    hidden = " · not sent to the model now" if item.hidden else ""
    return f"{item.time:%Y-%m-%d %H:%M} · {item.position}{hidden}"


def _aside(item: TimelineItem) -> str:
    return item.detail if item.kind == "mode" else f"{item.author or '?'}: {item.detail}"


def _plain(words: str) -> str:
    return SPECIAL.sub(r"\\\1", " ".join(safe(words).split()))


def _harmless(words: str) -> str:
    """Return Markdown in which, outside of code, no HTML begins and no link leads to a script.

    An open block of code is closed.
    """
    lines, fence = [], ""
    for line in words.split("\n"):
        found = FENCE.match(line)
        if not fence:
            fence = found[1] if found else ""
            lines.append(line if found else LINK.sub(r"\\", HTML.sub("&lt;", line)))
        else:
            lines.append(line)
            is_end = found and found[1].startswith(fence) and not line[found.end() :].strip()
            fence = "" if is_end else fence
    return "\n".join([*lines, fence] if fence else lines)


def _code(words: str) -> str:
    return " ".join(safe(words).replace("`", "'").split())


def _fenced(text: str, language: str) -> Iterator[str]:
    if not text:
        return
    shown = safe(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"\n{fence}{language}\n{shown}\n{fence}"
