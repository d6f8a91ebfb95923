"""The templates of the pages, which escape every text."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape


def environment() -> Environment:
    """Return the templates, with the filters that they use."""
    made = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    # A slash is escaped too: the dots of a name like "../x" would else be taken for folders.
    made.filters |= {
        "segment": partial(quote, safe=""),
        "parameters": _parameters,
        "marked_code": _marked_code,
    }
    return made


def _marked_code(text: str) -> Markup:
    """Return a line with what stands between backticks as code."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )


def _parameters(given: dict[str, str | list[str]], **more: object) -> str:
    return urlencode({name: value for name, value in {**more, **given}.items() if value}, doseq=True)
