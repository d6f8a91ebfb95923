"""Text as HTML: Markdown and code, with classes for their colours.

Texts are anybody's: HTML in them is shown as text, a link as words beside its address, and a picture by its
address alone, so that a page loads nothing and leads nowhere else.
"""

from __future__ import annotations

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
def _markdown() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}, renderer_cls=Renderer)
    return reader.enable(["table", "strikethrough"])


@lru_cache(maxsize=512)
def markdown(text: str) -> Markup:
    """Return Markdown as HTML."""
    return Markup(_markdown().render(text[:LONGEST]))


@lru_cache(maxsize=512)
def code(text: str, name: str = "", language: str = "") -> Markup:
    """Return code as HTML, coloured by a file's name or a language; else as it is."""
    lexer = _lexer(name.replace("\\", "/").rpartition("/")[2], language)
    if lexer is None:
        return Markup(escape(text))
    out = StringIO()
    _formatter().format(lexer.get_tokens(text[:LONGEST_CODE]), out)
    return Markup(out.getvalue() + escape(text[LONGEST_CODE:]))


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
