"""Entries that quote others word for word, so that erasing those leaves the words in the log."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from unicodedata import category, normalize

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_gone
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, Unknown
from stenolog.domain.parts import FilePart, ImagePart

SHORTEST_TEXT = 12
"""A whole text of fewer characters may be elsewhere by chance."""
SHORTEST_LINE = 24
"""A line, or the arguments of a call, of fewer characters may do so."""
LINES = 200
"""Number of lines looked for, the longest first."""
SHORTEST = 4
"""Characters of a text that is looked for in what must not have it."""
DEEPEST = 12
"""So deep is JSON inside of JSON read."""


def quoting(entries: Iterable[Entry], positions: Collection[int]) -> list[int]:
    """Return the positions of other entries that hold a text, a line or the arguments of a call of these."""
    others: list[tuple[int, str]] = []
    wanted: set[str] = set()
    for entry in entries:
        if entry.position in positions:
            wanted.update(_quotable(entry.event))
        elif not is_gone(entry.event):
            others.append((entry.position, REGISTRY.dump(entry.event)[1].decode(errors="replace")))
    # Payloads are JSON, in which line breaks and quotes are escaped.
    longest = sorted(wanted, key=len, reverse=True)[:LINES]
    needles = [json.dumps(words, ensure_ascii=False)[1:-1] for words in longest]
    return [position for position, payload in others if any(words in payload for words in needles)]


def _quotable(event: Event) -> Iterator[str]:
    text = str(getattr(event, "text", "")).strip()
    if len(text) >= SHORTEST_TEXT:
        yield text
    yield from (line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE)
    if isinstance(event, AssistantMessage | LlmError):
        yield from (call.arguments for call in event.tool_calls if len(call.arguments) >= SHORTEST_LINE)


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def readings(text: str) -> Iterator[str]:
    """Yield a text, and what it says after each reading of JSON's escapes: JSON may be inside of JSON."""
    for _ in range(DEEPEST):
        yield text
        if "\\" not in text:
            break
        plain = _ESCAPE.sub(
            lambda found: chr(int(found[1], 16)) if found[1] else _CONTROLS.get(found[2], found[2]), text
        )
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if plain == text:
            break
        text = plain


def folded(text: str) -> str:
    """Return a text as it is compared: case folded, in NFKC, with one blank for each white space.

    Without characters that nobody sees, as a soft hyphen or a joiner.
    """
    if not text.isascii():
        unseen = [each for each in set(text) if category(each) == "Cf"]
        text = normalize("NFKC", text.translate(dict.fromkeys(map(ord, unseen))))
        return " ".join(normalize("NFKC", text.casefold()).split())
    return " ".join(text.casefold().split())


def texts_of(event: Event) -> Iterator[str]:
    """Yield what an event says: texts, arguments of calls, instructions on cards."""
    if isinstance(event, Unknown):
        return
    for part in getattr(event, "parts", ()):
        if not isinstance(part, ImagePart | FilePart):
            yield from (getattr(part, name, "") for name in ("text", "arguments", "raw"))
    if isinstance(event, ModeSwitch):
        yield from (card.persona for card in event.cards.values() if card is not None and card.persona)


def forms_of(text: str) -> Iterator[bytes]:
    """Yield a text as written and as JSON escapes it, if it is long enough."""
    if len(text.strip()) >= SHORTEST:
        yield text.encode("utf-8", "replace")
        yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        yield json.dumps(text)[1:-1].encode()
