"""Cost of a conversation under other policies and budgets; every request is built, no model called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.lanes.limits import MICRO_PER_USD, Tokens
from stenolog.domain.policy import DEFAULT_COUNTER, Budget, FullHistory, Policy, PolicyLike, policy
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.messages.sizes import COUNTERS, Counter, Rate, Size, count_parts, total
from stenolog.projections.prices import PRICES, Prices, cost
from stenolog.projections.requests import LaneId, Request, asked_api, build, check_takes_part, every_request
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.budget import ENDLESS, caps_now, limits
from stenolog.projections.requests.pipeline.measure import Measure
from stenolog.projections.requests.pipeline.view import Contents

from .cache.difference import compared
from .cache.prompts import Prompt, prompt_of


class BudgetRow(NamedTuple):
    """Result of one policy under one budget, over every request that a client would send.

    `requests` is their number, `over` that of those which do not fit the budget and cannot be sent. `cuts`:
    how often the window was cut. `told` is the number of a person's messages, `lost` the positions of those
    missing in some request. `sent` and `fresh` are tokens, `fresh` those after the beginning shared with the
    request before, and `cacheable` is the share (0 to 1) of the others; `output` are those of the answers in
    the log. `cost` is in USD, None if no price is known for the model.
    """

    policy: Policy
    tokens: int | None
    requests: int
    over: int
    cuts: int
    told: int
    lost: tuple[int, ...]
    cacheable: float
    sent: int
    fresh: int
    output: int
    model: str
    cost: float | None


def budget(
    entries: Iterable[Entry],
    agent: str,
    *,
    policies: Iterable[PolicyLike] = (FullHistory(),),
    tokens: Iterable[int | None] = (None,),
    task: str = "",
    api: str | None = None,
    prices: Prices = PRICES,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[BudgetRow]:
    """Yield a row for each policy under each budget; `tokens` None is the policy's own. Raises as `build`."""
    log, limits = list(entries), list(tokens)
    lane = LaneId(agent, task)
    chosen_api = asked_api(api, log, lane)
    given: dict[str, Any] = {"task": task, "api": chosen_api, "blobs": blobs, "counters": counters}
    check_takes_part(log, agent)
    rates = LaneRates(lane).extend(log)
    build(log, agent, policy=FullHistory(), **given)  # raises for what it cannot be built of
    asked: set[int] = set()
    heard: set[int] = set()
    for request in every_request(log, agent, policy=FullHistory(), **given):
        heard.update(position for part in request.parts for position in part.positions)
        if request.ready:
            asked.add(request.at)
    orders = {entry.position for entry in log if entry.position in heard and _is_instruction(entry)}
    for chosen in map(policy, policies):
        for limit in limits:
            limited = chosen if limit is None else with_tokens(chosen, limit, as_billed=rates.is_foreign)
            ledger = _Ledger(log, asked, orders)
            for request in map(rates.counted, every_request(log, agent, policy=limited, **given)):
                ledger.enter(request)
            yield ledger.row(chosen, limit, lane, prices)


def with_tokens(chosen: Policy, tokens: int, *, as_billed: bool = False) -> Policy:
    """Return the policy with another budget of tokens in place of its own.

    `as_billed`: a new budget counts by the log's bills.
    """
    fresh = Budget(tokens=tokens, counter="learned" if as_billed else DEFAULT_COUNTER)
    return chosen | (fresh if chosen.budget is None else replace(chosen.budget, tokens=tokens))


class _Ledger:
    """Adds up the requests of one policy, one after the other."""

    def __init__(self, log: Sequence[Entry], asked: set[int], orders: set[int]) -> None:
        self.log = log
        self.asked = asked
        self.orders = orders
        self.over = self.cuts = self.sent = self.cached = 0
        self.lost: set[int] = set()
        self.model = ""
        self.before: Prompt | None = None

    def enter(self, request: Request) -> None:
        self.cuts = max(self.cuts, request.cuts)
        if request.at in self.asked and not request.ready:
            self.over += 1
        if request.ready:
            self.model = request.body.get("model") or self.model
            self._measure(request)
            cut = [run for run in request.omissions if run.rule in CUTS]
            self.lost |= {
                p for p in self.orders - self.lost if any(run.first <= p <= run.last for run in cut)
            }

    def _measure(self, request: Request) -> None:
        """Add a request's tokens, and those of the beginning shared with the previous one."""
        now = prompt_of(request)
        self.sent += request.size.tokens
        if self.before is not None:
            self.cached += now.ends[compared(self.before, now).same]
        self.before = now

    def row(self, chosen: Policy, limit: int | None, lane: LaneId, prices: Prices) -> BudgetRow:
        output = sum(_answered(entry, lane) for entry in self.log)
        paid = cost({self.model: Tokens(self.sent, output, self.cached)}, prices)
        return BudgetRow(
            policy=chosen,
            tokens=limit,
            requests=len(self.asked),
            over=self.over,
            cuts=self.cuts,
            told=len(self.orders),
            lost=tuple(sorted(self.lost)),
            cacheable=self.cached / self.sent if self.sent else 0.0,
            sent=self.sent,
            fresh=self.sent - self.cached,
            output=output,
            model=self.model,
            cost=None if paid is None else paid / MICRO_PER_USD,
        )


def _is_instruction(entry: Entry) -> bool:
    match entry.event:
        case UserMessage(author_kind="person", parts=parts):
            return bool(parts)
        case _:
            return False


def _answered(entry: Entry, lane: LaneId) -> int:
    match entry.event:
        case AssistantMessage(usage=usage, parts=parts) as answer if lane.owns(answer):
            return usage.output if usage is not None and usage.output else count_parts(parts)
        case _:
            return 0


class BudgetRoom(NamedTuple):
    """One limit of a budget, in `unit`, and the sizes that are compared with it, at most on any API.

    `measured` is the size of the conversation without the budget's cuts, `shown` with them. `room` is what
    the limit leaves for it beside what surrounds it, and `target` what a cut leaves of that.
    """

    unit: str
    limit: int
    room: int
    measured: int
    shown: int
    target: int


def budget_room(
    request: Request,
    entries: Iterable[Entry],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[BudgetRoom, ...]:
    """Return the arithmetic of each limit of a request's budget; `entries` are the request's."""
    policy, log = request.policy, [*entries]
    if policy.budget is None:
        return ()
    lane, counter = LaneId(request.agent, request.task), counters[policy.counter]
    cut = window(lane, policy, log, counter, blobs)
    measure, seen = Measure(policy.budget, counter, blobs), cut.contents()
    whole = _size(measure, window(lane, replace(policy, budget=None), log, counter, blobs).contents())
    cap = caps_now(cut, seen)[-1]  # the budget's is the last
    sizes = (limits(policy.budget), cap.room, whole, _size(measure, seen), cap.target)
    rooms = (BudgetRoom(*each) for each in zip(Size._fields, *sizes, strict=True))
    return tuple([_billed(room, cut.rate) for room in rooms if room.limit != ENDLESS])


def _billed(room: BudgetRoom, rate: Rate) -> BudgetRoom:
    if room.unit != "tokens":
        return room
    return BudgetRoom(room.unit, room.limit, *map(rate.of, room[2:]))


def _size(measure: Measure, contents: Contents) -> Size:
    return total(measure.of(message) for unit in contents.units for message in unit)
