"""Misses of the prompt cache: what each request read, what it could have read, and what kept it from that.

Each request is compared, as it was sent, with the call before it that the same lane sent to the same model.
"""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError, StenologError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.values import Receipt, Usage
from stenolog.projections.prices import Prices, price_of
from stenolog.projections.requests import APIS, LaneId, Request
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.session import RequestSession, windows
from stenolog.projections.requests.request import EMPTY_BLOBS, sent_under
from stenolog.projections.requests.sendable import may_be_asked
from stenolog.projections.requests.tokens import COUNTERS, Counter

from .cache_causes import NO_CAUSE, Cause, change_cause, model_cause
from .prompt_blocks import Block, blocks
from .prompt_changes import PromptChange, common_blocks, first_change
from .provider_caches import VERDICTS, Prompt, PromptCache, idle_of, minimum_of

Agreement: TypeAlias = Literal["agrees", "read less", "read more", "not stated"]
TOLERANCE = 512
"""Tokens, and a part of ten of all, by which an estimate may be off what the provider counts."""
HEADER = "x-anthropic-billing-header:"
"""The beginning of a system text of Claude Code that is no part of the prompt at Anthropic itself."""
LEAST = 1_024
"""Tokens read anew from which on it is a miss: providers keep no shorter beginning."""


class CacheCall(NamedTuple):
    """Reading of the cache by a call, in tokens of the provider where it states them, else estimated.

    `position` is that of the answer, `view` of the request, `before` of the answer to the call that it is
    compared with (0: none). `prompt` are all tokens, `same` those that both begin with. `read` is what the
    provider states, None where it states nothing, and `written` likewise, `written_hour` of it for an hour;
    `expected` what it should have read. `missed` could have been read, and were billed anew. `verdict` is
    the provider's own word on its cache, with the tokens that it says it missed.
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
        """True if the provider's verdict names the same cause, False if another; None if it names none."""
        named = VERDICTS.get(self.verdict)
        return None if named is None else self.cause.kind in named

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
        """Return what the miss cost beyond the price of the cache, in micro-dollars; None without a price."""
        price = price_of(self.model, prices)
        if price is None:
            return None
        anew = price.writes[self.written_hour * 2 > self.written] if self.written else price.input
        # Tokens times USD per million tokens are micro-dollars.
        return round(self.missed * max(0.0, anew - price.cached))


def stated(usage: Usage | None) -> tuple[int, str, int]:
    """Return what a provider says of its cache beside what it read and wrote: the last fields of a call."""
    return (0, "", 0) if usage is None else (usage.cache_write_hour, usage.cache_verdict, usage.cache_missed)


class PromptCall(NamedTuple):
    """A call with its prompt, and the request that it is explained by."""

    entry: Entry
    receipt: Receipt
    request: Request
    prompt: Prompt
    usage: Usage | None


def cache_calls(
    entries: Iterable[Entry],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> list[CacheCall]:
    """Return what each call of a log read from the cache, in the order of the answers.

    Calls without a receipt are passed over, and those that cannot be built here any more.
    """
    log = list(entries)
    found: list[CacheCall] = []
    for lane, receipts in _receipts(log).items():
        calls = sorted(_calls(log, lane, receipts, blobs, counters), key=lambda call: call.entry.position)
        found += _compared(log, lane, calls)
    return sorted(found)


def cache_call(
    lane: LaneId,
    before: tuple[Entry, Request],
    after: tuple[Entry, Request],
    between: Iterable[Entry],
    card: AgentCard | None = None,
    *,
    counters: Mapping[str, Counter] = COUNTERS,
) -> CacheCall | None:
    """Return what one call read from the cache, beside the call before it alone; None without receipts.

    Each is the answer and the request, `between` are the entries behind the request before up to this one,
    and `card` is the lane's at the request before.
    """
    calls: list[PromptCall] = []
    for entry, request in (before, after):
        receipt = getattr(entry.event, "receipt", None)
        if not isinstance(receipt, Receipt):
            return None
        calls.append(_call(entry, receipt, request, counters))
    first, second = calls[0], _continued(calls[1], calls[0])
    cards = [(first.receipt.view, card)] if card is not None else []
    if first.prompt.model != second.prompt.model:
        return _one(lane, None, first, second, 0, [*cards, *_cards(between, lane)], ())
    cache = PromptCache()
    cache.take(first.prompt)
    since = list(between)
    expected = cache.take(second.prompt)
    return _one(lane, first, first, second, expected, [*cards, *_cards(since, lane)], since)


def _cards(entries: Iterable[Entry], lane: LaneId) -> list[tuple[int, AgentCard]]:
    """Return the cards that the lane's agent was given, with their positions."""
    return [
        (entry.position, card)
        for entry in entries
        if isinstance(entry.event, ModeSwitch) and (card := entry.event.cards.get(lane.agent)) is not None
    ]


def _receipts(log: Iterable[Entry]) -> dict[LaneId, list[tuple[Entry, Receipt]]]:
    """Return the answers whose requests reached a model, by lane."""
    found: dict[LaneId, list[tuple[Entry, Receipt]]] = defaultdict(list)
    for entry in log:
        event = entry.event
        match event:
            case AssistantMessage(receipt=Receipt() as receipt) if event.purpose != "routing":
                found[LaneId(event.agent, event.task)].append((entry, receipt))
            case LlmError(receipt=Receipt() as receipt) if event.parts or (event.usage and event.usage.input):
                found[LaneId(event.agent, event.task)].append((entry, receipt))
            case _:
                pass
    return found


def _calls(
    log: Sequence[Entry],
    lane: LaneId,
    receipts: Iterable[tuple[Entry, Receipt]],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[PromptCall]:
    """Yield the calls of a lane, in one pass over the log for each policy."""
    groups: dict[tuple[str, str], dict[int, list[tuple[Entry, Receipt]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for entry, receipt in receipts:
        written = json.dumps(receipt.policy, sort_keys=True)
        groups[receipt.pipeline, written][receipt.view].append((entry, receipt))
    forms = SentForms(log, lane, blobs)
    for waiting in groups.values():
        sessions: dict[str, RequestSession] = {}
        try:
            chosen = sent_under(next(iter(waiting.values()))[0][1])
            for window in windows(log[: max(waiting)], lane, chosen, counters, blobs):
                for entry, receipt in waiting.get(window.position, ()) if may_be_asked(window) else ():
                    api = receipt.api.partition("@")[0]
                    if api not in APIS:
                        continue
                    if api not in sessions or sessions[api].window is not window:
                        sessions[api] = RequestSession(window, APIS[api], blobs)
                    yield _call(entry, receipt, forms.form(sessions[api].request(), receipt), counters)
        except (InvalidPolicyError, StenologError):
            continue  # of a later release, or damaged: `check log --requests` says why


def _call(entry: Entry, receipt: Receipt, request: Request, counters: Mapping[str, Counter]) -> PromptCall:
    event = entry.event
    assert isinstance(event, AssistantMessage | LlmError)
    api = receipt.api.partition("@")[0]
    found = blocks(api, request.body, request.messages_key)
    usage = event.usage if event.usage is not None and event.usage.input else None
    begun = entry.time - timedelta(milliseconds=event.duration_ms or 0)
    model = str(request.body.get("model") or event.model)
    ends = _ends(found, usage)
    prompt = Prompt(model, begun, found, ends, api == "anthropic", idle_of(request.body))
    return PromptCall(entry, receipt, request, prompt, usage)


def _ends(found: Iterable[Block], usage: Usage | None) -> list[int]:
    """Return the tokens up to each block, in those of the provider, where it states them."""
    counts = [block.tokens() for block in found]
    scale = usage.input / max(sum(counts), 1) if usage is not None else 1.0
    return [0, *(round(total * scale) for total in accumulate(counts))]


def _continued(call: PromptCall, before: PromptCall | None) -> PromptCall:
    """Return a call with the messages that the provider has of the one that it goes on from."""
    if before is None or not call.request.body.get("previous_response_id"):
        return call
    front = [block for block in call.prompt.blocks if block.section != "messages"]
    known = [block for block in before.prompt.blocks if block.section == "messages"]
    found = [*front, *known, *call.prompt.blocks[len(front) :]]
    return call._replace(prompt=call.prompt._replace(blocks=found, ends=_ends(found, call.usage)))


def _compared(log: Sequence[Entry], lane: LaneId, calls: Sequence[PromptCall]) -> Iterator[CacheCall]:
    """Yield what each call of a lane read, beside the last one of the same model before it."""
    last: dict[str, PromptCall] = {}
    caches: dict[str, PromptCache] = defaultdict(PromptCache)
    cards = _cards(log, lane)
    previous: PromptCall | None = None
    for sent in calls:
        before = last.get(sent.prompt.model)
        call = _continued(sent, before)
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
    cards: Sequence[tuple[int, AgentCard]],
    between: Sequence[Entry],
) -> CacheCall:
    prompt, usage = call.prompt, call.usage
    read = None if usage is None else usage.cache_read
    change = None if before is None else _change(before, call)
    same = 0 if before is None else prompt.ends[common_blocks(before.prompt.blocks, prompt.blocks)]
    could = 0 if before is None else _could(before, call, change)
    seconds = 0 if before is None else int((prompt.time - before.prompt.time).total_seconds())
    missed = max(0, could - (expected if read is None else read))
    found = CacheCall(
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
        return found._replace(cause=cause)
    if change is not None and not _is_over(found, before.prompt):
        return found._replace(cause=change_cause(change, lane, before.request, call.request, between, cards))
    return found._replace(cause=_cause_without_change(found, before.prompt, prompt))


def _change(before: PromptCall, call: PromptCall) -> PromptChange | None:
    """Return the first change that the provider's reading does not rule out."""
    old, new = before.prompt.blocks, call.prompt.blocks
    change = first_change(old, new)
    read = 0 if call.usage is None else call.usage.cache_read
    room = max(TOLERANCE, call.prompt.tokens // 10)
    if change is None or not _is_header(change.new) or read <= call.prompt.ends[change.same] + room:
        return change
    # A provider that takes the header off reads what is behind it.
    rest = [[block for block in one if not _is_header(block)] for one in (old, new)]
    return first_change(*rest)


def _is_header(block: Block | None) -> bool:
    text = block.value.get("text") if block is not None and isinstance(block.value, Mapping) else None
    return isinstance(text, str) and text.startswith(HEADER)


def _is_over(found: CacheCall, before: Prompt) -> bool:
    """Return whether the provider has forgotten the call before, by the time and by what it read."""
    return found.seconds > before.keeps > 0 and (found.read is None or found.read * 2 < found.same)


def _cause_without_change(found: CacheCall, before: Prompt, prompt: Prompt) -> Cause:
    """Return why a prompt that goes on from the one before did not read it."""
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
            "too far", words="no mark of the request before is within 20 blocks of one of this request"
        )
    return (
        Cause("not read", words="the beginning is the same; the provider had it no longer")
        if found.is_miss
        else NO_CAUSE
    )


def _could(before: PromptCall, call: PromptCall, change: PromptChange | None) -> int:
    """Return the tokens of a prompt that were in the one before, in the same order or not.

    Of a block that was only changed in a part, all of it counts: it would have been read, had it stayed.
    """
    prompt = call.prompt
    left = Tally(block.key for block in before.prompt.blocks)
    changed = change.new if change is not None and change.how == "changed" else None
    tokens, last = 0, (prompt.marks or [len(prompt.blocks)])[-1]
    for n, block in enumerate(prompt.blocks[:last]):
        if left[block.key]:
            left[block.key] -= 1
        elif block is not changed or not _is_mostly_same(change):
            continue
        tokens += prompt.ends[n + 1] - prompt.ends[n]
    return tokens


def _is_mostly_same(change: PromptChange | None) -> bool:
    if change is None or change.old is None or change.new is None or change.section == "messages":
        return False
    old, new = change.old.key, change.new.key
    return max(len(old), len(new)) < 2 * min(len(old), len(new))
