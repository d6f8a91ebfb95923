"""Ids, names and arguments that a provider would refuse, rewritten by deterministic rules.

Acceptable ones stay. A rewriting depends on the value and its place in the log, and for an id on whether the
request has it already.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Any

from stenolog.domain.base.model import check_json
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Tool
from stenolog.projections.views.tool_pairs import CallKey

# The shortest limit of any provider, so that one id holds on every API.
LONGEST_ID = 40
LONGEST_ITEM_ID = 64
LONGEST_TOOL_NAME = 64
_BAD = re.compile(r"[^a-zA-Z0-9_-]")
_EXPONENT = re.compile(r"\d[eE]")
_GOOD = re.compile(r"[a-zA-Z0-9_-]+")


class CallIds:
    """The ids of calls in one request: unique, and acceptable to every provider that ships.

    The first call of an id keeps it; a later one, or one whose id is unfit, gets what can be kept of it and
    its place in the log. `written` are the request's messages, which grow; `earlier` is the number of those
    before them; the ids of the first `known_from` were given by another process.
    """

    def __init__(self, written: Sequence[object] = ()) -> None:
        self._written, self.earlier, self.known_from = written, 0, 0
        self._ids: dict[CallKey, str] = {}
        self._taken: set[str] = set()
        self._given: list[tuple[CallKey | None, str, int]] = []
        self.forms: dict[CallKey, str] = {}
        """The calls that are written in a form of their provider's own, whose results have that form, too."""
        self.callers: dict[CallKey, dict[str, Any]] = {}
        """The programs that made a call, as their provider names them: its result names them, too."""

    def give(self, key: CallKey, call: ToolCall) -> tuple[str, bool]:
        """Return the id of a call, and whether it had to be rewritten."""
        kept = call.id if fits_id(call.id) and call.id not in self._taken else ""
        # By the place in the log, so that an entry is rewritten the same way in every later request.
        made = kept or self._make_id(key, call.id)
        self._ids[key] = made
        self._take(key, made)
        return made, not kept

    def keep(self, id: object) -> bool:
        """Return whether a provider's own item keeps its id: the id is valid and not taken."""
        if not isinstance(id, str) or not fits_id(id, LONGEST_ITEM_ID) or id in self._taken:
            return False
        self._take(None, id)
        return True

    def has(self, id: object) -> bool:
        """Return whether an id was given or kept earlier in this request."""
        return id in self._taken

    def of(self, key: CallKey) -> str:
        """Return the id given to a call earlier in this request."""
        return self._ids[key]

    @property
    def count(self) -> int:
        """The number of ids given so far."""
        return len(self._given)

    def back(self, count: int) -> None:
        """Take back the ids given since."""
        for key, id, _ in self._given[count:]:
            self._taken.discard(id)
            if key is not None:
                del self._ids[key]
        del self._given[count:]

    def since(self, message: int) -> list[tuple[str, int]]:
        """Return the ids given from a message on, each with the number of messages before it."""
        at = bisect_left(self._given, message, key=itemgetter(2))
        return [(id, place) for _, id, place in self._given[at:]]

    def resume(self, ids: Iterable[str], earlier: int, later: Iterable[tuple[str, int]]) -> None:
        """Know the ids given in the first `earlier` messages, which are not held, and those given later."""
        self._given = [(None, id, at) for id, at in later]
        self._taken.update(ids, (id for _, id, _ in self._given))
        self.earlier = self.known_from = earlier

    def _take(self, key: CallKey | None, id: str) -> None:
        self._taken.add(id)
        self._given.append((key, id, self.earlier + len(self._written)))

    def _make_id(self, key: CallKey, raw: str) -> str:
        # At the end, where it is never cut off: it is what makes the id unique.
        place = f"_{key.position}_{key.nth}"
        stem = _BAD.sub("_", raw)[: LONGEST_ID - len(place)] or "call"
        made = stem + place
        while made in self._taken:
            made = sha256(made.encode()).hexdigest()[:LONGEST_ID]
        return made


def called(call: ToolCall) -> str:
    """Return the name of a call's tool, distinct from those of other namespaces."""
    return f"{call.namespace}__{call.name}" if call.namespace else call.name


def tool_name(raw: str) -> str:
    """Return the name if it is valid; else its valid characters, and six digits of its hash."""
    if fits_tool_name(raw):
        return raw
    # With a hash, so that two names which differ only in unfit characters stay apart.
    suffix = "_" + sha256(raw.encode()).hexdigest()[:6]
    return (_BAD.sub("_", raw)[: LONGEST_TOOL_NAME - len(suffix)] or "tool") + suffix


def renamed_tools(tools: Iterable[Tool]) -> dict[str, str]:
    """Return the names of tools that no provider takes, by the names that are sent."""
    return {sent: tool.name for tool in tools if (sent := tool_name(tool.name)) != tool.name}


def arguments_object(raw: str) -> tuple[dict[str, Any], bool]:
    """Return the arguments as a JSON object, and whether they had to be wrapped as `{"_raw": …}`."""
    # An object could not say the same again where a key stands twice, or a number would be rounded.
    # Nor where something in it cannot be written as JSON, or is nested deeper than events may be.
    return (json.loads(raw), False) if _says_the_same(raw) else ({"_raw": raw}, True)


def arguments_text(raw: str) -> tuple[str, bool]:
    """Return the arguments as the text of a JSON object: the raw string if it is one."""
    if _says_the_same(raw):
        return raw, False
    return json.dumps({"_raw": raw}, ensure_ascii=False, separators=(",", ":")), True


def arguments_longest(raw: str) -> str:
    """Return the longest text that the arguments have on any API."""
    # Where they are sent as an object, `1e15` is written with 18 digits.
    text = arguments_text(raw)[0]
    if not _EXPONENT.search(text):
        return text
    again = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    return max(text, again, key=len)


# A call is in many requests.
@lru_cache(maxsize=1_024)
def _says_the_same(raw: str) -> bool:
    """Return whether the text is a JSON object that can be written again unchanged."""
    try:
        parsed = _EXACT.decode(raw)
        return isinstance(parsed, dict) and check_json(parsed) is parsed
    except (ValueError, RecursionError):
        return False


def fits_id(text: str, longest: int = LONGEST_ID) -> bool:
    """Return whether every provider accepts the text as the id of a call."""
    return len(text) <= longest and _GOOD.fullmatch(text) is not None


def fits_tool_name(text: str) -> bool:
    """Return whether every provider accepts the text as the name of a tool."""
    return len(text) <= LONGEST_TOOL_NAME and _GOOD.fullmatch(text) is not None


def _exact(text: str) -> float:
    number = float(text)
    # As decimals: comparing two floats would not show that the text was rounded to the first.
    if number in (float("inf"), float("-inf")) or Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text} would be rounded")
    return number


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made


_EXACT = json.JSONDecoder(parse_float=_exact, object_pairs_hook=_each_key_once)
