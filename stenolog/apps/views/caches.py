"""Reading of the prompt cache by requests, as data and in a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.providers.prices import listed, usd
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis.cache.calls import CacheCall, cache_call, cache_calls, is_call
from stenolog.projections.analysis.cache.causes import Cause
from stenolog.projections.analysis.cache.stated import stated_calls
from stenolog.projections.analysis.provider_bill import states_input
from stenolog.projections.messages.rules import RULES
from stenolog.projections.prices import Prices
from stenolog.projections.requests import LaneId, Request

from .asked_request import AskedRequest
from .lanes import means

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


COSTLY = 4_096
"""Tokens read anew from which on a follower of a conversation is notified."""
NEAR = 400
"""The answer before is looked for among so many entries."""


def calls_of(conversation: Conversation, at: int | None = None, lane: str | None = None) -> list[CacheCall]:
    """Return what each call of a conversation, or of one lane, read from the cache.

    Calls without a receipt are included if the provider states what it read.
    """
    entries = [*conversation.entries(at=at)]
    found = sorted([*cache_calls(entries, **means(conversation)), *stated_calls(entries)])
    return [call for call in found if lane in (None, call.lane)]


def call_data(call: CacheCall, prices: Prices) -> dict[str, Any]:
    """Return a call as JSON: tokens, and the cost of the miss in micro-dollars."""
    return {
        **call._asdict(),
        "cause": call.cause._asdict(),
        "is_miss": call.is_miss,
        "agreement": call.agreement,
        "is_confirmed": call.is_confirmed,
        "cost_micro_usd": call.cost(prices) if call.missed else 0,
    }


def total_data(calls: Sequence[CacheCall], prices: Prices) -> dict[str, Any]:
    """Return the sums of calls: what they read, missed, and the known cost of that."""
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


def cause_words(cause: Cause) -> str:
    """Say in words what ended the common beginning, and where; empty if nothing did."""
    if not cause.kind:
        return ""
    place = f" at {cause.pointer}" if cause.pointer else ""
    if cause.offset >= 0:
        place += f", character {cause.offset:,}"
    by = f", by entry {cause.entry}" if cause.entry else ""
    if not by and cause.kind in ("setting", "system", "tools"):
        by = ", by the client itself"
    rule = f" ({cause.rule}: {RULES.get(cause.rule, '')})" if cause.rule else ""
    how = f" {cause.how}" if cause.how and cause.how != cause.kind else ""
    words = f": {cause.words}" if cause.words else ""
    return f"{cause.kind}{how}{place}{by}{rule}{words}"


def why_words(call: CacheCall) -> str:
    """Say why a call read no more from the cache, with the provider's own word on it."""
    said = f"the provider says: {verdict_words(call)}" if call.verdict else ""
    return " · ".join(filter(None, (cause_words(call.cause), said)))


def verdict_words(call: CacheCall) -> str:
    """Return the provider's own verdict on its cache in words, or ""."""
    missed = f", {call.verdict_missed:,}" if call.verdict_missed else ""
    return f"{call.verdict.replace('_', ' ')}{missed}"


def cache_line(call: CacheCall) -> str:
    """Say in a line what a call read from the cache, and why no more."""
    cause = call.cause
    shown = cause_words(cause) if call.is_miss or cause.pointer else cause.kind
    return f"{read_words(call)}; {shown}" if shown else read_words(call)


def read_words(call: CacheCall) -> str:
    """Say in a line what a call read from the cache, and what it read anew."""
    read = call.expected if call.read is None else call.read
    should = "" if call.read is not None else " by what both requests begin with"
    verdict = f" (the provider says: {verdict_words(call)})" if call.verdict else ""
    cost = call.cost(listed())
    money = f", {usd(cost)} USD" if cost else ""
    missed = f"; {call.missed:,} read anew{money}" if call.is_miss else ""
    return f"cache: {read:,} of {call.prompt:,} tokens read{should}{verdict}{missed}"


def miss_line(conversation: Conversation, entry: Entry) -> str:
    """Say in a line what an answer's request missed of the cache; empty if that was cheap."""
    event = entry.event
    if not isinstance(event, AssistantMessage) or event.usage is None:
        return ""
    # Most answers are done with here, without a look at their requests.
    if event.usage.input - event.usage.cache_read < COSTLY:
        return ""
    found = read_by(conversation, entry)
    return cache_line(found) if found is not None and found.missed >= COSTLY else ""


def read_by(conversation: Conversation, answer: Entry) -> CacheCall | None:
    """Return what an answer's request read from the cache, beside the call before; None if unknown."""
    event: Any = answer.event
    earlier, receipt = answer_before(conversation, answer), receipt_of(answer)
    if earlier is None:
        return None
    if receipt is None:
        near = [*conversation.entries(after=max(0, answer.position - 1 - NEAR), at=answer.position)]
        return next((call for call in stated_calls(near) if call.position == answer.position), None)
    api, whose = receipt.api.partition("@")[0], LaneId(event.agent, event.task)
    then, now = (
        AskedRequest(conversation, whose.address, receipt_of(one).view, api, None, ()).request()
        for one in (earlier, answer)
    )
    return call_after(conversation, (earlier, then), (answer, now))


def call_after(
    conversation: Conversation, before: tuple[Entry, Request], after: tuple[Entry, Request]
) -> CacheCall | None:
    """Return what a call read from the cache; both calls are given as (answer, request)."""
    view, request = before[1].at, after[1]
    card = conversation.settings(at=view).cards.get(request.agent)
    return cache_call(before, after, conversation.entries(view, request.at), card)


def answer_before(conversation: Conversation, answer: Entry) -> Entry | None:
    """Return the answer to the lane's call before, of the same model if one is near.

    It has a receipt if this one has; else it states its tokens, as this one does.
    """
    event: Any = answer.event
    is_proved = receipt_of(answer) is not None
    whose, found = LaneId(event.agent, event.task), None
    for entry in islice(backwards(conversation, answer.position - 1), NEAR):
        is_like = (receipt_of(entry) is not None) if is_proved else states_input(entry.event)
        if is_like and is_call(entry.event) and whose.owns(entry.event):
            found = found or entry
            if getattr(entry.event, "model", event.model) == event.model:
                return entry
    return found


def receipt_of(answer: Entry) -> Any:
    """Return the receipt of an answer, or of an error; None without one."""
    return getattr(answer.event, "receipt", None)
