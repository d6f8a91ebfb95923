"""Stage 3, truncated: large tool output becomes a preview, or an outline of its JSON, with an alias.

    its first lines
    [… 5,241,000 characters left out …]
    its last lines
    [preview of 5,242,880 characters, about 1,310,720 tokens; the whole: read_output(path="…", offset=812)]

Pure: the same text gives the same preview.

    {"status": "ok", "rows": [1,200 items: {"id": 1, "name": "Ada"}, …], "log": "begun…" (5,000 characters)}

What fits is shown as the JSON it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json

from stenolog.domain.entry import Entry
from stenolog.domain.events import ToolResult
from stenolog.domain.parts import Part, TextPart
from stenolog.domain.policy import TruncateToolOutput
from stenolog.projections.messages.quoting import note
from stenolog.projections.messages.sizes import Counter, measure

P = TypeVar("P")
RESULTS = "@state/logs/tool-results/"
"""Prefix of the alias of a tool result."""
READ_OUTPUT = "read_output"
"""The tool that reads the whole; what it gives back is not cut down again."""
LONGEST_READ = 20_000
"""Maximum number of characters that an agent may read at a time."""
_FIT = r"(?!.*\.\.)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?"
_ALIAS = re.compile(rf"{RESULTS}(?:({_FIT})|[A-Za-z0-9_-]{{0,24}}~[0-9a-f]{{24}})\.json")
_GIVEN = re.compile(r"@(?:state|project)(?:/[\w.-]*\w)+")  # no part of it is `..`
_LAST_LINE = 200
_UNFIT = re.compile(r"[^A-Za-z0-9-]+")


class Preview(NamedTuple):
    """A preview, with the whole's tokens (about) and its own."""

    text: str
    tokens_in: int
    tokens_out: int


class Shortened(NamedTuple):
    """The shown part of a text, and the character offset to continue reading from."""

    text: str
    offset: int = 0


def alias(entry_id: str) -> str:
    """Return a tool result's alias by its entry's id: `@state/logs/tool-results/<id>.json`.

    An id unfit for a path is shortened, with a hash; `conversation.outputs` finds it all the same.
    """
    if re.fullmatch(_FIT, entry_id):
        return f"{RESULTS}{entry_id}.json"
    digest = sha256(entry_id.encode(errors="surrogatepass")).hexdigest()[:24]
    return f"{RESULTS}{_UNFIT.sub('_', entry_id)[:24]}~{digest}.json"


def given_alias(result: ToolResult) -> str:
    """Return the alias that another program has given a result; empty if none has."""
    match result.meta:
        case {"stenolog": {"alias": str(given)}} if _GIVEN.fullmatch(given):
            return given
    return ""


def entry_of(path: str) -> str | None:
    """Return the id in the alias of a tool result, "" if it was shortened; None for any other path."""
    found = _ALIAS.fullmatch(path)
    return (found[1] or "") if found else None


def truncate(
    entry: Entry, rule: TruncateToolOutput | None, counter: Counter, *, tool: str = "", version: int = 6
) -> tuple[Part, ...] | None:
    """Return the parts that replace a tool result in an entry; None: it stays as it is.

    `version` is the pipeline's: before 6 only our own alias was named.
    """
    if not isinstance(event := entry.event, ToolResult) or (rule is None and not event.blob):
        return None
    path = (version >= 6 and given_alias(event)) or alias(entry.id)
    return compact(event, path, rule, counter, tool=tool)


def compact(
    result: ToolResult, path: str, rule: TruncateToolOutput | None, counter: Counter, *, tool: str = ""
) -> tuple[Part, ...] | None:
    """Return the parts that replace a tool result, media in their places; None: keep it.

    `path` is its alias, `tool` the called one if known. A result that is a preview already (it has a `blob`)
    always gets the line with the alias.
    """
    if rule is None and not result.blob:
        return None
    text = result.text
    # What an agent asked to read is not cut down again, or it could never read the whole.
    if (tool or result.name) == READ_OUTPUT and len(text) <= LONGEST_READ + _LAST_LINE:
        return None
    # The parts are a preview already, of which only the line with the alias is missing.
    if result.blob:
        shorter = shortened(text, rule, counter) if rule else None
        return with_text(result.parts, _joined(shorter.text if shorter else text, where(path)))
    short = preview(text, path, rule, counter) if rule else None
    return with_text(result.parts, short.text) if short else None


def preview(text: str, path: str, rule: TruncateToolOutput, counter: Counter) -> Preview | None:
    """Return the preview of a text that can be read at `path`; None if the rule allows the whole.

    It has at most `rule.head + rule.tail` tokens, and two lines.
    """
    shorter = shortened(text, rule, counter)
    if shorter is None:
        return None
    tokens = measure(text, counter)
    size = f"preview of {len(text):,} characters, about {tokens:,} tokens; "
    short = _joined(shorter.text, where(path, shorter.offset, size))
    costs = counter.count(short)
    # A preview that costs more than the whole saves nothing.
    return Preview(short, tokens, costs) if costs < tokens else None


def where(path: str, offset: int = 0, size: str = "") -> str:
    """Return the line on how to read the whole."""
    return note(f'{size}the whole: {READ_OUTPUT}(path="{path}", offset={offset})')


def shortened(text: str, rule: TruncateToolOutput, counter: Counter) -> Shortened | None:
    """Return head and tail of a text, or a sketch of its JSON; None if the rule allows the whole."""
    if _small(text, rule.over) or measure(text, counter) <= rule.over:
        return None
    found = parse(text)
    drawn = sketch(found, rule.head + (0 if found.cut else rule.tail), counter) if found else ""
    if found and 0 < len(drawn) < len(text):
        ending = (note("… and its end …"), text[_tail(text, rule.tail, counter) :]) if found.cut else ()
        return Shortened(_joined(drawn, *ending))
    begin = _tail(text, rule.tail, counter)
    end = min(_head(text, rule.head, counter), begin)
    if begin == end:
        return None
    left_out = note(f"… {begin - end:,} characters left out …")
    return Shortened(_joined(text[:end], left_out, text[begin:]), end)


def _small(text: str, tokens: int) -> bool:
    # A token has at least one byte, and a character has at most four bytes.
    return len(text) * 4 <= tokens or (len(text) <= tokens and len(text.encode()) <= tokens)


def _head(text: str, tokens: int, counter: Counter) -> int:
    window = text[: tokens * WIDEST]
    end = _most(len(window), lambda size: counter.count(window[:size]) <= tokens)
    # Only if it costs at most a quarter of the head.
    line = text.rfind("\n", end * 3 // 4, end)
    return line + 1 if line >= 0 else cut_before(text, end)


def _tail(text: str, tokens: int, counter: Counter) -> int:
    """Return the start of the last `tokens` of a text, at a near line's start."""
    window = text[max(0, len(text) - tokens * WIDEST) :]
    size = _most(len(window), lambda size: counter.count(window[len(window) - size :]) <= tokens)
    begin = len(text) - size
    line = text.find("\n", begin, begin + size // 4)
    return line + 1 if line >= 0 else cut_after(text, begin)


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest size up to `most` that fits, by halving; 0 always does."""
    fitting = 0
    while fitting < most:
        tried = (fitting + most + 1) // 2
        if fits(tried):
            fitting = tried
        else:
            most = tried - 1
    return fitting


def _joined(*texts: str) -> str:
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text).removesuffix("\n")


def with_text(parts: Sequence[P], text: str) -> tuple[P | TextPart, ...]:
    """Return the parts with this text in the place of their first text; others go."""
    others = [part for part in parts if not isinstance(part, TextPart)]
    before = next((nth for nth, part in enumerate(parts) if isinstance(part, TextPart)), 0)
    return (*others[:before], TextPart(text=text), *others[before:])


# 5 MB would take 200 ms to read.
WHOLE = 256_000
"""Characters up to which JSON is read as a whole; of a longer one the first `BEGINNING` are read."""
BEGINNING = 64_000
# Few tokens are longer. A long text is never counted as a whole: a real tokenizer would take seconds.
WIDEST = 8
"""Characters that are read for each token."""
_OPENS = re.compile(r"[ \t\r\n]{0,100}[\[{]")
_DECODER = json.JSONDecoder()


class Detail(NamedTuple):
    """The levels, object keys, array items and text characters of an outline."""

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
    """Return the object or array in the text, else None."""
    # The parser is pydantic's: how deep it goes and what it refuses is the same in every Python.
    if not _OPENS.match(text):
        return None
    cut = len(text) > WHOLE
    try:
        return Parsed(_beginning(text) if cut else from_json(text), cut)
    except ValueError:
        return None


def _beginning(text: str) -> Any:
    # A number at the end may be cut in two, and would be another number.
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
    """Return the JSON in at most so many tokens, as rich as possible; "" if they are too few."""
    for detail in DETAILS:
        drawn = _within(_drawn(found.value, detail, found.cut), tokens * WIDEST)
        if drawn is not None and counter.count(drawn) <= tokens:
            return drawn
    return ""


def _within(pieces: Iterable[str], most: int) -> str | None:
    """Return the pieces as one text, unless it is longer than `most`; stop there."""
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
    """Yield `{"key": …, … 3 more keys}`; if too deep, only keys."""
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


# What belongs to the character before it: marks, joiners, variation selectors, skin tones, tags. A list of
# our own, since Python's tables differ from version to version.
_EXTENDS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0951-\u0957\u0981-\u0983\u09bc"
    "\u09be-\u09cd\u0b82\u0bbe-\u0bcd\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u1160-\u11ff\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u200c\u200d\u20d0-\u20f0\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_JOINER = "\u200d"
_LONGEST_CHARACTER = 32


def cut_before(text: str, at: int) -> int:
    """Return the last place up to `at` (in characters) that does not split a visible sign."""
    places = range(at, max(0, at - _LONGEST_CHARACTER), -1)
    return next((place for place in places if _between(text, place)), at)


def cut_after(text: str, at: int) -> int:
    """Return the first such place from `at` on."""
    places = range(at, min(len(text), at + _LONGEST_CHARACTER))
    return next((place for place in places if _between(text, place)), at)


def _between(text: str, at: int) -> bool:
    """Return whether one character ends before `at`, and another begins there."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    joined = before == _JOINER or _EXTENDS.match(after) or before + after == "\r\n"
    return not (joined or (_FLAG.match(before) and _FLAG.match(after)))
