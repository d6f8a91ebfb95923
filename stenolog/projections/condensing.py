"""Which middle of a conversation a summary may take the place of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch, Unknown, UserMessage
from stenolog.domain.settings import settings
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.values import Span

LEAST = 2
"""A summary takes the place of so many messages at least."""


def middle(entries: Iterable[Entry], lane: str, keep: int) -> tuple[Span, ...]:
    """The spans that a summary for a lane may cover; none where there is too little that is new.

    What stays as it is: the last `keep` messages, what somebody last said to the lane, what the system says,
    and a call whose result is not there yet, with all behind it.
    """
    log, state, ends = [*entries], INITIAL, [0]
    for entry in log:
        state = evolve(state, entry)
        if not any(state.open_calls()):
            ends.append(entry.position)
    messages = [entry for entry in log if not isinstance(entry.event, ModeSwitch | Unknown)]
    older = messages[: max(0, len(messages) - keep)]
    limit = older[-1].position if older else 0
    stays = {_asked(messages, lane)} | {entry.position for entry in messages if _is_systems(entry)}
    last = max(end for end in ends if end <= limit)
    first = next((entry.position for entry in messages if entry.position not in stays), last + 1)
    spans = tuple(_around(stays, max(first, settings(log).context_from), last))
    return spans if _new(messages, spans, state) >= LEAST else ()


def _asked(messages: Sequence[Entry], lane: str) -> int:
    """The position of what somebody last said to the lane; 0: nobody has."""
    for entry in reversed(messages):
        match entry.event:
            case UserMessage(control=None, in_context=True, to=to) if not _is_systems(entry):
                if not to or lane in to:
                    return entry.position
            case _:
                pass
    return 0


def _is_systems(entry: Entry) -> bool:
    """Whether the system says it: an instruction, which no summary may blur."""
    return isinstance(entry.event, UserMessage) and entry.event.author_kind == "system"


def _around(stays: Iterable[int], first: int, last: int) -> Iterator[Span]:
    """The positions from first to last without those that stay."""
    for position in sorted(p for p in stays if first <= p <= last):
        if first < position:
            yield Span(first=first, last=position - 1)
        first = position + 1
    if first <= last:
        yield Span(first=first, last=last)


def _new(messages: Iterable[Entry], spans: Sequence[Span], state: State) -> int:
    """How many of the messages in the spans no summary has taken the place of, nor is one."""
    summaries = {summary.position for summary in state.summaries}
    taken = [span for summary in state.summaries for span in summary.spans]
    places = (entry.position for entry in messages if entry.position not in summaries)
    return sum(any(p in span for span in spans) and not any(p in span for span in taken) for p in places)
