"""A timeline as a document to read, send and print: Markdown, or one HTML page that loads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from .describe import in_words
from .terminal_text import safe
from .timeline import TimelineItem

MARKS = {"ok": "✓", "failed": "✗", "no result": "-", "running": "…", "awaiting approval": "?"}
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
body, header b { color: #1c1c1c }
h1 { font-size: 1.4rem }
article { margin: 1rem 0; border-left: 3px solid #ccc; padding-left: .8rem }
article.user { border-color: #3a7d44 }
article.assistant { border-color: #2b6cb0 }
article.error { border-color: #c53030 }
.hidden { opacity: .5 }
header, .aside { color: #666; font-size: .85rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; font: inherit }
details pre { font: .85rem/1.4 ui-monospace, monospace }
@media (prefers-color-scheme: dark) { body { background: #191919 } body, header b { color: #ddd } }
"""
HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
<h1>{title}</h1>
"""


def markdown(title: str, items: Iterable[TimelineItem]) -> Iterator[str]:
    """Yield the lines of a Markdown document; what was said stays the Markdown that it is."""
    yield f"# {_plain(title)}\n"
    for item in items:
        yield ""
        match item.kind:
            case "tool":
                called = f" `{_code(item.call.name)}`" if item.call else ""
                yield f"{_heading(item)} calls{called} {MARKS.get(item.status, '')} {item.status}".rstrip()
                yield from _fenced(item.call.arguments if item.call else "", "json")
                yield from _fenced(in_words(item.output), "text")
            case "mode" | "cut" | "running":
                yield f"*{_plain(_aside(item))}*"
            case _:
                detail = f" · {_plain(item.detail)}" if item.detail else ""
                yield f"{_heading(item)}{detail}"
                if said := item.text or in_words(item.parts):
                    yield f"\n{safe(said).rstrip()}"


def _heading(item: TimelineItem) -> str:
    """Return who says it to whom, when, and at which position."""
    return f"**{_plain(_who(item))}** · {_when(item)}"


def _who(item: TimelineItem) -> str:
    return f"{item.author or '?'} → {', '.join(item.to)}" if item.to else item.author or "?"


def _when(item: TimelineItem) -> str:
    hidden = " · out of context" if item.hidden else ""
    return f"{item.time:%Y-%m-%d %H:%M} · {item.position}{hidden}"


def _aside(item: TimelineItem) -> str:
    """Return what is no message in words."""
    return item.detail if item.kind == "mode" else f"{item.author or '?'}: {item.detail}"


def _plain(words: str) -> str:
    """Return words on one line in which nothing is Markdown."""
    return SPECIAL.sub(r"\\\1", " ".join(safe(words).split()))


def _code(words: str) -> str:
    return " ".join(safe(words).replace("`", "'").split())


def _fenced(text: str, language: str) -> Iterator[str]:
    """Yield a block of code; its fence is longer than any in it."""
    if not text:
        return
    shown = safe(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"\n{fence}{language}\n{shown}\n{fence}"


def html(title: str, items: Iterable[TimelineItem]) -> Iterator[str]:
    """Yield the pieces of one HTML page without scripts, pictures and addresses."""
    yield HEAD.format(title=_text(title), style=STYLE)
    for item in items:
        hidden = " hidden" if item.hidden else ""
        match item.kind:
            case "tool":
                yield f'<details class="tool{hidden}">\n<summary>{_text(_called(item))}</summary>\n'
                yield from _block(item.call.arguments if item.call else "")
                yield from _block(in_words(item.output))
                yield "</details>\n"
            case "mode" | "cut" | "running":
                yield f'<p class="aside">{_text(_aside(item))}</p>\n'
            case _:
                yield f'<article class="{_voice(item)}{hidden}">\n<header><b>{_text(_who(item))}</b> '
                yield f"{_text(item.detail)} {_text(_when(item))}</header>\n"
                yield from _block(item.text or in_words(item.parts))
                yield "</article>\n"


def _voice(item: TimelineItem) -> str:
    """Return whose voice an item is in, as a class of the style sheet."""
    if item.kind != "message":
        return "error"
    return "user" if item.author == "user" else "assistant"


def _called(item: TimelineItem) -> str:
    name = item.call.name if item.call else item.detail
    return f"{MARKS.get(item.status, '·')} {item.author or '?'} calls {name} · {_when(item)}"


def _block(text: str) -> Iterator[str]:
    if text:
        yield f"<pre>{_text(text.rstrip())}</pre>\n"


def _text(words: str) -> str:
    """Return words in which nothing is HTML."""
    return escape(safe(words))
