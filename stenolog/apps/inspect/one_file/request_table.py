"""The requests of a log as tables: each as the difference to the one before, with words that entries have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Omission, Request, RequestPart
from stenolog.projections.requests.part_texts import part_text

from .redaction import Redaction
from .sent import SentRequest

NO_RECEIPT, SAME_BYTES, DIFFERS, NOT_PROVABLE = range(4)
"""Verdicts on a request that was built again."""
BESIDE, NEXT, SAME = 0, 1, 2
"""Places of a part of a request: beside the messages, in the next one, in the same as the part before."""


class Index:
    """Distinct values in the order of their arrival, with their numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value, which is added if it is new."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class RequestTable:
    """The requests: parts and omissions in tables, each as a difference to the one before."""

    def __init__(self, said: Sequence[str], taking: Redaction, *, digests: bool) -> None:
        # A short secret could be guessed by the digest of a body that has it.
        self._said, self._taking, self._clean, self._has_digests = said, taking, taking.clean, digests
        self.lanes, self.apis, self.reasons = Index(), Index(), Index()
        self.rules, self.roles, self.texts, self.wraps = Index(), Index(), Index(), Index()
        self.rows, self.gone = Index(), Index()
        self.requests: list[list[Any]] = []
        self._before = _Before()

    def add(self, sent: SentRequest) -> None:
        """Add the request of a call."""
        call, request = sent.call, sent.request
        lane = self.lanes.number(self._clean(call.lane.address, "an agent's name"))
        first = [lane, self.apis.number(call.api), call.view, call.answer]
        if request is None:
            self.requests.append([*first, self.reasons.number(self._clean(sent.why, "a reason"))])
            return
        where = f"request of {call.lane.address} at {call.view}"
        same = NO_RECEIPT
        if call.sha256:
            same = (
                SAME_BYTES if call.sha256 == request.sha256 else DIFFERS if call.is_provable else NOT_PROVABLE
            )
        goes_on = self._before.lane == lane
        before = self._before if goes_on else _Before()
        rows = self._rows(request, before, where)
        gone = [self.gone.number(self._omission(each)) for each in request.omissions]
        why = self.reasons.number(self._clean(request.reason, where)) if request.reason else -1
        self.requests.append(
            [
                *first,
                why,
                request.sha256[:12] if self._has_digests else "",
                same,
                int(goes_on),
                *_difference(before.rows, rows),
                *_difference(before.gone, gone),
            ]
        )
        self._before = _Before(lane, request.parts, rows, gone)

    @property
    def data(self) -> dict[str, Any]:
        """The tables as JSON."""
        does = [[rule, RULES.get(rule, "")] for rule in self.rules.values]
        return {
            "lanes": self.lanes.values,
            "apis": self.apis.values,
            "reasons": self.reasons.values,
            "rules": does,
            "roles": self.roles.values,
            "texts": self.texts.values,
            "wraps": self.wraps.values,
            "rows": _columns(
                self.rows.values, ("place", "role", "what", "rule", "in", "more", "from", "text")
            ),
            "gone": _columns(self.gone.values, ("first", "last", "rule", "tokens")),
            "requests": self.requests,
        }

    def _rows(self, request: Request, before: _Before, where: str) -> list[int]:
        parts = request.parts
        same = _shared(before.parts, parts)
        rows = before.rows[:same]
        counts = _counts(parts)
        last = parts[same - 1].message if same else -1
        for part in parts[same:]:
            place = BESIDE if part.message < 0 else SAME if part.message == last else NEXT
            last = part.message if part.message >= 0 else last
            text = self._text(request, part, counts[part.message] == 1, where)
            row = (
                place,
                self.roles.number(part.role),
                "kra".index(part.disposition[0]),
                self.rules.number(part.rule),
                part.tokens_in,
                part.tokens_out - part.tokens_in,
                part.positions[0] if len(part.positions) == 1 else part.positions,
                text,
            )
            rows.append(self.rows.number(row))
        return rows

    def _text(self, request: Request, part: RequestPart, alone: bool, where: str) -> int:
        """Return where a part's text comes from: 0, its entry; -n, that in wrap n; n, text n of the table."""
        first = part.positions[0] if part.positions else 0
        hidden = not self._taking.changed.isdisjoint(part.positions)
        # A text that was cut short may have a piece that no pattern finds.
        if part.disposition != "kept":
            hidden |= not self._taking.cleaned.isdisjoint(part.positions)
        text = "" if hidden else self._clean(part_text(request, part, alone), where)
        said = self._said[first]
        if not text or text == said:
            return 0
        begin = text.find(said) if said else -1
        if begin >= 0:
            return -1 - self.wraps.number((text[:begin], text[begin + len(said) :]))
        return 1 + self.texts.number(text)

    def _omission(self, each: Omission) -> tuple[int, int, int, int]:
        return each.first, each.last, self.rules.number(each.rule), each.tokens


class _Before(NamedTuple):
    """The request before, on which the next one is built."""

    lane: int = -1
    parts: Sequence[RequestPart] = ()
    rows: list[int] = []  # noqa: RUF012  (never changed)
    gone: list[int] = []  # noqa: RUF012


def _shared(before: Sequence[RequestPart], now: Sequence[RequestPart]) -> int:
    most = min(len(before), len(now))
    return next((nth for nth in range(most) if before[nth] != now[nth]), most)


def _counts(parts: Sequence[RequestPart]) -> Mapping[int, int]:
    counts: dict[int, int] = {}
    for part in parts:
        counts[part.message] = counts.get(part.message, 0) + 1
    return counts


def _difference(before: list[int], now: list[int]) -> Iterator[Any]:
    """Yield how many numbers are shared at the beginning and at the end, and those between."""
    most = min(len(before), len(now))
    first = next((nth for nth in range(most) if before[nth] != now[nth]), most)
    most -= first
    last = next((nth for nth in range(most) if before[-1 - nth] != now[-1 - nth]), most)
    yield from (first, last, now[first : len(now) - last])


def _columns(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [row[nth] for row in rows] for nth, name in enumerate(names)}
