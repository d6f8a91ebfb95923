"""Large tool output in a request: a preview, and the alias that the whole of it is read by.

    its first lines
    [… 5,241,000 characters left out …]
    its last lines
    [preview of 5,242,880 characters, about 1,310,720 tokens; the whole: read_output(path="…", offset=812)]

Pure: the same text gives the same preview. A long text is never counted as a whole, which would take a real
tokenizer seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar

from stenolog.domain.events import ToolResult
from stenolog.domain.parts import Part, TextPart
from stenolog.domain.policy import TruncateToolOutput
from stenolog.projections.requests.tokens import Counter, measure

from .graphemes import cut_after, cut_before
from .json_outline import WIDEST, parse, sketch
from .quoting import note

P = TypeVar("P")
RESULTS = "@state/logs/tool-results/"
"""Prefix of the alias of a tool result."""
READ_OUTPUT = "read_output"
"""The tool that reads the whole; what it gives back is not cut down again."""
LONGEST_READ = 20_000
"""Maximum number of characters that an agent may read at a time."""
_FIT = r"(?!.*\.\.)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?"
_ALIAS = re.compile(rf"{RESULTS}(?:({_FIT})|[A-Za-z0-9_-]{{0,24}}~[0-9a-f]{{24}})\.json")
_LAST_LINE = 200
_UNFIT = re.compile(r"[^A-Za-z0-9-]+")


class Preview(NamedTuple):
    """A preview and what it saves: tokens of the whole (about), and of the preview."""

    text: str
    tokens_in: int
    tokens_out: int


class Shortened(NamedTuple):
    """The shown part of a text, and the character offset to continue reading from."""

    text: str
    offset: int = 0


def alias(entry_id: str) -> str:
    """The alias of a tool result, by the id of its entry: `@state/logs/tool-results/<id>.json`.

    An id that is unfit for a path is shortened to what is fit of it and a hash; `conversation.outputs` finds
    the entry all the same.
    """
    if re.fullmatch(_FIT, entry_id):
        return f"{RESULTS}{entry_id}.json"
    digest = sha256(entry_id.encode(errors="surrogatepass")).hexdigest()[:24]
    return f"{RESULTS}{_UNFIT.sub('_', entry_id)[:24]}~{digest}.json"


def entry_of(path: str) -> str | None:
    """The id in the alias of a tool result, empty where it was shortened; None for what is no such alias."""
    found = _ALIAS.fullmatch(path)
    return (found[1] or "") if found else None


def compact(
    result: ToolResult, entry_id: str, rule: TruncateToolOutput | None, counter: Counter, *, tool: str = ""
) -> tuple[Part, ...] | None:
    """The parts that stand for a tool result, pictures and files in their places; None: leave it as it is.

    `tool` is the one that was called, where the call is known.
    A result whose parts are a preview already (it has a `blob`) gets the line with the alias, rule or none.
    """
    if rule is None and not result.blob:
        return None
    text, path = result.text, alias(entry_id)
    if (tool or result.name) == READ_OUTPUT and len(text) <= LONGEST_READ + _LAST_LINE:
        return None
    if result.blob:
        shorter = shortened(text, rule, counter) if rule else None
        return with_text(result.parts, _joined(shorter.text if shorter else text, where(path)))
    made = preview(text, path, rule, counter) if rule else None
    return with_text(result.parts, made.text) if made else None


def preview(text: str, path: str, rule: TruncateToolOutput, counter: Counter) -> Preview | None:
    """The preview of a text that can be read at `path`; None where it is no larger than the rule allows.

    It has at most `rule.head + rule.tail` tokens, and two lines.
    """
    shorter = shortened(text, rule, counter)
    if shorter is None:
        return None
    tokens = measure(text, counter)
    size = f"preview of {len(text):,} characters, about {tokens:,} tokens; "
    made = _joined(shorter.text, where(path, shorter.offset, size))
    costs = counter.count(made)
    return Preview(made, tokens, costs) if costs < tokens else None


def where(path: str, offset: int = 0, size: str = "") -> str:
    """The line that says how the whole is read."""
    return note(f'{size}the whole: {READ_OUTPUT}(path="{path}", offset={offset})')


def shortened(text: str, rule: TruncateToolOutput, counter: Counter) -> Shortened | None:
    """Head and tail of a text, or what JSON it is; None where it is no larger than the rule allows."""
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
    """Return whether a text surely has at most so many tokens.

    A token has at least one byte, and a character has at most four bytes.
    """
    return len(text) * 4 <= tokens or (len(text) <= tokens and len(text.encode()) <= tokens)


def _head(text: str, tokens: int, counter: Counter) -> int:
    """Return the end of the first `tokens` of a text, moved to the end of a line if one is near."""
    window = text[: tokens * WIDEST]
    end = _most(len(window), lambda size: counter.count(window[:size]) <= tokens)
    line = text.rfind("\n", end * 3 // 4, end)
    return line + 1 if line >= 0 else cut_before(text, end)


def _tail(text: str, tokens: int, counter: Counter) -> int:
    """Return the start of the last `tokens` of a text, moved to the start of a line if one is near."""
    window = text[max(0, len(text) - tokens * WIDEST) :]
    size = _most(len(window), lambda size: counter.count(window[len(window) - size :]) <= tokens)
    begin = len(text) - size
    line = text.find("\n", begin, begin + size // 4)
    return line + 1 if line >= 0 else cut_after(text, begin)


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """The largest size up to `most` that fits, by halving; 0 always does."""
    fitting = 0
    while fitting < most:
        tried = (fitting + most + 1) // 2
        if fits(tried):
            fitting = tried
        else:
            most = tried - 1
    return fitting


def _joined(*texts: str) -> str:
    """The texts one under the other, without those that are empty."""
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text).removesuffix("\n")


def with_text(parts: Sequence[P], text: str) -> tuple[P | TextPart, ...]:
    """The parts with this text in the place of theirs, which the first of them stands at."""
    others = [part for part in parts if not isinstance(part, TextPart)]
    before = next((nth for nth, part in enumerate(parts) if isinstance(part, TextPart)), 0)
    return (*others[:before], TextPart(text=text), *others[before:])
