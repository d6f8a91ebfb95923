"""The provider's side of a request: its API, and the tokens billed for it.

Another program's log seldom has all that it sent. The bill says how much more that was, not what: at the
first request mostly system prompt and tools; what grows later is mostly not recorded. What is rebuilt counts
at the rate of the bills before (`requests.lane_rates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeGuard

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, ToolResult, UserMessage
from stenolog.projections.requests import LaneId

LEAST, PART = 500, 10
"""A difference to the bill is no mere error of counting from so many tokens on, and from this part of it."""


class Unexplained(NamedTuple):
    """The tokens that were billed for a request and are not explained by the log.

    `tokens` are those `billed` beyond what was `rebuilt`, for the request at `at`; None without a bill, 0 if
    the difference may be one of counting. `first` of them were there at the lane's first request, `grown`
    came since. `parts` name what the log lacks and may be the first part: system prompt, tools; none if that
    part did not stay.
    """

    parts: tuple[str, ...]
    tokens: int | None
    first: int
    grown: int
    billed: int
    rebuilt: int
    at: int

    @property
    def pieces(self) -> tuple[tuple[int, str], ...]:
        """The two parts in words, each with its tokens if it has any."""
        # A log does not say whether its file began in the middle of a session.
        named = ", ".join(("what came before this file", *self.parts))
        both = ((self.first, f"from the start: {named}: not recorded"), (self.grown, "grown since"))
        return tuple(piece for piece in both if piece[0])

    @property
    def in_words(self) -> str:
        return "; ".join(f"{tokens:,} {words}" for tokens, words in self.pieces)


def unexplained(
    lacking: tuple[str, ...], sizes: Sequence[tuple[int, int]], first: int, at: int
) -> Unexplained:
    """Return the unexplained part of requests, by their billed and rebuilt tokens.

    `first` are those of the first request. They stay if each request has nearly all of them.
    """
    billed, rebuilt = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    over = [max(size - known, 0) for size, known in sizes]
    tokens = max(billed - rebuilt, 0)
    there = min(sum(min(max(first, 0), each) for each in over), tokens)
    stays = all(each >= first - _tolerance(first) for each in over)
    return Unexplained(lacking if stays else (), tokens, there, tokens - there, billed, rebuilt, at)


def _tolerance(tokens: int) -> int:
    return max(LEAST, tokens // PART)


class Bill(NamedTuple):
    """The bill for a request: the answer at `position` states `tokens`, of which `cached` were cached.

    `at` is the position of the request that it answers, `rebuilt` the tokens that the log has of that
    request. Without a bill all of them are 0. `is_its_own`: that is the request in question, not one before
    it. `program` is the one that the agent's answers came from; "" if stenolog sent the requests, or without
    answers. `model` is the one that the answer at `answer` names, if the request that it answers names none
    yet; else "", and `answer` 0. `has_prompt`, `has_tools`: the log has the system prompt, the tools. `first`
    are the tokens billed beyond what is rebuilt of the lane's first request. `is_whole`: something was asked
    before its answer; else the log begins in the middle.
    """

    program: str = ""
    position: int = 0
    at: int = 0
    tokens: int = 0
    cached: int = 0
    rebuilt: int = 0
    is_its_own: bool = False
    answer: int = 0
    model: str = ""
    has_prompt: bool = False
    has_tools: bool = False
    first: int = 0
    is_whole: bool = True

    @property
    def is_short(self) -> bool:
        """True if more was billed than is rebuilt, beyond an error of counting."""
        return bool(self.program) and self.tokens - self.rebuilt >= _tolerance(self.tokens)

    @property
    def unexplained(self) -> Unexplained | None:
        """The part of the request that the log does not explain; None if none is known to be missing."""
        lacking = lacking_parts(has_prompt=self.has_prompt, has_tools=self.has_tools) if self.program else ()
        if self.is_short:
            named = lacking if self.is_whole else ()
            return unexplained(named, [(self.tokens, self.rebuilt)], self.first, self.at)
        if not lacking:
            return None
        tokens = 0 if self.tokens else None
        return Unexplained(lacking, tokens, 0, 0, self.tokens, self.rebuilt, self.at)

    @property
    def missing(self) -> str:
        """The tokens and parts that the log lacks of the request; "" if stenolog sent it."""
        if not self.program:
            return ""
        if (gone := self.unexplained) is None:
            return "what was sent besides or left out is not recorded"
        lacking = lacking_parts(has_prompt=self.has_prompt, has_tools=self.has_tools)
        named = ", ".join((*lacking, *(("what came before this file",) if not self.is_whole else ())))
        return f"{gone.tokens:,} billed tokens ({named}) are missing" if gone.tokens else f"{named}: missing"

    @property
    def note(self) -> str:
        """The unknown part of the request, in one line; "" if stenolog sent it."""
        lacking = not_recorded(self.program, has_prompt=self.has_prompt, has_tools=self.has_tools)
        return "; ".join(filter(None, (lacking, self.difference)))

    @property
    def difference(self) -> str:
        """The bill beside what was rebuilt, in words; "" if stenolog sent the request."""
        if not self.program:
            return ""
        if not self.tokens:
            return "no bill tells how much"
        over = self.tokens - self.rebuilt
        if self.is_short:
            bill = "" if self.is_its_own else f" for the request at {self.at}"
            return f"billed{bill}, but not in this log: some {_rounded(over):,} tokens"
        billed = "billed" if self.is_its_own else f"the request at {self.at} was billed"
        if over > 0:
            return f"{billed} {_tokens(over)} more than rebuilt: sent besides, or counted otherwise"
        if over < 0:
            return f"{billed} {_tokens(-over)} less than rebuilt: left out, or counted otherwise"
        return f"{billed} as many tokens as rebuilt"


NO_BILL = Bill()


def lacking_parts(*, has_prompt: bool, has_tools: bool) -> tuple[str, ...]:
    """Return the names of the parts that a log lacks of its requests."""
    parts = (("system prompt", has_prompt), ("tools", has_tools))
    return tuple(name for name, is_there in parts if not is_there)


def not_recorded(program: str, *, has_prompt: bool, has_tools: bool = False) -> str:
    """Return the sentence on an agent whose answers came from another program; "" for no program.

    `has_prompt`, `has_tools`: the log has them.
    """
    if not program:
        return ""
    lacking = lacking_parts(has_prompt=has_prompt, has_tools=has_tools)
    named = f" ({', '.join(lacking)})" if lacking else ""
    return (
        f"the answers came from {program}, so this is rebuilt from what the log has; what was sent "
        f"besides{named} or left out is not recorded"
    )


def _rounded(tokens: int) -> int:
    return round(tokens, 2 - len(str(tokens)))


def _tokens(count: int) -> str:
    return f"{count:,} {'token' if count == 1 else 'tokens'}"


def first_answer(entries: Iterable[Entry], lane: LaneId) -> Entry | None:
    """Return the lane's first answer with usage."""
    return next((entry for entry in entries if lane.owns(entry.event) and states_input(entry.event)), None)


def is_asked_before(entries: Iterable[Entry], position: int) -> bool:
    """Return whether an answer, in a log from its first entry on, had something to answer."""
    return any(_asks(entry.event) for entry in takewhile(lambda entry: entry.position < position, entries))


def answer_to(entries: Iterable[Entry], lane: LaneId, at: int) -> Entry | None:
    """Return the answer to the lane's request at a position, if any."""
    is_asked_again = False
    for entry in entries:
        event = entry.event
        if entry.position <= at:
            continue
        if not isinstance(event, AssistantMessage) or not lane.owns(event):
            is_asked_again = is_asked_again or _asks(event)
            continue
        if event.receipt is not None:
            is_it = event.receipt.view == at
        else:
            is_it = not is_asked_again if event.cause is None else event.cause <= at
        return entry if is_it else None
    return None


def last_answer(entries: Sequence[Entry], lane: LaneId, at: int) -> Entry | None:
    """Return the lane's last answer with usage up to a position."""
    before = (entry for entry in reversed(entries) if entry.position <= at)
    return next((entry for entry in before if lane.owns(entry.event) and states_input(entry.event)), None)


def bill(answer: Entry, at: int, rebuilt: int, *, is_its_own: bool) -> Bill:
    """Return the bill of the request at `at`, with its `rebuilt` tokens, by its answer."""
    event = answer.event
    assert isinstance(event, AssistantMessage)
    assert event.usage is not None
    used = event.usage
    return Bill(_program(event), answer.position, at, used.input, used.cache_read, rebuilt, is_its_own)


def program_of(backwards: Iterable[Entry], lane: LaneId) -> str:
    """Return the program of the lane's last answer; "" for stenolog's own, or none.

    The newest entry comes first; no more are read than needed.
    """
    answers = (entry.event for entry in backwards if isinstance(entry.event, AssistantMessage))
    return next((_program(event) for event in answers if lane.owns(event)), "")


def _program(event: AssistantMessage) -> str:
    return event.source.system if event.receipt is None and event.source is not None else ""


def _asks(event: Event) -> bool:
    return isinstance(event, ToolResult) or (isinstance(event, UserMessage) and event.in_context)


def states_input(event: Event) -> TypeGuard[AssistantMessage]:
    """Return whether an answer states its request's tokens.

    A later part of one, such as Claude Code writes after a result, does not.
    """
    return isinstance(event, AssistantMessage) and event.usage is not None and event.usage.input > 0
