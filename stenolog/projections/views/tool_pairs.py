"""Tool calls and their results, paired.

A result that names its call belongs to it; any other belongs to the nearest call before it that has its id
and no result yet. Ids repeat in real logs, so a call's key is its entry and its index there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.lanes.state import Summary


class CallKey(NamedTuple):
    """One tool call: the position of its entry, and its index among that entry's calls."""

    position: int
    nth: int


class Call(NamedTuple):
    """One tool call: its key, the id of its entry, the provider's id for it, the tool, and who called."""

    key: CallKey
    entry: str
    id: str
    name: str
    agent: str
    task: str = ""


class Pair(NamedTuple):
    """A result and its call; None if it has no call of its own."""

    result: int
    call: Call | None
    second: bool = False


class ToolCallIndex:
    """The results so far and their calls; it takes the log entry by entry.

    `pairs` has every result by its position, `results` the position of each call's first result, `second` the
    results without a call of their own whose id has been called before.
    """

    def __init__(self, waiting: Iterable[Call] = (), pairs: Iterable[Pair] = ()) -> None:
        self.pairs: dict[int, Pair] = {}
        self.results: dict[CallKey, int] = {}
        self._open: dict[str, list[Call]] = {}
        self._named: dict[tuple[str, int], Call] = {}
        self._halved: dict[int, tuple[int, ...]] = {}
        for call in waiting:
            self._wait(call)
        for pair in pairs:
            self._add(pair)

    def copy(self) -> ToolCallIndex:
        """Return an independent copy."""
        return ToolCallIndex(self.waiting, self.pairs.values())

    @property
    def calls(self) -> dict[int, CallKey | None]:
        """The key of each result's call, by the position of the result."""
        return {position: pair.call.key if pair.call else None for position, pair in self.pairs.items()}

    @property
    def second(self) -> set[int]:
        """The further results of calls that had one already."""
        return {position for position, pair in self.pairs.items() if pair.second}

    @property
    def waiting(self) -> Iterator[Call]:
        """The calls without a result, oldest first."""
        return iter(self._named.values())

    def take(self, entry: Entry) -> Pair | None:
        """Take the next entry in; return its pair if it is a result."""
        match entry.event:
            case AssistantMessage(agent=agent, task=task) as answer:
                for nth, call in reversed(
                    [*enumerate(answer.tool_calls)]
                ):  # the last of a list is the nearest
                    key = CallKey(entry.position, nth)
                    self._wait(Call(key, entry.id, call.id, call.name, agent, task))
            case ToolResult() as result:
                call_of = self._call_of(result)
                second = call_of is None and result.call_id in self._open
                pair = Pair(entry.position, call_of, second)
                self._add(pair)
                return pair
            case _:
                pass
        return None

    def halved(self, summary: Summary) -> tuple[int, ...]:
        """Return the calls or results that a summary covers without the other half, if both are before it.

        Cached: no such pair comes later.
        """
        if summary.position not in self._halved:
            self._halved[summary.position] = tuple(
                key.position if summary.covers(key.position) else result
                for key, result in self.results.items()
                if result < summary.position and summary.covers(key.position) is not summary.covers(result)
            )
        return self._halved[summary.position]

    def forget(self, kept: Collection[int]) -> None:
        """Forget everything about entries at other positions, except for open calls."""
        self._halved.clear()
        gone = [
            pair
            for pair in self.pairs.values()
            if pair.result not in kept and (pair.call is None or pair.call.key.position not in kept)
        ]
        for pair in gone:
            del self.pairs[pair.result]
            if pair.call is not None:
                self.results.pop(pair.call.key, None)
        called = {pair.call.id for pair in self.pairs.values() if pair.call is not None}
        self._open = {id: waiting for id, waiting in self._open.items() if waiting or id in called}

    def _wait(self, call: Call) -> None:
        self._open.setdefault(call.id, []).append(call)
        self._named[call.entry, call.key.nth] = call

    def _add(self, pair: Pair) -> None:
        self.pairs[pair.result] = pair
        if pair.call is not None:
            self.results[pair.call.key] = pair.result
            self._open.setdefault(pair.call.id, [])  # it has been called

    def _call_of(self, result: ToolResult) -> Call | None:
        if result.call is None:
            waiting = self._open.get(result.call_id)
            found = waiting.pop() if waiting else None
        else:
            found = self._named.get((result.call.entry, result.call.index))
            if found is not None:
                self._open[found.id].remove(found)
        if found is not None:
            del self._named[found.entry, found.key.nth]
        return found


def pair(entries: Iterable[Entry]) -> ToolCallIndex:
    """Pair every result of the log with its call."""
    pairing = ToolCallIndex()
    for entry in entries:
        pairing.take(entry)
    return pairing
