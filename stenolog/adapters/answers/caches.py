"""Reading of the prompt cache by requests, as data and in a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import listed, usd
from stenolog.adapters.queries.backwards import backwards
from stenolog.adapters.queries.token_counters import COUNTERS
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis.cache_misses import CacheCall, cache_call, cache_calls
from stenolog.projections.analysis.stated_reads import stated_calls
from stenolog.projections.prices import Prices
from stenolog.projections.requests import LaneId

from .lanes import means
from .requests import AskedRequest

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


COSTLY = 4_096
"""Tokens read anew from which on somebody who follows a conversation is told."""
NEAR = 400
"""The answer before is looked for among so many entries."""


def calls_of(conversation: Conversation, at: int | None = None, lane: str | None = None) -> list[CacheCall]:
    """Return what each call of a conversation read from the cache; with `lane`, of that lane alone.

    Calls without a receipt, as imports have them, are told as far as the provider states what it read.
    """
    entries = [*conversation.entries(at=at)]
    found = sorted([*cache_calls(entries, **means(conversation)), *stated_calls(entries)])
    return [call for call in found if lane in (None, call.lane)]


def call_data(call: CacheCall, prices: Prices) -> dict[str, Any]:
    """Return a call as JSON: tokens, and what the miss cost in millionths of a dollar."""
    return {
        **call._asdict(),
        "cause": call.cause._asdict(),
        "is_miss": call.is_miss,
        "agreement": call.agreement,
        "is_confirmed": call.is_confirmed,
        "cost_micro_usd": call.cost(prices) if call.missed else 0,
    }


def total_data(calls: Sequence[CacheCall], prices: Prices) -> dict[str, Any]:
    """Return the sums of calls: what they read, missed, and what that cost as far as prices are known."""
    costs = [call.cost(prices) for call in calls if call.missed]
    confirmed = [call.is_confirmed for call in calls if call.is_confirmed is not None]
    return {
        "calls": len(calls),
        "misses": sum(call.is_miss for call in calls),
        "prompt": sum(call.prompt for call in calls),
        "read": sum(call.read or 0 for call in calls),
        "missed": sum(call.missed for call in calls),
        "known_cost_micro_usd": sum(cost for cost in costs if cost is not None),
        "cost_is_incomplete": None in costs,
        "verdicts": len(confirmed),
        "confirmed": sum(confirmed),
    }


def cause_words(call: CacheCall) -> str:
    """Say in words why a call missed the cache, and where; empty where it did not."""
    cause = call.cause
    if not cause.kind:
        return ""
    place = f" at {cause.pointer}" if cause.pointer else ""
    if cause.offset >= 0:
        place += f", character {cause.offset:,}"
    by = f", by entry {cause.entry}" if cause.entry else ""
    if not by and cause.kind in ("setting", "system", "tools"):
        by = ", by the client itself"
    how = f" {cause.how}" if cause.how and cause.how != cause.kind else ""
    words = f": {cause.words}" if cause.words else ""
    return f"{cause.kind}{how}{place}{by}{words}"


def verdict_words(call: CacheCall) -> str:
    """Return the provider's own verdict on its cache in words; empty if it gave none."""
    missed = f", {call.verdict_missed:,}" if call.verdict_missed else ""
    return f"{call.verdict.replace('_', ' ')}{missed}"


def cache_line(call: CacheCall) -> str:
    """Say in a line what a call read from the cache, and why no more."""
    read = call.expected if call.read is None else call.read
    should = "" if call.read is not None else " by what both requests begin with"
    verdict = f" (the provider says: {verdict_words(call)})" if call.verdict else ""
    said = f"cache: {read:,} of {call.prompt:,} tokens read{should}{verdict}"
    if not call.is_miss and not call.cause.pointer:
        return f"{said}; {call.cause.kind}" if call.cause.kind else said
    cost = call.cost(listed())
    money = f", {usd(cost)} USD" if cost else ""
    missed = f"; {call.missed:,} read anew{money}" if call.is_miss else ""
    return f"{said}{missed}; {cause_words(call)}"


def miss_line(conversation: Conversation, entry: Entry) -> str:
    """Say in a line what an answer's request missed of the cache; empty where that was not costly."""
    event = entry.event
    if not isinstance(event, AssistantMessage) or event.receipt is None or event.usage is None:
        return ""
    # Most answers are done with here, without a look at their requests.
    if event.usage.input - event.usage.cache_read < COSTLY:
        return ""
    whose, view = LaneId(event.agent, event.task), event.receipt.view
    earlier = _answer_before(conversation, whose, entry.position)
    if earlier is None:
        return ""
    before: Any = getattr(earlier.event, "receipt", None)
    api = event.receipt.api.partition("@")[0]
    pair = [
        (one, AskedRequest(conversation, whose.address, at, api, None, ()).request())
        for one, at in ((earlier, before.view), (entry, view))
    ]
    card = conversation.settings(at=before.view).cards.get(whose.agent)
    between = conversation.entries(before.view, view)
    found = cache_call(whose, pair[0], pair[1], between, card, counters=COUNTERS)
    return cache_line(found) if found is not None and found.missed >= COSTLY else ""


def _answer_before(conversation: Conversation, whose: LaneId, position: int) -> Entry | None:
    for entry in islice(backwards(conversation, position - 1), NEAR):
        event = entry.event
        if isinstance(event, AssistantMessage) and event.purpose != "routing" and whose.owns(event):
            return entry if event.receipt is not None else None
    return None
