"""Advice on a bill: what an agent's calls would have cost under other breakpoints, lifetimes, orders or cuts.

Each option is simulated on the recorded calls with the rules of their provider (see `simulation`). What helps
is a patch of the agent's card, or, for a program of others, a sentence to its authors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.policy import LastN, Policy, PolicyRule, Recent, policy
from stenolog.projections.formats.caching import Layout
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.prices import PRICES, Prices
from stenolog.projections.requests import LaneId

from .compactions import MOST_CALLS, Compacting, Summaries, Wanted, summaries_of
from .layouts import marks_under, moved
from .simulation import SentPrompt
from .traffic import RecordedCall, Traffic, card_of

OptionKind: TypeAlias = Literal["breakpoints", "order", "cuts", "compaction"]
LEAST_SAVING = 0.02
"""The part of the bill from which a saving is worth a change: below, the simulation may be wrong."""
MOST_DOUBT = 0.04
"""The part of the bill by which errors in the sizes of beginnings may change it."""
PATCHED = 0.8
"""A patch is proposed if it saves this part of what a change of a program would."""
CUTS = (10, 20, 50, 75)
"""Other parts of a budget, in per cent, that a cut may leave."""


class Option(NamedTuple):
    """A change, and the agent's bill under it in micro-dollars; `saving` is negative if that is dearer.

    `words` say what to do. `patch` are fields of the agent's card, whole, as `AgentCard` takes them, or its
    `summary`, whose fields `AutoSummary` takes; empty if
    only the authors of a program, or of a text, can change it. `is_unsure`: it depends much on the size of a
    beginning that no bill states, such as one about as short as its provider keeps at least.
    """

    kind: OptionKind
    words: str
    patch: Mapping[str, Any]
    micro_usd: int
    saving: int
    is_unsure: bool


class Advice(NamedTuple):
    """Advice for an agent: the best option, and all of them with the largest saving first.

    `billed` is what the provider states, `simulated` the same by the simulation, in micro-dollars. `best` is
    None if it is best to leave all as it is. `is_own`: stenolog builds its requests.
    """

    agent: str
    models: tuple[str, ...]
    calls: int
    is_own: bool
    billed: int
    simulated: int
    best: Option | None
    options: tuple[Option, ...]

    @property
    def error(self) -> float:
        """The part of the bill by which the simulation is off."""
        return abs(self.simulated - self.billed) / self.billed if self.billed else 0.0


def advise(
    logs: Iterable[Sequence[Entry]],
    *,
    agent: str = "",
    prices: Prices = PRICES,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> list[Advice]:
    """Return advice for each agent of some logs, or for one, the dearest first.

    The logs' calls share the provider's cache. Calls without a receipt or a price are left out.
    """
    return advice_on(Traffic(logs, prices, blobs, counters), agent)


def advice_on(traffic: Traffic, agent: str = "") -> list[Advice]:
    """Return advice for each agent, or for one, as `advise`."""
    names = dict.fromkeys((call.agent, call.is_own) for call in traffic.calls)
    found = [_Advisor(traffic, *name).advice() for name in names if agent in ("", name[0])]
    return sorted(found, key=lambda one: (-one.simulated, one.agent))


class _Change(NamedTuple):
    """A change of a card: of its parameters, and of rules of its policy."""

    parameters: Mapping[str, Any] = {}
    rules: Policy = policy(None)


class _Tried(NamedTuple):
    option: Option
    change: _Change | None


class _Advisor:
    """Options of one agent, among all the calls that its provider has seen."""

    def __init__(self, traffic: Traffic, agent: str, is_own: bool) -> None:
        self.traffic, self.agent, self.is_own = traffic, agent, is_own
        self.calls = [call for call in traffic.calls if (call.agent, call.is_own) == (agent, is_own)]
        models = {call.prompt.model for call in self.calls}
        others = (call for call in traffic.calls if (call.agent, call.is_own) != (agent, is_own))
        self.beside = [call.sent for call in others if call.prompt.model in models]
        self.models = tuple(sorted(models))
        costs = traffic.costs([call.sent for call in self.calls] + self.beside)
        self.total, self.now = sum(costs), sum(costs[: len(self.calls)])
        self.card = card_of(traffic.logs[self.calls[-1].log], agent)
        self.policy = self.calls[-1].policy

    def advice(self) -> Advice:
        tried = sorted(
            [*self._breakpoints(), *self._cuts(), *self._compactions(), *self._order()],
            key=lambda one: -one.option.saving,
        )
        billed = self.traffic.billed(self.calls)
        advice = Advice(self.agent, self.models, len(self.calls), self.is_own, billed, self.now, None, ())
        best = self._best(tried, round(self.now * max(LEAST_SAVING, advice.error)))
        return advice._replace(best=best, options=tuple(one.option for one in tried))

    def _best(self, tried: Sequence[_Tried], least: int) -> Option | None:
        """Return the best option, or two kinds of change together; None if none saves enough."""
        saving = [one for one in tried if one.option.saving >= max(least, 1) and not one.option.is_unsure]
        patches = [one for one in saving if one.option.patch]
        if patches and patches[0].option.saving >= saving[0].option.saving * PATCHED:
            saving = patches
        if not saving:
            return None
        best = self._together(saving, least) if self.is_own else None
        # By the requests that the patched card really leads to.
        exact = (self._exact(one) for one in saving)
        return best or next((one for one in exact if one.saving >= least and not one.is_unsure), None)

    def _together(self, saving: Sequence[_Tried], least: int) -> Option | None:
        """Return the best change with the best of another kind; None if that saves little more."""
        (best, change), *others = saving
        other = next((one for one in others if one.option.kind != best.kind and one.change), None)
        if change is None or other is None or other.change is None:
            return None
        parameters = {**change.parameters, **other.change.parameters}
        both = _Change(parameters, change.rules | other.change.rules)
        made = self._rebuilt(best.kind, f"{best.words}; and {other.option.words}", both)
        is_more = made is not None and made.option.saving > best.saving + least and not made.option.is_unsure
        return made.option if made is not None and is_more else None

    def _exact(self, tried: _Tried) -> Option:
        option, change = tried
        made = None if change is None or not self.is_own else self._rebuilt(option.kind, option.words, change)
        return option if made is None else made.option

    def _tried(
        self,
        kind: OptionKind,
        words: str,
        calls: Sequence[SentPrompt],
        change: _Change | None,
        *,
        patch: Mapping[str, Any] = {},
        beside: int = 0,
    ) -> _Tried:
        """Return an option; `beside` are micro-dollars that it costs more beside the calls."""
        everything = [*calls, *self.beside]
        total, *others = (sum(self.traffic.costs(everything, doubt)) for doubt in (0, 1, -1))
        is_unsure = any(abs(other - total) > total * MOST_DOUBT for other in others)
        saving = self.total - total - beside
        patch = self._patch(change) if change is not None and self.is_own else patch
        return _Tried(Option(kind, words, patch, self.now - saving, saving, is_unsure), change)

    def _patch(self, change: _Change) -> dict[str, Any]:
        parameters = {**self.card.parameters, **change.parameters}
        whole = (self.policy | change.rules).json
        return {
            **({"parameters": parameters} if change.parameters else {}),
            **({"policy": whole} if change.rules != policy(None) else {}),
        }

    def _rebuilt(self, kind: OptionKind, words: str, change: _Change) -> _Tried | None:
        calls = self.traffic.rebuilt(self.calls, self._patch(change))
        return None if calls is None else self._tried(kind, words, calls, change)

    def _breakpoints(self) -> Iterator[_Tried]:
        has_tools = any(block.section == "tools" for call in self.calls for block in call.prompt.blocks)
        known = (layout for call in self.calls for layout in call.prompt.rules.layouts)
        layouts = dict.fromkeys(layout.words for layout in known if has_tools or not layout.tools)
        now = [call.sent for call in self.calls]
        for words in layouts:
            pairs = [(call, _layout(call, words)) for call in self.calls]
            calls = [call.sent if layout is None else _under(call, layout) for call, layout in pairs]
            chosen = next(layout for _, layout in pairs if layout is not None)
            if [(call.marks, call.idle) for call in calls] != [(call.marks, call.idle) for call in now]:
                yield self._tried("breakpoints", words, calls, _Change(chosen.parameters))

    def _cuts(self) -> Iterator[_Tried]:
        for words, rules in _other_rules(self.policy) if self.is_own else ():
            made = self._rebuilt("cuts", words, _Change({}, policy(rules)))
            if made is not None and made.option.saving:
                yield made

    def _compactions(self) -> Iterator[_Tried]:
        """Yield summaries at half the size at which they were made, at twice it, and only at a limit."""
        lanes = {(call.log, call.lane) for call in self.calls if self.is_own}
        found = {where: summaries_of(self.traffic.logs[where[0]], where[1]) for where in lanes}
        known = {where: each for where, each in found.items() if each is not None}
        if self.policy.budget is not None or self.policy.history.window[0] is not None:
            return
        made_at = [self._before(where, at) for where, each in known.items() for at in each.positions]
        before = [call for call in made_at if call is not None]
        paid = self.traffic.price_of_summaries([used for each in known.values() for used in each.spent])
        if not before or not paid or len(self.calls) > MOST_CALLS:
            return
        # What a summary costs goes with what it reads.
        each_token = paid / sum(sum(call.sizes) for call in before)
        size, keep = min(call.estimated for call in before), max(each.keep for each in known.values())
        for words, over in (
            (f"summarise from {_rounded(size // 2):,} tokens on", _rounded(size // 2)),
            (f"summarise from {_rounded(size * 2):,} tokens on", _rounded(size * 2)),
            ("summarise only at the limit of the model", 0),
        ):
            calls, read = self._compacted(known, over)
            patch = {"summary": {"keep": keep, **({"over": over} if over else {})}}
            beside = round(read * each_token) - paid
            yield self._tried("compaction", words, calls, None, patch=patch, beside=beside)

    def _compacted(
        self, known: Mapping[tuple[int, LaneId], Summaries], over: int
    ) -> tuple[list[SentPrompt], float]:
        """Return the calls with summaries from a size on, and the tokens that the summaries read."""
        made: dict[tuple[int, int], SentPrompt] = {}
        total = 0.0
        for (number, lane), each in known.items():
            calls = [call for call in self.calls if (call.log, call.lane) == (number, lane)]
            asked = [Wanted(call.view, call.policy, call.api, call.position) for call in calls]
            blobs, counters = self.traffic.blobs, self.traffic.counters
            lane_made = Compacting(self.traffic.logs[number], lane, each, over, blobs, counters)
            for call, request in zip(calls, lane_made.requests(asked), strict=True):
                made[number, call.position] = self.traffic.changed(call, request)
            # As billed, by how the estimates of this lane are.
            total += lane_made.read * sum(calls[-1].sizes) / max(calls[-1].estimated, 1)
        return [made.get((call.log, call.position), call.sent) for call in self.calls], total

    def _before(self, where: tuple[int, LaneId], position: int) -> RecordedCall | None:
        own = (call for call in self.calls if (call.log, call.lane) == where and call.position < position)
        return max(own, key=lambda call: call.position, default=None)

    def _order(self) -> Iterator[_Tried]:
        found = moved([call.prompt for call in self.calls])
        if found is not None:
            prompts = zip(self.calls, found.prompts, strict=True)
            calls = [call.under(prompt, self.traffic.sized_as(call, prompt)) for call, prompt in prompts]
            lines = "the line" if found.lines == 1 else "the lines"
            words = (
                f"move {lines} of the instructions that change after the conversation: {found.example:.60}"
            )
            yield self._tried("order", words, calls, None)


def _rounded(tokens: int) -> int:
    return round(tokens, 2 - len(str(tokens)))


def _layout(call: RecordedCall, words: str) -> Layout | None:
    return next((each for each in call.prompt.rules.layouts if each.words == words), None)


def _under(call: RecordedCall, layout: Layout) -> SentPrompt:
    if not call.prompt.is_marked:
        return call.sent._replace(idle=layout.idle)
    return call.sent._replace(marks=marks_under(call.prompt, layout))


def _other_rules(now: Policy) -> Iterator[tuple[str, PolicyRule]]:
    """Yield other rules that cut less often, or keep the beginning of a request, in words."""
    if (budget := now.budget) is not None:
        for part in CUTS:
            if part != budget.cut_to:
                yield f"let a cut leave {part} % of the budget", replace(budget, cut_to=part)
        if budget.tokens is not None:
            yield f"set a budget of {2 * budget.tokens:,} tokens", replace(budget, tokens=2 * budget.tokens)
    match now.chosen:
        case (LastN(n=window, step=step) | Recent(recent=window, step=step)) as history:
            for wider in sorted({window // 4, window // 2} - {0}):
                if wider > step:
                    yield f"let a cut drop {wider} messages at once", replace(history, step=wider)
        case _:
            pass
    if (prompt := now.instructions) is not None:
        if prompt.place == "first":
            yield "show the rules of the mode after the conversation", replace(prompt, place="last")
        if prompt.tools_in:
            yield (
                "send the same tools in each mode, which then may all be called",
                replace(prompt, tools_in={}),
            )
