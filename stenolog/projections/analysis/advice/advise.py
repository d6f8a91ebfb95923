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

from .layouts import marks_under, moved
from .simulation import SentPrompt
from .traffic import RecordedCall, Traffic, card_of

OptionKind: TypeAlias = Literal["breakpoints", "order", "cuts"]
LEAST_SAVING = 0.02
"""The part of the bill from which a saving is worth a change: below, the simulation may be wrong."""
CUTS = (10, 20, 50, 75)
"""Other parts of a budget, in per cent, that a cut may leave."""


class Option(NamedTuple):
    """A change, and the agent's bill under it in micro-dollars; `saving` is negative if that is dearer.

    `words` say what to do. `patch` are fields of the agent's card, whole, as `AgentCard` takes them; empty if
    only the authors of a program, or of a text, can change it. `is_unsure`: it depends on a beginning that is
    about as short as its provider keeps at least.
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
            [*self._breakpoints(), *self._cuts(), *self._order()], key=lambda one: -one.option.saving
        )
        billed = self.traffic.billed(self.calls)
        advice = Advice(self.agent, self.models, len(self.calls), self.is_own, billed, self.now, None, ())
        best = self._best(tried, round(self.now * max(LEAST_SAVING, advice.error)))
        return advice._replace(best=best, options=tuple(one.option for one in tried))

    def _best(self, tried: Sequence[_Tried], least: int) -> Option | None:
        """Return the best option, or two kinds of change together; None if none saves enough."""
        saving = [one for one in tried if one.option.saving >= max(least, 1) and not one.option.is_unsure]
        if not saving:
            return None
        best, change = saving[0]
        if change is None:
            return best
        other = next((one for one in saving if one.option.kind != best.kind and one.change), None)
        if other is not None and other.change is not None:
            both = _Change(
                {**change.parameters, **other.change.parameters}, change.rules | other.change.rules
            )
            words = f"{best.words}; and {other.option.words}"
            together = self._rebuilt(best.kind, words, both)
            if together is not None and together.option.saving > best.saving + least:
                return together.option
        # By the requests that the patched card really leads to.
        exact = self._rebuilt(best.kind, best.words, change) if self.is_own else None
        return best if exact is None else exact.option if exact.option.saving >= least else None

    def _tried(
        self, kind: OptionKind, words: str, calls: Sequence[SentPrompt], change: _Change | None
    ) -> _Tried:
        everything = [*calls, *self.beside]
        total, *others = (sum(self.traffic.costs(everything, doubt)) for doubt in (0, 1, -1))
        is_unsure = any(abs(other - total) > total * LEAST_SAVING for other in others)
        saving = self.total - total
        patch = self._patch(change) if change is not None and self.is_own else {}
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


def _layout(call: RecordedCall, words: str) -> Layout | None:
    return next((each for each in call.prompt.rules.layouts if each.words == words), None)


def _under(call: RecordedCall, layout: Layout) -> SentPrompt:
    if not call.prompt.is_marked:
        return call.sent._replace(idle=layout.idle)
    return call.under(call.prompt, call.sizes, marks_under(call.prompt, layout))


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
