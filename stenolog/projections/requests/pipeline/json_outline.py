"""JSON in a few words: its keys, the types and lengths of what they hold, and the first elements.

    {"status": "ok", "rows": [1,200 items: {"id": 1, "name": "Ada"}, …], "log": "begun…" (5,000 characters)}

What fits is shown as the JSON it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from pydantic_core import from_json

from stenolog.projections.requests.tokens import Counter

from .graphemes import cut_before

WHOLE = 256_000
"""JSON of at most so many characters is read as a whole; of a longer one the first `BEGINNING`: 5 MB would
take 200 ms to read."""
BEGINNING = 64_000
WIDEST = 8
"""Characters that are read for each token: few tokens are longer."""
_OPENS = re.compile(r"[ \t\r\n]{0,100}[\[{]")
_DECODER = json.JSONDecoder()


class Detail(NamedTuple):
    """The detail of an outline: levels, keys of an object, items of an array, characters of a text."""

    depth: int
    keys: int
    items: int
    characters: int


DETAILS = (
    Detail(8, 60, 20, 400),
    Detail(8, 60, 10, 300),
    Detail(8, 60, 6, 200),
    Detail(8, 60, 3, 200),
    Detail(6, 40, 3, 120),
    Detail(5, 30, 2, 80),
    Detail(4, 20, 2, 60),
    Detail(3, 15, 1, 40),
    Detail(2, 12, 1, 30),
    Detail(1, 12, 1, 20),
    Detail(1, 8, 0, 20),
    Detail(0, 8, 0, 12),
)
"""From rich to poor; the first that fits is taken."""


class Parsed(NamedTuple):
    """The JSON value of a text; `cut`: only its beginning was read, so its last item may be incomplete."""

    value: dict[str, Any] | list[Any]
    cut: bool


def parse(text: str) -> Parsed | None:
    """The object or array that the text is; None where it is neither.

    The parser is pydantic's: how deep it goes and what it refuses is the same in every Python.
    """
    if not _OPENS.match(text):
        return None
    cut = len(text) > WHOLE
    try:
        return Parsed(_beginning(text) if cut else from_json(text), cut)
    except ValueError:
        return None


def _beginning(text: str) -> Any:
    """Return the value of a text's beginning; drop a number at its end, as it may be cut."""
    read = text[:BEGINNING].rstrip("+-.0123456789Ee")
    value = from_json(read, allow_partial="trailing-strings")
    if not value:
        raise ValueError("nothing whole at its beginning")
    try:
        _DECODER.raw_decode(read.lstrip())
    except ValueError:
        return value
    raise ValueError("it ends before the text does")


def sketch(found: Parsed, tokens: int, counter: Counter) -> str:
    """The JSON in at most so many tokens, as rich as they allow; empty where they allow none."""
    for detail in DETAILS:
        drawn = _within(_drawn(found.value, detail, found.cut), tokens * WIDEST)
        if drawn is not None and counter.count(drawn) <= tokens:
            return drawn
    return ""


def _within(pieces: Iterable[str], most: int) -> str | None:
    """The pieces as one text, unless it is longer than `most`; no more of them is made than that."""
    made = []
    for piece in pieces:
        made.append(piece)
        most -= len(piece)
        if most < 0:
            return None
    return "".join(made)


def _drawn(value: Any, detail: Detail, cut: bool) -> Iterator[str]:
    match value:
        case dict() if value or cut:
            yield from _object(value, detail, cut)
        case list() if value or cut:
            yield from _array(value, detail, cut)
        case str():
            yield _text(value, detail.characters, cut)
        case _:
            written = json.dumps(value)
            yield written if len(written) <= detail.characters else f"{written[: detail.characters]}…"


def _object(value: dict[str, Any], detail: Detail, cut: bool) -> Iterator[str]:
    """`{"key": …, … 3 more keys}`; where it is too deep, the keys alone."""
    yield "{"
    last = len(value) - 1
    for nth, (key, inner) in enumerate(islice(value.items(), detail.keys)):
        yield (", " if nth else "") + _text(key, detail.characters, cut=False)
        if detail.depth:
            yield ": "
            yield from _drawn(inner, _deeper(detail), cut and nth == last)
    if cut:
        yield f"{', ' if value else ''}… {len(value):,} keys or more"
    elif len(value) > detail.keys:
        yield f", … {len(value) - detail.keys:,} more keys"
    yield "}"


def _array(value: list[Any], detail: Detail, cut: bool) -> Iterator[str]:
    """`[1,200 items: …, …]`; where all of them are shown, they alone."""
    shown = value[: detail.items] if detail.depth else []
    whole = len(shown) == len(value) and not cut
    yield "[" if whole else f"[{len(value):,} items{' or more' if cut else ''}{': ' if shown else ''}"
    for nth, inner in enumerate(shown):
        yield ", " if nth else ""
        yield from _drawn(inner, _deeper(detail), cut and nth == len(value) - 1)
    yield "]" if whole or not shown else ", …]"


def _text(text: str, characters: int, cut: bool) -> str:
    if len(text) <= characters and not cut:
        return json.dumps(text, ensure_ascii=False)
    shown = json.dumps(f"{text[: cut_before(text, characters)]}…", ensure_ascii=False)
    return f"{shown} ({len(text):,} characters{' or more' if cut else ''})"


def _deeper(detail: Detail) -> Detail:
    return detail._replace(depth=detail.depth - 1)
