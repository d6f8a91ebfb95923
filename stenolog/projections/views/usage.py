"""Usage and cost of a conversation: calls, tokens, tools, errors and times, by lane, run, model and tool.

    >>> usage([]).total.calls
    0

Each range is a tenth wider than the one before and counts as its middle: percentiles are at most 5 % off (up
to 20 they are exact). Whole numbers make it the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, was_stopped
from stenolog.domain.lanes.limits import Tokens, added
from stenolog.domain.lanes.state import State, address, find_call
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.projections.fold import Fold
from stenolog.projections.prices import Prices, known_cost, unpriced

from .acts import Act, acts, acts_and_failures, has_failed

K = TypeVar("K")
LARGEST = 86_400_000
"""A day in milliseconds; what is longer counts as this."""


def _bounds() -> Sequence[int]:
    bounds = [0]
    while (bound := max(bounds[-1] + 1, bounds[-1] * 11 // 10)) <= LARGEST:
        bounds.append(bound)
    return bounds


BOUNDS = _bounds()
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


By: TypeAlias = Literal["agent", "lane", "run", "model", "tool"]


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


STOPPED = "stopped"
NOT_FAILED = ("cancelled", STOPPED)
"""The names of ended calls that no error ended."""


def leaves_unknown(event: AssistantMessage | LlmError) -> bool:
    """Return whether an answer, or a part of a cancelled one, does not state the tokens that it used."""
    return event.usage is None and (isinstance(event, AssistantMessage) or bool(event.parts))


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


def is_api_error(event: Event) -> bool:
    """Return whether an entry is a failed model call; one that a person cancelled is none."""
    return isinstance(event, LlmError) and event.category != "cancelled" and not is_new_session(event)


def is_new_session(error: LlmError) -> bool:
    """Return whether the error only says that a stateful backend begins a new session.

    The engine appends it after a restart, or after a death between two turns.
    """
    was_sent = error.receipt is not None or error.in_context or error.retry_at is None
    return error.category == "process_exited" and not was_sent


class UsageTotals(NamedTuple):
    """Totals of usage.

    `answers` are those of models, of which `understated` state too few output tokens. `untold` are answers,
    and parts of cancelled ones, that do not state their usage. `errors` are failures by category, of which
    `retries` were to be tried again. `tokens` are by model, `billed` those of calls that state their cost.
    `took` and `first` are the milliseconds of calls, and to their first token; `tools` counts tool results,
    `tool_errors` the failed ones, `tools_took` is their duration.
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
    def failed(self) -> int:
        """Count the failed calls, without those that were cancelled or stopped, as `Overview.errors` does."""
        return sum(count for name, count in self.errors.items() if name not in NOT_FAILED)

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


Runs: TypeAlias = dict[str, dict[str, dict[str, dict[str, UsageTotals]]]]
"""Totals by run, lane, model and tool."""


class Usage(NamedTuple):
    """Usage of a conversation by run (empty: none), lane, model and tool.

    `state` assigns results to lanes, `cards` have the agents' models, `models` the last one of each lane, by
    run. `waiting` has the tool of the longest result that no call of a lane has read, with its length.
    """

    state: State = INITIAL
    cards: dict[str, str] = {}  # noqa: RUF012 - as above
    runs: Runs = {}  # noqa: RUF012 - as above
    models: dict[str, dict[str, str]] = {}  # noqa: RUF012 - as above
    waiting: dict[str, tuple[str, int]] = {}  # noqa: RUF012 - as above

    @property
    def total(self) -> UsageTotals:
        """All of it."""
        return together(tally for _, tally in self.by("model"))

    def by(self, what: By) -> Iterator[tuple[str, UsageTotals]]:
        """Yield the usage of each agent, lane, run, model or tool, in the order of its first use."""
        sums: dict[str, UsageTotals] = {}
        for run, lanes in self.runs.items():
            for lane, models in lanes.items():
                for model, tools in models.items():
                    for tool, tally in tools.items():
                        agent = lane.partition("/")[0]
                        names = {"agent": agent, "lane": lane, "run": run, "model": model, "tool": tool}
                        sums[names[what]] = sums.get(names[what], NOTHING).plus(tally)
        yield from sums.items()

    def plus(self, row: UsageRow) -> Usage:
        """Return the usage with one entry more."""
        lanes = self.runs.get(row.run, {})
        models = lanes.get(row.lane, {})
        tools = models.get(row.model, {})
        tools = {**tools, row.tool: row.counted(tools.get(row.tool, NOTHING))}
        return self._replace(runs={**self.runs, row.run: {**lanes, row.lane: {**models, row.model: tools}}})


class UsageRow(NamedTuple):
    """An entry that counts: a call, or a tool's result.

    `tool` is the result's. That of a call is the one whose result it is the first to read, of several the
    longest; "" if it reads none.
    """

    run: str
    lane: str
    model: str
    tool: str
    event: AssistantMessage | LlmError | ToolResult

    def counted(self, tally: UsageTotals) -> UsageTotals:
        """Return the totals with this entry."""
        tally = _counted(tally, self.model, self.event)
        acted, failed = acts_and_failures(self.event.parts)
        return tally._replace(tools=tally.tools + acted, tool_errors=tally.tool_errors + failed)


def together(tallies: Iterable[UsageTotals]) -> UsageTotals:
    """Return several tallies as one."""
    return reduce(UsageTotals.plus, tallies, NOTHING)


def _both(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(*(mine + theirs for mine, theirs in zip(one, other, strict=True)))


def _by_model(one: dict[str, Tokens], other: dict[str, Tokens]) -> dict[str, Tokens]:
    return {model: _both(one.get(model, Tokens()), other.get(model, Tokens())) for model in {**one, **other}}


def read(used: Usage, entry: Entry) -> tuple[Usage, UsageRow | None]:
    """Return what later entries are read by, and the entry's row; None if it counts nothing."""
    event, before = entry.event, used.state
    used = used._replace(state=evolve(before, entry))
    match event:
        case ModeSwitch(cards=cards):
            named = {agent: card.model for agent, card in cards.items() if card is not None and card.model}
            return (used._replace(cards={**used.cards, **named}) if named else used), None
        case _ if counts_elsewhere(event):
            return used, None
        case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
            if isinstance(event, LlmError) and is_new_session(event):
                return used, None
            where = address(agent, task)
            tool, _ = used.waiting.get(where, ("", 0))
            # A failed call is made again, and a later part of an answer states no usage.
            if tool and (event.usage is not None or event.source is None) and event.kind != "llm_error":
                used = used._replace(waiting={**used.waiting, where: ("", 0)})
            return _of_lane(used, where, event.model, tool or _longest_act(event), event)
        case ToolResult():
            found = find_call(before, event)
            if found is None:
                return used, None
            where, tool = found[0].address, event.name or found[1].name
            length = sum(len(getattr(part, "text", "")) for part in event.parts)
            if length >= used.waiting.get(where, ("", 0))[1]:
                used = used._replace(waiting={**used.waiting, where: (tool, length)})
            return _of_lane(used, where, "", tool, event)
        case _:
            return used, None


def _of_lane(
    used: Usage, where: str, model: str, tool: str, event: AssistantMessage | LlmError | ToolResult
) -> tuple[Usage, UsageRow]:
    run, models = event.run, used.models.get(event.run, {})
    model = model or models.get(where) or used.cards.get(where.partition("/")[0], "")
    if models.get(where) != model:
        used = used._replace(models={**used.models, run: {**models, where: model}})
    return used, UsageRow(run, where, model, tool, event)


NO_ACT = Act("", "", "", "no result")


def _longest_act(event: AssistantMessage | LlmError) -> str:
    return max(acts(event.parts), key=lambda act: len(act.output), default=NO_ACT).name


def _take(used: Usage, entry: Entry) -> Usage:
    used, row = read(used, entry)
    return used if row is None else used.plus(row)


def _counted(tally: UsageTotals, model: str, event: AssistantMessage | LlmError | ToolResult) -> UsageTotals:
    match event:
        case ToolResult(duration_ms=took):
            return tally._replace(
                tools=tally.tools + 1,
                tool_errors=tally.tool_errors + has_failed(event),
                tools_took=_timed(tally.tools_took, took),
            )
        case AssistantMessage():
            tally = tally._replace(
                answers=tally.answers + 1,
                understated=tally.understated + understates(event),
                first=_timed(tally.first, event.first_token_ms),
            )
        case LlmError(category=category):
            name = STOPPED if was_stopped(event) else category
            errors = {**tally.errors, name: tally.errors.get(name, 0) + 1}
            again = event.retry_at is not None and name not in NOT_FAILED
            tally = tally._replace(errors=errors, retries=tally.retries + again)
    if not isinstance(event, ToolResult) and leaves_unknown(event):
        tally = tally._replace(untold=tally.untold + 1)
    elif event.usage is not None and event.usage.cost is not None:
        tally = tally._replace(billed=added(tally.billed, model, event.usage))
    elif event.usage is not None:
        tally = tally._replace(tokens=added(tally.tokens, model, event.usage))
    return tally._replace(took=_timed(tally.took, event.duration_ms))


def _timed(times: Histogram, took: int | None) -> Histogram:
    return times if took is None else times.add(took)


usage = Fold("usage", Usage(), _take, version=10, state=Usage)
"""The fold: `usage(entries)`, or `conversation.fold(usage)`, which stores checkpoints."""


def usage_by(entries: Iterable[Entry], key: Callable[[Entry], K | None]) -> dict[K, Usage]:
    """Return the usage of entries by a key, such as the day; those with None count nothing.

    All entries tell the lanes' models, and whose results are.
    """
    used, found = usage.initial, dict[K, Usage]()
    for entry in entries:
        used, row = read(used, entry)
        if row is not None and (name := key(entry)) is not None:
            found[name] = found.get(name, usage.initial).plus(row)
    return found
