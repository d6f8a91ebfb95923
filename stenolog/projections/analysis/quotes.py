"""Entries that quote others word for word, so that erasing those leaves the words in the log."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
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
MANY_LINES = 2_000
"""Number of lines if short ones are looked for too."""
SHORTEST = 4
"""Characters of a text that is looked for in what must not have it."""
DEEPEST = 12
"""So deep is JSON inside of JSON read."""
PIECE = 24
"""Characters of a piece: a quote of twice as many has a whole one, wherever it begins."""
FEWEST_LETTERS = 6
"""A piece of fewer different characters, such as a ruled line, is in any text."""


def quoting(entries: Iterable[Entry], positions: Collection[int], *, also_short: bool = False) -> list[int]:
    """Return the positions of other entries that hold a text, a line or the arguments of a call of these."""
    entries = list(entries)
    quoted = Quoted((one.event for one in entries if one.position in positions), also_short=also_short)
    others = (one for one in entries if one.position not in positions and not is_gone(one.event))
    return [
        one.position for one in others if quoted.is_in(REGISTRY.dump(one.event)[1].decode(errors="replace"))
    ]


class Quoted:
    """The texts, lines and arguments of events, compared by `folded`; `also_short` ones as whole words."""

    def __init__(self, events: Iterable[Event], *, also_short: bool = False) -> None:
        least = (SHORTEST, SHORTEST_TEXT) if also_short else (SHORTEST_TEXT, SHORTEST_LINE)
        wanted = {folded(text) for event in events for text in _quotable(event, *least)}
        self._look_for(wanted, also_short=also_short)

    def _look_for(self, wanted: Iterable[str], *, also_short: bool) -> None:
        longest = sorted(filter(None, wanted), key=len, reverse=True)[: MANY_LINES if also_short else LINES]
        self._words = [words for words in longest if len(words) >= SHORTEST_TEXT]
        short = [re.escape(words) for words in longest if len(words) < SHORTEST_TEXT]
        self._short = re.compile(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)") if short else None

    def is_in(self, text: str) -> bool:
        """Return whether a text quotes one, in JSON inside of JSON too."""
        if not (self._words or self._short):
            return False
        return self._is_said([folded(each) for each in readings(text)])

    def _is_said(self, said: Sequence[str]) -> bool:
        if any(words in each for each in said for words in self._words):
            return True
        return self._short is not None and any(self._short.search(each) for each in said)


class Pieces(Quoted):
    """Texts that are looked for whole, by the line and in pieces; `anywhere` are found in any place."""

    def __init__(self, texts: Iterable[str], anywhere: Iterable[str] = ()) -> None:
        texts = list(texts)
        wanted = {folded(words) for text in texts for words in _lines_of(text, SHORTEST, SHORTEST_TEXT)}
        self._look_for(wanted, also_short=True)
        self._anywhere = [folded(text) for text in anywhere]
        whole = (folded(text) for text in texts)
        found = (text[at : at + PIECE] for text in whole for at in range(0, len(text) - PIECE + 1, PIECE))
        self._pieces = {piece for piece in found if len({*piece}) >= FEWEST_LETTERS}

    def is_in(self, text: str) -> bool:
        """Return whether a text has one, or a piece of one, in JSON inside of JSON too."""
        said = [folded(each) for each in readings(text)]
        return any(words in each for each in said for words in self._anywhere) or self._is_said(said)

    def _is_said(self, said: Sequence[str]) -> bool:
        if super()._is_said(said):
            return True
        pieces = self._pieces
        return bool(pieces) and any(
            text[at : at + PIECE] in pieces for text in said for at in range(len(text) - PIECE + 1)
        )


def _quotable(event: Event, least_text: int, least_line: int) -> Iterator[str]:
    yield from _lines_of(str(getattr(event, "text", "")), least_text, least_line)
    if isinstance(event, AssistantMessage | LlmError):
        yield from (call.arguments for call in event.tool_calls if len(call.arguments) >= least_line)


def _lines_of(text: str, least_text: int, least_line: int) -> Iterator[str]:
    text = text.strip()
    if len(text) >= least_text:
        yield text
    yield from (line for line in map(str.strip, text.splitlines()) if len(line) >= least_line)


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

    Without invisible characters, as a soft hyphen or a joiner.
    """
    if not text.isascii():
        unseen = [each for each in set(text) if category(each) == "Cf"]
        # To translate takes long, and few texts have such characters.
        text = normalize("NFKC", text.translate(dict.fromkeys(map(ord, unseen))) if unseen else text)
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
