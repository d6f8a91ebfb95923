"""Usage and cost of a conversation: calls, tokens, tools, errors and times, by lane, run and model.

    >>> usage([]).total.calls
    0

Each range is a tenth wider than the one before and counts as its middle: percentiles are at most 5 % off (up
to 20 they are exact). Whole numbers make it the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult
from stenolog.domain.lanes.limits import Tokens, added
from stenolog.domain.lanes.state import State, address, find_call
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.projections.fold import Fold
from stenolog.projections.prices import Prices, known_cost, unpriced

from .acts import acts_and_failures

LARGEST = 86_400_000
"""A day in milliseconds; what is longer counts as this."""


def _bounds() -> Iterator[int]:
    bound = 0
    while True:
        yield bound
        bound = max(bound + 1, bound * 11 // 10)


BOUNDS = tuple(takewhile(lambda bound: bound <= LARGEST, _bounds()))
"""Lower bounds of the ranges."""


class Histogram(NamedTuple):
    """Count of numbers in each range, by the range's place in `BOUNDS`."""

    counts: dict[int, int] = {}  # noqa: RUF012 - never changed in place; `add` makes a new one

    def add(self, number: int) -> Histogram:
        """Return the histogram with one more number; one below 0 counts as 0."""
        place = bisect_right(BOUNDS, max(0, number)) - 1
        return Histogram({**self.counts, place: self.counts.get(place, 0) + 1})

    def plus(self, other: Histogram) -> Histogram:
        """Return the sum of both."""
        places = self.counts.keys() | other.counts.keys()
        return Histogram({at: self.counts.get(at, 0) + other.counts.get(at, 0) for at in sorted(places)})

    def percentile(self, percent: int) -> int | None:
        """Return the number that so many of a hundred do not exceed; None if there are no numbers."""
        rank = -(-sum(self.counts.values()) * percent // 100)
        for place, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return _middle(place)
        return None


def _middle(place: int) -> int:
    end = BOUNDS[place + 1] - 1 if place + 1 < len(BOUNDS) else BOUNDS[place]
    return (BOUNDS[place] + end) // 2


By: TypeAlias = Literal["agent", "lane", "run", "model"]


CHARACTERS_PER_TOKEN = 8
"""No tokenizer makes fewer tokens of a text than one for so many of its characters, on average."""


def understates(event: AssistantMessage) -> bool:
    """Return whether an answer states fewer output tokens than its words must have been.

    Claude Code writes an answer down before its stream has ended, with an early count.
    """
    if event.usage is None or event.source is None:
        return False
    texts = (getattr(part, "text", "") or getattr(part, "arguments", "") for part in event.parts)
    return event.usage.output * CHARACTERS_PER_TOKEN < sum(map(len, texts))


def counts_elsewhere(event: Event) -> bool:
    """Return whether the event counts where it was made: in another conversation, or in an earlier entry.

    `copy_of` names the earlier entry that a framework wrote again. `restated` is an answer from a client's
    history that no tap saw being made.
    """
    ours = getattr(event, "meta", {}).get("stenolog")
    if not isinstance(ours, dict):
        return False
    is_copy = "copy_of" in ours or "restated" in ours
    return is_copy or (isinstance(event, AssistantMessage) and "child" in ours)


def is_new_session(error: LlmError) -> bool:
    """Return whether the error only says that a stateful backend begins a new session.

    The engine appends it after a restart, or after a death between two turns.
    """
    was_sent = error.receipt is not None or error.in_context or error.retry_at is None
    return error.category == "process_exited" and not was_sent


class UsageTotals(NamedTuple):
    """Totals of usage.

    `answers` are those of models, of which `untold` do not state their usage, and `understated` state too few
    output tokens; `errors` are failures by category, of which `retries` were to be tried again. `tokens` are
    by model, `billed` those of calls that state their cost. `took` and `first` are the milliseconds of calls,
    and to their first token; `tools` counts tool results, `tool_errors` the failed ones, `tools_took` is
    their duration.
    """

    answers: int = 0
    untold: int = 0
    errors: dict[str, int] = {}  # noqa: RUF012 - never changed in place
    retries: int = 0
    tokens: dict[str, Tokens] = {}  # noqa: RUF012 - as above
    took: Histogram = Histogram()
    first: Histogram = Histogram()
    tools: int = 0
    tool_errors: int = 0
    tools_took: Histogram = Histogram()
    billed: dict[str, Tokens] = {}  # noqa: RUF012 - as above
    understated: int = 0

    @property
    def calls(self) -> int:
        """Count the model calls, without those that a limit forbade."""
        return self.answers + sum(count for name, count in self.errors.items() if name != "budget")

    @property
    def sum(self) -> Tokens:
        """The tokens of all models together."""
        return reduce(_both, (*self.tokens.values(), *self.billed.values()), Tokens())

    def cost(self, prices: Prices) -> int | None:
        """Return the cost in micro-dollars, as stated, else by price; None if a model has no price."""
        return None if unpriced(self.tokens, prices) else self.known_cost(prices)

    def known_cost(self, prices: Prices) -> int:
        """Return the minimal cost, in micro-dollars, without models that have no price."""
        return known_cost(self.tokens, prices, self.billed.values())

    def plus(self, other: UsageTotals) -> UsageTotals:
        """Return the sum of both."""
        return UsageTotals(
            answers=self.answers + other.answers,
            untold=self.untold + other.untold,
            errors={
                k: self.errors.get(k, 0) + other.errors.get(k, 0) for k in {**self.errors, **other.errors}
            },
            retries=self.retries + other.retries,
            tokens=_by_model(self.tokens, other.tokens),
            took=self.took.plus(other.took),
            first=self.first.plus(other.first),
            tools=self.tools + other.tools,
            tool_errors=self.tool_errors + other.tool_errors,
            tools_took=self.tools_took.plus(other.tools_took),
            billed=_by_model(self.billed, other.billed),
            understated=self.understated + other.understated,
        )


NOTHING = UsageTotals()


class Used(NamedTuple):
    """Usage of a lane, by model; `model` is its last one, or that of its card."""

    model: str = ""
    tallies: dict[str, UsageTotals] = {}  # noqa: RUF012 - as above


Runs: TypeAlias = dict[str, dict[str, Used]]


class Usage(NamedTuple):
    """Usage of a conversation by run (empty: none), then by lane; `state` assigns results to lanes."""

    state: State = INITIAL
    cards: dict[str, str] = {}  # noqa: RUF012 - as above
    runs: Runs = {}  # noqa: RUF012 - as above

    @property
    def total(self) -> UsageTotals:
        """All of it."""
        return together(tally for _, tally in self.by("model"))

    def by(self, what: By) -> Iterator[tuple[str, UsageTotals]]:
        """Yield the usage of each agent, lane, run or model, in the order of its first use."""
        sums: dict[str, UsageTotals] = {}
        for run, lanes in self.runs.items():
            for lane, used in lanes.items():
                for model, tally in used.tallies.items():
                    names = {"agent": lane.partition("/")[0], "lane": lane, "run": run, "model": model}
                    sums[names[what]] = sums.get(names[what], NOTHING).plus(tally)
        yield from sums.items()


def together(tallies: Iterable[UsageTotals]) -> UsageTotals:
    """Return several tallies as one."""
    return reduce(UsageTotals.plus, tallies, NOTHING)


def _both(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(*(mine + theirs for mine, theirs in zip(one, other, strict=True)))


def _by_model(one: dict[str, Tokens], other: dict[str, Tokens]) -> dict[str, Tokens]:
    return {model: _both(one.get(model, Tokens()), other.get(model, Tokens())) for model in {**one, **other}}


def _take(used: Usage, entry: Entry) -> Usage:
    event, before = entry.event, used.state
    used = used._replace(state=evolve(before, entry))
    match event:
        case ModeSwitch(cards=cards):
            named = {agent: card.model for agent, card in cards.items() if card is not None and card.model}
            return used._replace(cards={**used.cards, **named}) if named else used
        case _ if counts_elsewhere(event):
            return used
        case AssistantMessage(agent=agent, task=task):
            return _add(used, event.run, address(agent, task), event.model, event)
        case LlmError(agent=agent, task=task):
            where = address(agent, task)
            return used if is_new_session(event) else _add(used, event.run, where, event.model, event)
        case ToolResult():
            found = find_call(before, event)
            return used if found is None else _add(used, event.run, found[0].address, "", event)
        case _:
            return used


def _add(
    usage: Usage, run: str, where: str, model: str, event: AssistantMessage | LlmError | ToolResult
) -> Usage:
    """Return the usage with a lane's event; an event without a model counts for the lane's last one."""
    lanes = usage.runs.get(run, {})
    used = lanes.get(where, Used())
    model = model or used.model or usage.cards.get(where.partition("/")[0], "")
    tally = _counted(used.tallies.get(model, NOTHING), model, event)
    acted, failed = acts_and_failures(event.parts)
    tally = tally._replace(tools=tally.tools + acted, tool_errors=tally.tool_errors + failed)
    now = Used(model, {**used.tallies, model: tally})
    return usage._replace(runs={**usage.runs, run: {**lanes, where: now}})


def _counted(tally: UsageTotals, model: str, event: AssistantMessage | LlmError | ToolResult) -> UsageTotals:
    match event:
        case ToolResult(is_error=is_error, duration_ms=took):
            return tally._replace(
                tools=tally.tools + 1,
                tool_errors=tally.tool_errors + is_error,
                tools_took=_timed(tally.tools_took, took),
            )
        case AssistantMessage():
            tally = tally._replace(
                answers=tally.answers + 1,
                untold=tally.untold + (event.usage is None),
                understated=tally.understated + understates(event),
                first=_timed(tally.first, event.first_token_ms),
            )
        case LlmError(category=category):
            errors = {**tally.errors, category: tally.errors.get(category, 0) + 1}
            tally = tally._replace(errors=errors, retries=tally.retries + (event.retry_at is not None))
    if event.usage is not None and event.usage.cost is not None:
        tally = tally._replace(billed=added(tally.billed, model, event.usage))
    elif event.usage is not None:
        tally = tally._replace(tokens=added(tally.tokens, model, event.usage))
    return tally._replace(took=_timed(tally.took, event.duration_ms))


def _timed(times: Histogram, took: int | None) -> Histogram:
    return times if took is None else times.add(took)


usage = Fold("usage", Usage(), _take, version=7, state=Usage)
"""The fold: `usage(entries)`, or `conversation.fold(usage)`, which stores checkpoints."""


def usage_of(entries: Iterable[Entry], wanted: Callable[[Entry], bool]) -> Usage:
    """Return the usage of the wanted entries, such as those of a day.

    The other entries only set the lanes' models, and whose results are.
    """
    used = usage.initial
    for entry in entries:
        after = _take(used, entry)
        used = after if wanted(entry) else after._replace(runs=_uncounted(used.runs, after.runs))
    return used


def _uncounted(
    before: Mapping[str, dict[str, Used]], after: Mapping[str, dict[str, Used]]
) -> dict[str, dict[str, Used]]:
    """Return the runs after an entry that is not counted: only its lane's model is new."""
    return {
        run: {
            lane: used._replace(tallies=before.get(run, {}).get(lane, Used()).tallies)
            for lane, used in lanes.items()
        }
        for run, lanes in after.items()
    }
