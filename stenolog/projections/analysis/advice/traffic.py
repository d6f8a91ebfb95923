"""Recorded calls of several logs as one stream to a provider, with the sizes that its bills state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.lanes.limits import Tokens
from stenolog.domain.policy import Policy
from stenolog.domain.values import Usage
from stenolog.projections.formats.caching import UNKNOWN
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.prices import Price, Prices, millionths, price_of, rounded
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.request import PATCH

from ..cache.calls import PromptCall, prompt_calls
from ..cache.prompts import Prompt, prompt_of
from ..retry.cases import cases
from ..retry.changes import Change, Here, retried
from .billed_sizes import BilledSizes
from .simulation import SentPrompt, SharedCache, sent, simulated


class RecordedCall(NamedTuple):
    """A recorded call: the number of its log, its answer's position, its prompt and the tokens of its blocks.

    `view`, `policy` and `api` are those of its request. `is_own`: stenolog built the request, so it can be
    built otherwise.
    """

    log: int
    lane: LaneId
    position: int
    prompt: Prompt
    sizes: Sequence[float]
    usage: Usage | None
    begun: float
    answered: float
    view: int
    policy: Policy
    api: str
    is_own: bool

    @property
    def agent(self) -> str:
        return self.lane.agent

    @property
    def estimated(self) -> int:
        """The tokens of its prompt, estimated."""
        return sum(block.tokens() for block in self.prompt.blocks)

    @property
    def sent(self) -> SentPrompt:
        return self.under(self.prompt, self.sizes)

    def under(self, prompt: Prompt, sizes: Sequence[float]) -> SentPrompt:
        """Return the call with another prompt, sent at the same time, with an answer of as many tokens."""
        made = sent(prompt, sizes, self.begun, self.answered)
        return made._replace(output=0 if self.usage is None else self.usage.output)


class Traffic:
    """The calls of logs in the order in which they were sent; those with known cache rules and a price.

    `unpriced` are the models that have no price.
    """

    def __init__(
        self,
        logs: Iterable[Sequence[Entry]],
        prices: Prices,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
        counters: Mapping[str, Counter] = COUNTERS,
    ) -> None:
        self.logs, self.blobs, self.counters = [*logs], blobs, counters
        self.sizes: dict[str, BilledSizes] = defaultdict(BilledSizes)
        self.prices: dict[str, Price] = {}
        found = [call for number, log in enumerate(self.logs) for call in self._recorded(number, log)]
        self._table = prices
        models = {call.prompt.model for call in found}
        self.prices = {model: price for model in models if (price := price_of(model, prices)) is not None}
        self.unpriced = sorted(models - {*self.prices})
        known = [call for call in found if call.prompt.model in self.prices]
        self.errors: dict[bytes, float] = {}
        self.calls = [*self._measured(sorted(known, key=lambda call: call.begun))]
        for made in (call.sent for call in self.calls if call.prompt.is_marked):
            for number, key in enumerate(made.keys, 1):
                self.errors[key] = min(made.error(number), self.errors.get(key, inf))

    def _recorded(self, number: int, log: Sequence[Entry]) -> Iterator[RecordedCall]:
        for lane, calls in prompt_calls(log, blobs=self.blobs, counters=self.counters):
            before: PromptCall | None = None
            for made in calls:
                call = made.after(before)
                before = call
                if call.prompt.rules is not UNKNOWN and call.prompt.model:
                    yield self._call(number, lane, call)

    def _call(self, number: int, lane: LaneId, call: PromptCall) -> RecordedCall:
        begun = call.prompt.time.timestamp()
        return RecordedCall(
            number,
            lane,
            call.entry.position,
            call.prompt,
            (),
            call.usage,
            begun,
            begun + _until_answered(call.entry),
            call.receipt.view,
            call.request.policy,
            call.request.api.partition("@")[0],
            PATCH not in call.receipt.plan,
        )

    def _measured(self, calls: Sequence[RecordedCall]) -> Iterator[RecordedCall]:
        """Yield the calls with the sizes of their blocks, learned from bills."""
        # What a later bill says of a beginning counts for earlier calls, too.
        for is_last in (False, True):
            caches: dict[str, SharedCache] = {}
            for call in calls:
                sizes = self._learned(call, caches.setdefault(call.prompt.model, SharedCache(0)))
                if is_last:
                    yield call._replace(sizes=sizes)

    def _learned(self, call: RecordedCall, cache: SharedCache) -> list[float]:
        prompt, usage, known = call.prompt, call.usage, self.sizes[call.prompt.model]
        sizes = [*map(known.of, prompt.blocks)]
        if usage is None:
            return sizes
        made = call.under(prompt, sizes)
        near = cache.beginnings_kept(made) if usage.cache_read and prompt.is_marked else []
        read = min(near, key=lambda n: abs(made.ends[n - 1] - usage.cache_read), default=0)
        cache.take(made)
        for number in (read, prompt.last if usage.cache_write and prompt.is_marked else 0):
            if number:
                self.errors[made.keys[number - 1]] = 0.0
        return known.learn(prompt, usage, read)

    def sized_as(self, call: RecordedCall, prompt: Prompt) -> list[float]:
        """Return the tokens of a call's blocks in another order; new ones have what is left of all."""
        known = {block.key: size for block, size in zip(call.prompt.blocks, call.sizes, strict=True)}
        new = [block for block in prompt.blocks if block.key not in known]
        rest = sum(call.sizes) - sum(known.get(block.key, 0.0) for block in prompt.blocks)
        scale = max(rest, 0.0) / max(sum(block.tokens() for block in new), 1)
        return [known.get(block.key, block.tokens() * scale) for block in prompt.blocks]

    def costs(self, calls: Sequence[SentPrompt], doubt: int = 0) -> list[int]:
        """Return the simulated bill of each call, in micro-dollars; `doubt` as in `simulated`."""
        pairs = zip(calls, simulated(calls, self.errors, doubt), strict=True)
        return [rounded(millionths(self.prices[call.model], outcome.used)) for call, outcome in pairs]

    def billed(self, calls: Iterable[RecordedCall]) -> int:
        """Return the bill of calls by what their provider states, in micro-dollars."""
        stated = ((call.prompt.model, call.usage) for call in calls if call.usage is not None)
        return rounded(sum(millionths(self.prices[model], Tokens().plus(used)) for model, used in stated))

    def price_of_summaries(self, spent: Iterable[tuple[str, Usage]]) -> int:
        """Return what models were paid beside the calls, in micro-dollars; 0 without a price."""
        priced = [(price_of(model, self._table), Tokens().plus(used)) for model, used in spent]
        known = [(price, used) for price, used in priced if price is not None]
        return rounded(sum(millionths(*each) for each in known)) if len(known) == len(priced) else 0

    def rebuilt(self, calls: Sequence[RecordedCall], patch: Mapping[str, Any]) -> list[SentPrompt] | None:
        """Return an agent's calls with the requests that a patch of its card leads to.

        None if one of them cannot be built, or not be sent.
        """
        change = Change(card=patch, agent=calls[0].agent)
        means, found = Here(blobs=self.blobs, counters=self.counters), dict[tuple[int, int], Request]()
        for number in {call.log for call in calls}:
            wanted = {call.position for call in calls if call.log == number}
            chosen = (case for case in cases(self.logs[number]) if case.position in wanted)
            for made in retried(chosen, self.logs[number], change, means):
                if made.now is not None and made.now.ready:
                    found[number, made.case.position] = made.now
        requests = [found.get((call.log, call.position)) for call in calls]
        built = [request for request in requests if request is not None]
        if len(built) < len(calls):
            return None
        return [self.changed(call, request) for call, request in zip(calls, built, strict=True)]

    def changed(self, call: RecordedCall, request: Request) -> SentPrompt:
        """Return a call with another request."""
        prompt = prompt_of(request)._replace(model=call.prompt.model)
        # What is the same as recorded is billed the same.
        is_same = [block.key for block in prompt.blocks] == [block.key for block in call.prompt.blocks]
        sizes = call.sizes if is_same else [*map(self.sizes[call.prompt.model].of, prompt.blocks)]
        end = zip(prompt.blocks[prompt.last :], sizes[prompt.last :], strict=True)
        guessed = sum(size for block, size in end if not self.sizes[prompt.model].has(block))
        return call.under(prompt, sizes)._replace(guessed=guessed)


def card_of(log: Iterable[Entry], agent: str) -> AgentCard:
    """Return an agent's last card in a log; an empty one if it has none."""
    cards = (e.event.cards.get(agent) for e in log if isinstance(e.event, ModeSwitch))
    return next(reversed([card for card in cards if card is not None]), AgentCard())


def _until_answered(entry: Entry) -> float:
    """Return the seconds until a call's answer began; until it ended, if that is not known."""
    event = entry.event
    assert isinstance(event, AssistantMessage | LlmError)
    first = event.first_token_ms if isinstance(event, AssistantMessage) else None
    return (event.duration_ms or 0 if first is None else first) / 1_000
