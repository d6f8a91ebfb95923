"""Text as HTML: Markdown and code, with classes for their colours.

Texts are anybody's: HTML in them is shown as text, a link as words beside its address, and a picture by its
address alone, so that a page loads nothing and leads nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from io import StringIO
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

LONGEST = 20_000
"""The most characters of a text that are shown as Markdown."""
LONGEST_CODE = 3_000
"""The most characters whose syntax is coloured."""
LONGEST_KEPT = 4_000
"""The most characters of a text whose HTML is cached."""
MOST_CELLS = 5_000
"""The most cells of tables in a text; with more they are shown as text."""
LINE_END = re.compile(r"\r\n?|\n")
BELOW_HEADER = re.compile(r"[|:+*>.)\d\s]*-[-|:+*>.)\d\s]*")
"""A line that may divide a table's header from its rows, perhaps in a list or a quotation."""


class Renderer(RendererHTML):
    """Writer of Markdown's HTML without links, pictures, and styles of its own."""

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Begin the words of a link."""
        return '<span class="link">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """End the words of a link, and write its address unless the words are it."""
        opened = next(at for at in range(idx, -1, -1) if tokens[at].type == "link_open")
        address = str(tokens[opened].attrs.get("href", ""))
        words = "".join(token.content for token in tokens[opened:idx])
        return "</span>" if words == address else f'</span> <span class="dim">({escape(address)})</span>'

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Begin a heading, which is none of the page's own."""
        return '<p class="heading">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """End a heading."""
        return "</p>\n"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Write the words and the address of a picture."""
        token, address = tokens[idx], str(tokens[idx].attrs.get("src", ""))
        return (
            f'<span class="link">{escape(token.content)}</span> <span class="dim">({escape(address)})</span>'
        )

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Write a block of code, coloured by the language that it names."""
        token = tokens[idx]
        coloured = code(token.content, language=token.info.strip().partition(" ")[0])
        return f'<pre class="code">{coloured}</pre>\n'

    @staticmethod
    def renderAttrs(token: Token) -> str:
        """Write the attributes of a tag without a style."""
        token.attrs.pop("style", None)
        return RendererHTML.renderAttrs(token)


@cache
def _markdown(*rules: str) -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}, renderer_cls=Renderer)
    return reader.enable(["strikethrough", *rules])


def markdown(text: str) -> Markup:
    """Return Markdown as HTML."""
    return (_kept_markdown if len(text) <= LONGEST_KEPT else _rendered)(text[:LONGEST])


def _rendered(text: str) -> Markup:
    tables = ["table"] if cells(text) <= MOST_CELLS else []
    return Markup(_markdown(*tables).render(text))


_kept_markdown = lru_cache(maxsize=512)(_rendered)


def cells(text: str) -> int:
    """Return how many cells the tables of a text have at most: a row is filled to the header's width."""
    number = columns = 0
    for line in LINE_END.split(text):
        if not line.strip():
            columns = 0
        elif BELOW_HEADER.fullmatch(line):
            columns = max(columns, line.count("|") + 1)
        number += columns
    return number


def code(text: str, name: str = "", language: str = "") -> Markup:
    """Return code as HTML, coloured by a file's name or a language; else as it is."""
    find = _kept_code if len(text) <= LONGEST_KEPT else _coloured
    return find(text, name.replace("\\", "/").rpartition("/")[2], language)


def _coloured(text: str, name: str, language: str) -> Markup:
    lexer, text = _lexer(name, language), LINE_END.sub("\n", text)
    # Lexers of sessions drop a line that does not end.
    start = f"{text}\n" if len(text) < LONGEST_CODE else text[: text.rfind("\n", 0, LONGEST_CODE) + 1]
    tokens = list(lexer.get_tokens(start)) if lexer is not None else []
    if "".join(words for _, words in tokens) != start:
        return Markup(escape(text))
    out = StringIO()
    _formatter().format(tokens, out)
    end = text[len(start) :]
    return Markup(out.getvalue() + escape(end) if end else out.getvalue().removesuffix("\n"))


_kept_code = lru_cache(maxsize=512)(_coloured)


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)


@lru_cache(maxsize=256)
def _lexer(name: str, language: str) -> Lexer | None:
    try:
        if language:
            return get_lexer_by_name(language, stripnl=False, ensurenl=False)
        found = find_lexer_class_for_filename(name) if name else None
    except (ClassNotFound, ValueError):
        return None
    return found(stripnl=False, ensurenl=False) if found else None


def forget() -> None:
    """Empty the caches, which may have words that were erased."""
    for cached in (_kept_markdown, _kept_code, _lexer):
        cached.cache_clear()
