"""Misses of the prompt cache: what each request read, could have read, and what prevented that.

Each sent request is compared with the lane's previous call to the same model.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError, StenologError
from stenolog.domain.events import AssistantMessage, Event, LlmError
from stenolog.domain.values import Receipt, Usage
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.prices import Prices, price_of
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.series import at_views
from stenolog.projections.requests.request import sent_under

from .causes import NO_CAUSE, Cards, Cause, card_at, cards_of, cause_of, model_cause
from .difference import TOLERANCE, compared, following
from .prompts import Prompt, PromptCache, causes_of, minimum_of, prompt_of

Agreement: TypeAlias = Literal["agrees", "read less", "read more", "not stated"]
LEAST = 1_024
"""Tokens read anew from which on it is a miss: providers keep no shorter beginning."""


class CacheCall(NamedTuple):
    """Reading of the cache by a call, in tokens of the provider if it states them, else estimated.

    `position` is that of the answer, `view` of the request, `before` of the answer to the call that it is
    compared with (0: none). `prompt` are all tokens, `same` those that both begin with. `read` is what the
    provider states, None if nothing, and `written` likewise, `written_hour` of it for an hour; `expected`
    what it should have read. `missed` could have been read, and were billed again. `verdict` is the
    provider's own word on its cache, with the tokens that it says it missed.
    """

    position: int
    view: int
    lane: str
    api: str
    model: str
    before: int
    prompt: int
    same: int
    expected: int
    read: int | None
    written: int | None
    missed: int
    seconds: int
    cause: Cause
    written_hour: int = 0
    verdict: str = ""
    verdict_missed: int = 0

    @property
    def is_miss(self) -> bool:
        """True if so much was read anew that it is worth a look."""
        return self.missed >= LEAST

    @property
    def is_confirmed(self) -> bool | None:
        """True if the provider's verdict names the same cause, False if another; None if none."""
        named = causes_of(self.verdict)
        return self.cause.kind in named if named else None

    @property
    def agreement(self) -> Agreement:
        """The provider's reading, beside what it should have read."""
        if self.read is None:
            return "not stated"
        room = max(TOLERANCE, self.prompt // 10)
        if abs(self.read - self.expected) <= room:
            return "agrees"
        return "read less" if self.read < self.expected else "read more"

    def cost(self, prices: Prices) -> int | None:
        """Return the miss's cost as `cost_anew`."""
        return cost_anew(self.missed, self.model, prices, self.written or 0, self.written_hour)


def cost_anew(tokens: int, model: str, prices: Prices, written: int = 0, written_hour: int = 0) -> int | None:
    """Return tokens' cost beyond the cache's price, in micro-dollars; None without a price.

    `written` of them were written to the cache, `written_hour` of these for an hour.
    """
    price = price_of(model, prices)
    if price is None:
        return None
    anew = price.writes[written_hour * 2 > written] if written else price.input
    # Tokens times USD per million tokens are micro-dollars.
    return round(tokens * max(0.0, anew - price.cached))


def stated(usage: Usage | None) -> tuple[int, str, int]:
    """Return the provider's words on its cache beside what it read and wrote."""
    return (0, "", 0) if usage is None else (usage.cache_write_hour, usage.cache_verdict, usage.cache_missed)


class PromptCall(NamedTuple):
    """A call with its prompt, and the request that it is explained by."""

    entry: Entry
    receipt: Receipt
    request: Request
    prompt: Prompt
    usage: Usage | None

    def after(self, before: PromptCall | None) -> PromptCall:
        """Return the call with the messages that the provider keeps of the one it continues."""
        return self._replace(prompt=following(self.prompt, self.request, before and before.prompt))


def cache_calls(
    entries: Iterable[Entry],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> list[CacheCall]:
    """Return what each call of a log read from the cache, in the order of the answers.

    Calls without a receipt, or that can no longer be built, are skipped.
    """
    log = list(entries)
    found: list[CacheCall] = []
    for lane, calls in prompt_calls(log, blobs=blobs, counters=counters):
        found += _compared(log, lane, calls)
    return sorted(found)


def prompt_calls(
    log: Sequence[Entry],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[tuple[LaneId, list[PromptCall]]]:
    """Yield each lane's calls with their prompts as sent, in the order of the answers."""
    for lane, receipts in _receipts(log).items():
        calls = _calls(log, lane, receipts, blobs, counters)
        yield lane, sorted(calls, key=lambda call: call.entry.position)


def cache_call(
    before: tuple[Entry, Request],
    after: tuple[Entry, Request],
    between: Iterable[Entry],
    card: AgentCard | None = None,
) -> CacheCall | None:
    """Return what a call read from the cache, compared only with the previous one; None without receipts.

    Each is answer and request; `between` are the entries after the earlier request up to this one; `card` is
    the lane's at the earlier one.
    """
    lane, calls = LaneId(after[1].agent, after[1].task), list[PromptCall]()
    for entry, request in (before, after):
        receipt = getattr(entry.event, "receipt", None)
        if not isinstance(receipt, Receipt):
            return None
        calls.append(_call(entry, receipt, request))
    first, second, since = calls[0], calls[1], list(between)
    cards = [*([] if card is None else [(first.receipt.view, card)]), *cards_of(since, lane)]
    if first.prompt.model != second.prompt.model:
        return _one(lane, None, first, second, 0, cards, ())
    second = second.after(first)
    cache = PromptCache()
    cache.take(first.prompt)
    return _one(lane, first, first, second, cache.take(second.prompt), cards, since)


def _receipts(log: Iterable[Entry]) -> dict[LaneId, list[tuple[Entry, Receipt]]]:
    found: dict[LaneId, list[tuple[Entry, Receipt]]] = defaultdict(list)
    for entry in log:
        event = entry.event
        if isinstance(event, AssistantMessage | LlmError) and event.receipt is not None and is_call(event):
            found[LaneId(event.agent, event.task)].append((entry, event.receipt))
    return found


def is_call(event: Event) -> bool:
    """Return whether an event ends a call that a model began to answer."""
    match event:
        case AssistantMessage(purpose=purpose):
            return purpose != "routing"
        case LlmError(parts=parts, usage=usage):
            return bool(parts) or (usage is not None and bool(usage.input))
        case _:
            return False


def _calls(
    log: Sequence[Entry],
    lane: LaneId,
    receipts: Iterable[tuple[Entry, Receipt]],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[PromptCall]:
    groups: dict[tuple[str, str], dict[int, list[tuple[Entry, Receipt]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for entry, receipt in receipts:
        written = json.dumps(receipt.policy, sort_keys=True)
        groups[receipt.pipeline, written][receipt.view].append((entry, receipt))
    forms = SentForms(log, lane, blobs)
    for waiting in groups.values():
        try:
            chosen = sent_under(next(iter(waiting.values()))[0][1])
            for (entry, receipt), series in at_views(waiting, log, lane, chosen, counters, blobs):
                api = receipt.api.partition("@")[0]
                if api in FORMATS:
                    yield _call(entry, receipt, forms.form(series.request(api), receipt))
        except (InvalidPolicyError, StenologError):
            continue  # of a later release, or damaged: `check log --requests` says why


def _call(entry: Entry, receipt: Receipt, request: Request) -> PromptCall:
    event = entry.event
    assert isinstance(event, AssistantMessage | LlmError)
    usage = event.usage if event.usage is not None and event.usage.input else None
    begun = entry.time - timedelta(milliseconds=event.duration_ms or 0)
    prompt = prompt_of(request, usage, begun)
    return PromptCall(entry, receipt, request, prompt._replace(model=prompt.model or event.model), usage)


def _compared(log: Sequence[Entry], lane: LaneId, calls: Sequence[PromptCall]) -> Iterator[CacheCall]:
    """Yield what each call read, beside the last one of the same model."""
    last: dict[str, PromptCall] = {}
    caches: dict[str, PromptCache] = defaultdict(PromptCache)
    cards = cards_of(log, lane)
    previous: PromptCall | None = None
    for sent in calls:
        before = last.get(sent.prompt.model)
        call = sent.after(before)
        expected = caches[call.prompt.model].take(call.prompt)
        between = log[before.receipt.view : call.receipt.view] if before else ()
        yield _one(lane, before, previous, call, expected, cards, between)
        previous = last[call.prompt.model] = call


def _one(
    lane: LaneId,
    before: PromptCall | None,
    previous: PromptCall | None,
    call: PromptCall,
    expected: int,
    cards: Cards,
    between: Sequence[Entry],
) -> CacheCall:
    prompt, usage = call.prompt, call.usage
    read = prompt.read
    found = None if before is None else compared(before.prompt, prompt)
    same = could = 0
    if found is not None:
        same = prompt.ends[found.same]
        could = min(same, prompt.ends[prompt.last]) + prompt.tokens_in(found.again)
    seconds = 0 if before is None else int((prompt.time - before.prompt.time).total_seconds())
    missed = max(0, could - (expected if read is None else read))
    cache_call = CacheCall(
        call.entry.position,
        call.receipt.view,
        lane.address,
        call.receipt.api.partition("@")[0],
        prompt.model,
        0 if before is None else before.entry.position,
        prompt.tokens,
        same,
        expected,
        read,
        None if usage is None else usage.cache_write,
        missed,
        seconds,
        NO_CAUSE,
        *stated(usage),
    )
    if before is None:
        cause = (
            model_cause(previous.receipt.view, call.receipt.view, cards) if previous else Cause("cold start")
        )
        return cache_call._replace(cause=cause)
    change = found and found.change
    if change is not None and not _is_over(cache_call, before.prompt):
        card = card_at(cards, before.receipt.view)
        blocks = before.prompt.blocks, prompt.blocks
        cause = cause_of(change, (before.request, call.request), blocks, between, card)
        return cache_call._replace(cause=cause)
    return cache_call._replace(cause=_cause_without_change(cache_call, before.prompt, prompt))


def _is_over(found: CacheCall, before: Prompt) -> bool:
    return found.seconds > before.keeps > 0 and (found.read is None or found.read * 2 < found.same)


def _cause_without_change(found: CacheCall, before: Prompt, prompt: Prompt) -> Cause:
    """Return why a prompt that continues the previous one did not read it."""
    if _is_over(found, before):
        return Cause("expired", words=f"{found.seconds} s since the call before, kept for {before.keeps} s")
    if found.agreement == "agrees" and not found.is_miss:
        return NO_CAUSE
    if found.is_miss and prompt.is_marked and not (prompt.marks and before.marks):
        where = "the request" if not prompt.marks else "the request before"
        return Cause("no mark", words=f"{where} has no cache_control")
    least = minimum_of(prompt.model)
    if prompt.tokens < least or before.ends[(before.marks or [0])[-1]] < least:
        return Cause("too short", words=f"{prompt.model} keeps no beginning below {least:,} tokens")
    if (
        found.is_miss
        and prompt.is_marked
        and found.expected < found.same - max(TOLERANCE, found.prompt // 10)
    ):
        return Cause(
            "too far",
            words=f"no mark of the request before is within {prompt.rules.lookback} blocks of one here",
        )
    return (
        Cause("not read", words="the beginning is the same; the provider had it no longer")
        if found.is_miss
        else NO_CAUSE
    )
