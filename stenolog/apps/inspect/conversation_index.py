"""Index of a conversation: the little that its pages need of all entries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from sys import maxsize
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from stenolog.domain.entry import EPOCH, Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.state import address
from stenolog.projections.analysis.cache.stated import StatedMisses
from stenolog.projections.analysis.provider_bill import states_input
from stenolog.projections.requests import lanes
from stenolog.projections.views.acts import has_failed
from stenolog.projections.views.calls import CallOutcome, CallStatus, missing, of_result
from stenolog.projections.views.edits import ChangedFiles, Edit, changed_files, edits
from stenolog.projections.views.lines import USER, is_cut
from stenolog.projections.views.outline import Outline, OutlineRow
from stenolog.projections.views.overview import is_turn
from stenolog.projections.views.timeline import changes, cut_of
from stenolog.projections.views.tool_pairs import Call, CallKey, Pair, ToolCallIndex
from stenolog.projections.views.usage import is_api_error

KINDS = {
    "messages": "uas",
    "answers": "as",
    "model calls": "asei",
    "tools": "txod",
    "errors": "exod",
    "settings": "mcn",
    "cuts": "cs",
}
"""Kinds of entries that a list can be narrowed to, each with its letters in the index."""
READ = b"uasoeidc?"
"""The letters of what is read by itself; a change of mode is, after the first message."""
NOBODY = {"": 0}
"""In the place of sub-agents and their calls, if an entry is part of nobody's work."""
FIELDS = frozenset(
    "position digest agents kinds whose spans results cuts cut waiting called_at billed asked outline "  # noqa: SIM905
    "missed edits".split()
)
"""The fields of an index that is stored."""


class PairedResult(NamedTuple):
    """A tool's result: the position of its call, the call's index there, the tool, and milliseconds."""

    call: int
    nth: int
    tool: str
    took: int | None


class ConversationIndex:
    """The entries of a conversation in a few letters and numbers each, up to a position.

    `agents` are the lanes with a request, by their first position. `kinds` has a letter for each position: u
    message, a answer, s summary, t result, x failed result, o result without its call, d further result of a
    call, e failed model call, i cancelled one, m change of mode, c cut, n settings of another program, ?
    anything else.
    `whose` has the number of its lane for each position (0: persons and the system), `spans` each lane's
    first and last position. `results` are by position, `cuts` the places at which a window began to move,
    `billed` the answers that state their request's bill, `asked` the lanes that a person speaks to, by
    position. `outline` has the turns, `missed` the tokens of misses of the cache, by position, `edits` those
    of files.

    One thread adds entries while others read: these read up to `position`, which is set last.
    """

    def __init__(self) -> None:
        self.position = 0
        self.digest = ""
        self.agents: dict[str, int] = {}
        self.kinds = bytearray()
        self.whose: list[int] = []
        self.spans: dict[str, tuple[int, int]] = {"": (0, 0)}
        self.results: dict[int, PairedResult] = {}
        self.cuts: list[int] = []
        self.billed: set[int] = set()
        self.asked: dict[int, list[str]] = {}
        self.calls: dict[tuple[int, int], int] = {}
        self.outline = Outline()
        self.edits: list[Edit] = []
        self._misses = StatedMisses()
        self._pairing = ToolCallIndex()
        self._called_at: dict[int, datetime] = {}
        self._cut: dict[str, str] = {}
        self._names = [""]
        self._numbers = {"": 0}
        self._filtered: dict[tuple[str, str], tuple[int, list[int]]] = {}
        self._worked: tuple[int, Mapping[int, Mapping[str, int]]] = (0, {})

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        event, at = entry.event, entry.position
        pair = self._pairing.take(entry)
        result = self._paired(entry, pair)
        self.kinds.append(ord(letter_of(event, pair)))
        where = lane_of(event) if result is None else self._names[self.whose[result.call - 1]]
        # Most entries are of a lane that is known, and bring no other.
        if isinstance(event, UserMessage | ModeSwitch) or (result is None and where not in self.agents):
            for lane in lanes([entry]):
                self.agents.setdefault(lane.address, at)
        self.whose.append(self._number(where, at))
        heard = addressed(event)
        for to in heard:
            self._number(to, at)
        if isinstance(event, UserMessage) and is_turn(event):
            self.asked[at] = heard
        self._note_cut(event, at)
        self.outline.take(entry)
        self.edits += edits(entry)
        self._misses.take(entry)
        if states_input(event):
            self.billed.add(at)
        self.position, self.digest = at, entry.digest

    @property
    def missed(self) -> dict[int, int]:
        """The tokens that answers read anew though the cache had them, by position."""
        return self._misses.tokens

    def files(self, first: int = 1, end: int | None = None) -> ChangedFiles:
        """Return the files that were changed from a position on, up to before another.

        Calls that failed, or have no result, changed none.
        """
        last = len(self.edits) if end is None else bisect_left(self.edits, (end,))
        found = self.edits[bisect_left(self.edits, (first,)) : last]
        return changed_files(each for each in found if each.nth < 0 or self._ended_well(each))

    def _ended_well(self, edit: Edit) -> bool:
        result = self.calls.get((edit.position, edit.nth), 0)
        return bool(result) and self.kinds[result - 1] == ord("t")

    def missing_calls(self, open: dict[CallKey, CallStatus]) -> set[CallKey]:
        """Return the calls without a result that are not among the open ones."""
        return missing((call.key for call in [*self._pairing.waiting]), open)

    def outcome(self, entry: Entry) -> CallOutcome:
        """Return the outcome of a result. Raises `TypeError` for any other entry."""
        if not isinstance(entry.event, ToolResult):
            raise TypeError(f"expected a result, found {entry.event.kind}")
        found = self.results.get(entry.position)
        call = Call(CallKey(found.call, found.nth), "", "", found.tool, "") if found else None
        second = self.kinds[entry.position - 1] == ord("d")
        return of_result(entry.event, Pair(entry.position, call, second))

    def lane_at(self, position: int) -> str:
        """Return the address of an entry's lane; "" is that of persons and the system."""
        return self._names[self.whose[position - 1]]

    def ticks(self, open: dict[CallKey, CallStatus]) -> dict[str, list[int]]:
        """Return the positions that a slider marks, by kind."""
        missing = {position for position, _ in self.missing_calls(open)}
        return {
            "calls": self.of_kind("asei"),
            "modes": self.of_kind("m"),
            "summaries": self.of_kind("s"),
            "cuts": sorted({*self.of_kind("c"), *self.cuts}),
            "errors": sorted({*self.of_kind(KINDS["errors"]), *missing}),
        }

    def of_kind(self, letters: str) -> list[int]:
        """Return the positions of the entries of these kinds."""
        wanted = frozenset(letters.encode())
        return [position for position, kind in enumerate(self.kinds[: self.position], 1) if kind in wanted]

    def filtered(self, only: str, of: str) -> Sequence[int]:
        """Return the positions of the entries of a kind and a lane; "" is any."""
        if not only and not of:
            return range(1, self.position + 1)
        upto, found = self._filtered.get((only, of), (0, []))
        if upto < (head := self.position):
            wanted = frozenset(KINDS.get(only, "").encode())
            lane = self._numbers.get(of, -1)
            new = enumerate(zip(self.kinds[upto:head], self.whose[upto:head], strict=True), upto + 1)
            found = found + [
                position
                for position, (kind, whose) in new
                if (not only or kind in wanted) and (not of or whose == lane)
            ]
            self._filtered[only, of] = head, found
        return found

    @property
    def turns(self) -> list[OutlineRow]:
        """The rows of the outline that are turns."""
        return [row for row in self.outline.rows if not row.lane]

    @property
    def untold(self) -> int:
        """1 if the first of `turns` only has calls before the first message, 0 if not."""
        return sum(at not in self.asked for at in self.outline.begins[:1])

    @property
    def started(self) -> dict[CallKey, list[OutlineRow]]:
        """The work of sub-agents, by the call that started it."""
        found: dict[CallKey, list[OutlineRow]] = {}
        for row in self.outline.rows:
            if row.lane:
                found.setdefault(row.call, []).append(row)
        return found

    def readable(self, of: str) -> Sequence[int]:
        """Return the positions of what a person reads: without results, settings, and others' work.

        `of` is a sub-agent, whose brief and entries are returned; "" is the conversation without them.
        """
        upto, found = self._filtered.get(("readable", of), (0, []))
        if upto < (head := self.position):
            begin, theirs = self.kinds.find(b"u") + 1, self._work(head)
            found = [
                at
                for at, kind in enumerate(self.kinds[:head], 1)
                if (kind in READ or (kind in b"m" and at > begin > 0)) and of in theirs.get(at, NOBODY)
            ]
            self._filtered["readable", of] = head, found
        return found

    def worker_at(self, position: int) -> str:
        """Return the sub-agent whose work an entry is part of, a result as its call; "" if it is nobody's."""
        pair = self.results.get(position)
        return next(iter(self._work(self.position).get(pair.call if pair else position, NOBODY)))

    def shown_in(self, position: int, of: str) -> int:
        """Return the entry of `readable(of)` that shows an entry; 0 if none does.

        A result is with its call, the work of a sub-agent with the call that started it.
        """
        listed, work, at = self.readable(of), self._work(self.position), position
        while at and (not listed or listed[bisect_right(listed, at) - 1] != at):
            at = self.results[at].call if at in self.results else next(iter(work.get(at, NOBODY).values()))
        return at

    def _work(self, head: int) -> Mapping[int, Mapping[str, int]]:
        """Return the entries of sub-agents' work, by position: whose they are, and the call that started it.

        A sub-agent works from its brief until a person speaks to it. One that took part in the conversation
        before its first brief works until its call has a result.
        """
        if self._worked[0] == head:
            return self._worked[1]
        first: dict[str, int] = {}
        briefs: dict[int, list[tuple[OutlineRow, int]]] = {}
        for row in self.outline.rows:
            if row.lane and row.position <= head:
                took_part = self.spans[row.lane][0] < first.setdefault(row.lane, row.position)
                end = self.calls.get(row.call, maxsize) if took_part else maxsize
                briefs.setdefault(row.position, []).append((row, end))
        found: dict[int, Mapping[str, int]] = {}
        until: dict[str, int] = {}
        begun: dict[str, int] = {}
        for at, whose in enumerate(self.whose[:head] if briefs else (), 1):
            if at in self.asked:
                until |= dict.fromkeys(self.asked[at], at)
            if at in briefs:
                found[at] = {row.lane: row.call.position for row, _ in briefs[at]}
                until |= {row.lane: max(end, until.get(row.lane, 0)) for row, end in briefs[at]}
                begun |= found[at]
            elif at < until.get(lane := self._names[whose], 0):
                found[at] = {lane: begun[lane]}
        self._worked = head, found
        return found

    def _paired(self, entry: Entry, pair: Pair | None) -> PairedResult | None:
        event = entry.event
        if isinstance(event, AssistantMessage) and event.tool_calls:
            self._called_at[entry.position] = entry.time
        if pair is None or pair.call is None or not isinstance(event, ToolResult):
            return None
        key, took = pair.call.key, event.duration_ms
        begun = self._called_at.get(key.position, EPOCH)
        if took is None and begun != EPOCH and entry.time > begun:  # both at once: of a log without times
            took = round((entry.time - begun).total_seconds() * 1000)
        found = PairedResult(key.position, key.nth, pair.call.name, took)
        self.results[entry.position], self.calls[key] = found, entry.position
        return found

    def _number(self, where: str, at: int) -> int:
        if where not in self._numbers:
            self._numbers[where] = len(self._names)
            self._names.append(where)
        first, _ = self.spans.get(where, (at, at))
        self.spans[where] = first, at
        return self._numbers[where]

    def _note_cut(self, event: Event, at: int) -> None:
        if isinstance(event, AssistantMessage | LlmError) and event.receipt is not None:
            where, cut = address(event.agent, event.task), cut_of(event.receipt)
            if cut and not self._cut.get(where):
                self.cuts.append(at)
            self._cut[where] = cut

    def dump(self) -> bytes:
        """Return the index as it is stored."""
        waiting = list(self._pairing.waiting)
        self._called_at = {
            call.key.position: self._called_at[call.key.position]
            for call in waiting
            if call.key.position in self._called_at
        }
        return to_json(
            {
                "position": self.position,
                "digest": self.digest,
                "agents": self.agents,
                "kinds": self.kinds.decode(),
                "whose": self.whose,
                "spans": self.spans,
                "results": [(at, *result) for at, result in self.results.items()],
                "cuts": self.cuts,
                "cut": self._cut,
                "billed": sorted(self.billed),
                "asked": [*self.asked.items()],
                "waiting": [(*call.key, *call[1:]) for call in waiting],
                "outline": self.outline.dump(),
                "edits": self.edits,
                "missed": self._misses.dump(),
                "called_at": [(at, time.isoformat()) for at, time in self._called_at.items()],
            }
        )

    @classmethod
    def load(cls, stored: bytes) -> ConversationIndex:
        """Return a stored index. Raises `ValueError`."""
        found: dict[str, Any] = from_json(stored)
        if not isinstance(found, dict) or not found.keys() >= FIELDS:
            raise ValueError(f"expected an index of a conversation, found {stored[:60]!r}")
        index = cls()
        index.position, index.digest = found["position"], found["digest"]
        index.agents, index.cuts, index._cut = found["agents"], found["cuts"], found["cut"]
        index.billed, index.asked = set(found["billed"]), dict(found["asked"])
        index.kinds, index.whose = bytearray(found["kinds"].encode()), found["whose"]
        index.spans = {where: (first, last) for where, (first, last) in found["spans"].items()}
        index._names = list(index.spans)
        index._numbers = {where: number for number, where in enumerate(index.spans)}
        index.results = {at: PairedResult(*rest) for at, *rest in found["results"]}
        index.calls = {(result.call, result.nth): at for at, result in index.results.items()}
        waiting = [Call(CallKey(at, nth), *rest) for at, nth, *rest in found["waiting"]]
        index._pairing = ToolCallIndex(waiting)
        index.edits = [Edit(*each) for each in found["edits"]]
        index.outline, index._misses = Outline.load(found["outline"]), StatedMisses(found["missed"])
        index._called_at = {at: datetime.fromisoformat(time) for at, time in found["called_at"]}
        return index


def letter_of(event: Event, pair: Pair | None) -> str:
    """Return the letter of an entry's kind."""
    match event:
        case UserMessage():
            return "u"
        case AssistantMessage():
            return "s" if event.covers else "a"
        case ToolResult():
            if pair is None or pair.call is None:
                return "d" if pair and pair.second else "o"
            return "x" if has_failed(event) else "t"
        case LlmError():
            return "e" if is_api_error(event) else "i"
        case ModeSwitch() if is_cut(event):
            return "c"
        case ModeSwitch():
            return "m" if changes(event) else "n"
        case _:
            return "?"


def lane_of(event: Event) -> str:
    """Return the address of an event's lane; "" is that of persons and the system."""
    match event:
        case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
            return address(agent, task)
        case UserMessage(author_kind="agent", author=author):
            return author
        case _:
            return ""


def addressed(event: Event) -> list[str]:
    """Return the addresses of the lanes that an event is for; a person's is ""."""
    match event:
        case UserMessage(to=to) | AssistantMessage(to=to):
            return ["" if each == USER else each for each in to]
        case ModeSwitch(handoff=str(agent)):
            return [agent]
        case _:
            return []


def nearest(positions: Sequence[int], at: int) -> tuple[int | None, int | None]:
    """Return the last of these positions before `at`, and the first after it."""
    place = bisect_left(positions, at)
    later = positions[place + (place < len(positions) and positions[place] == at) :][:1]
    return positions[place - 1] if place else None, later[0] if later else None
