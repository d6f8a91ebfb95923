"""Limits of a lane's work, and its usage, since a person last wrote to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from stenolog.domain.base.model import Natural, rule
from stenolog.domain.base.schema import Check
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.values import TurnPolicy, Usage

from .handoffs import is_of_handoff
from .recent_calls import (
    MAX_QUOTED,
    CallRound,
    RecentCall,
    belongs,
    content_of,
    hash_of,
    quoted,
    tried,
)
from .state import address

# More than any call can use, so a report beyond it is not believed.
MAX_TOKENS_PER_CALL = 10**12
"""Tokens of one call, as a tool may report them."""
# Whole micro-dollars, so that sums of prices are exact.
MICRO_PER_USD = 1_000_000


@rule
class Limits:
    """Limits of a lane's work since a person last wrote to it; None or 0: no limit.

    `max_steps` counts answers, `max_tokens` input and output tokens of all its models, summaries too,
    `max_cost` is in USD, `seconds` are of the log's clock. A lane is stuck after `same_call` steps in a row
    with equal calls and results, after two or three such steps repeated `ping_pong` times, after `same_error`
    steps in a row with the same tool error, and after `same_words` answers in a row with the same text.
    `max_handoffs` counts how often agents have handed on, in the whole conversation.
    """

    max_steps: Natural | None = 50
    max_tokens: Natural | None = None
    max_cost: Annotated[float, Check(ge=0)] | None = None
    same_call: Natural | None = 3
    ping_pong: Natural | None = 3
    same_error: Natural | None = 3
    seconds: Annotated[float, Check(ge=0)] | None = None
    same_words: Natural | None = 3
    max_handoffs: Natural | None = 20

    def fault(self) -> str:
        """Return an error message for a count of 1, or ""."""
        # One call in a row is no repetition: the lane would be stuck at its first step.
        counts = ("same_call", "ping_pong", "same_error", "same_words")
        lone = [name for name in counts if getattr(self, name) == 1]
        return f"expected {lone[0]} of at least 2, found 1" if lone else ""


class Tokens(NamedTuple):
    """Tokens as the provider counted them, cached ones in `input` too; `cost`: stated micro-dollars."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int = 0
    cache_write_hour: int = 0

    def plus(self, used: Usage) -> Tokens:
        """Return these, and those of one more call."""
        return Tokens(
            self.input + used.input,
            self.output + used.output,
            self.cache_read + used.cache_read,
            self.cache_write + used.cache_write,
            self.reasoning + used.reasoning,
            self.cost + (used.cost or 0),
            self.cache_write_hour + used.cache_write_hour,
        )


class LaneUsage(NamedTuple):
    """The work of a lane since a person last wrote to it, at `since`.

    `tokens` are by model, `billed` those of calls that state their cost. `calls` are those of its last
    answer, at `answered`. `last`, `before` and `third` are its last rounds of calls. Repetitions in a row:
    `same` of the last round, `turned` of two alternating rounds, `cycled` of rounds equal to the third
    before, `failed` of the tool `error`, `again` of the text `said`. `handoffs` is the number of the hand-off
    that last asked it.
    """

    steps: int = 0
    tokens: dict[str, Tokens] = {}  # noqa: RUF012 - never changed in place; the fold makes a new one
    answered: int = 0
    calls: tuple[RecentCall, ...] = ()
    last: CallRound = CallRound()
    before: CallRound = CallRound()
    same: int = 0
    turned: int = 0
    error: CallRound = CallRound()
    failed: int = 0
    third: CallRound = CallRound()
    cycled: int = 0
    said: CallRound = CallRound()
    again: int = 0
    since: datetime | None = None
    billed: dict[str, Tokens] = {}  # noqa: RUF012 - as above
    handoffs: int = 0

    @property
    def total(self) -> int:
        """All tokens, in and out, of all models."""
        used = (*self.tokens.values(), *self.billed.values())
        return sum(each.input + each.output for each in used)


NEW = LaneUsage()


class UsageByLane(NamedTuple):
    """The account of every lane that has done something, by its address.

    `since` is when a person last spoke to all. An answer that is just the `pass_token` repeats nothing.
    `handoffs` counts those since a person last spoke.
    """

    lanes: dict[str, LaneUsage] = {}  # noqa: RUF012 - never changed in place; watch makes a new one
    since: datetime | None = None
    pass_token: str = ""
    handoffs: int = 0

    def lane(self, where: str) -> LaneUsage:
        """Return the account of a lane; an empty one if it has done nothing."""
        return self.lanes.get(where) or NEW._replace(since=self.since)


def track_usage(accounts: UsageByLane, entry: Entry) -> UsageByLane:
    """Return the accounts after the entry."""
    event = entry.event
    match event:
        case UserMessage():
            return _on_user_message(accounts, event, entry.time)
        case AssistantMessage(agent=agent, task=task):
            where = address(agent, task)
            answered = _on_answer(accounts.lane(where), event, entry, accounts.pass_token)
            names = event.to if event.purpose == "answer" and event.replaces is None else ()
            accounts = _set(accounts, where, answered)
            return _handed_on(accounts, where, names) if names else accounts
        case LlmError(agent=agent, task=task, usage=Usage() as used, model=model):
            where = address(agent, task)
            return _set(accounts, where, _paid(accounts.lane(where), model, used))
        case ToolResult():
            return _resulted(accounts, event)
        case ModeSwitch(turns=TurnPolicy(options=options)):
            token = options.get("pass_token")
            return accounts._replace(pass_token=token if isinstance(token, str) else "")
        case _:
            return accounts


def limit_reached(
    limits: Limits,
    account: LaneUsage,
    cost: int | None = None,
    now: datetime | None = None,
    unpriced: Sequence[str] = (),
) -> str:
    """Return the limit that a lane has reached, in words; "" if none.

    `cost` is that of the account's tokens, in micro-dollars. `unpriced` are its models without a price: with
    one, a limit on cost counts as reached. Without `now`, time is not limited.
    """
    if limits.max_steps and account.steps >= limits.max_steps:
        return f"max_steps: {account.steps} steps since the last message"
    if limits.max_tokens and account.total >= limits.max_tokens:
        return f"max_tokens: {account.total:,} of {limits.max_tokens:,} tokens since the last message"
    if limits.max_handoffs and account.handoffs > limits.max_handoffs:
        return f"max_handoffs: agents have handed on {account.handoffs} times since a person's last message"
    if limits.max_cost and unpriced:
        return f"max_cost: {no_price(unpriced)}"
    if limits.max_cost and cost is not None and cost >= limits.max_cost * MICRO_PER_USD:
        spent = f"{cost / MICRO_PER_USD:.4f} of {limits.max_cost:.4f} USD"
        return f"max_cost: {spent} since the last message"
    if limits.seconds and now is not None and account.since is not None:
        gone = (now - account.since).total_seconds()
        if gone >= limits.seconds:
            return f"seconds: {gone:,.0f} of {limits.seconds:,g} s since the last message"
    return _stuck(limits, account)


def no_price(models: Sequence[str]) -> str:
    """Say which models have no price, and how to give one."""
    names = ", ".join(model or "a model without a name" for model in models)
    return (
        f"no price is known for {names}: give one with prices= or in [prices] of the team's file, "
        "or limit max_tokens instead"
    )


def _stuck(limits: Limits, account: LaneUsage) -> str:
    if limits.same_error and account.failed >= limits.same_error:
        return f"stuck: {account.error.words} failed with the same error {account.failed} times"
    if limits.same_call and account.same >= limits.same_call:
        return f"stuck: {account.last.words} gave the same result {account.same} times"
    if limits.ping_pong and account.turned >= 2 * limits.ping_pong:
        both = f"{account.before.words} and {account.last.words}"
        return f"stuck: two calls in turn, {account.turned // 2} times: {both}"
    if limits.ping_pong and account.cycled >= 3 * (limits.ping_pong - 1):
        three = f"{account.third.words}, {account.before.words} and {account.last.words}"
        return f"stuck: three calls in turn, {account.cycled // 3 + 1} times: {three}"
    if limits.same_words and account.again >= limits.same_words:
        return f"stuck: the same words {account.again} times: {account.said.words}"
    return ""


def _set(accounts: UsageByLane, where: str, account: LaneUsage) -> UsageByLane:
    return accounts._replace(lanes={**accounts.lanes, where: account})


def _on_user_message(accounts: UsageByLane, message: UserMessage, time: datetime) -> UsageByLane:
    control = message.control
    if message.author_kind == "system" or not message.in_context:
        return accounts
    if control is not None and control.call is not None:
        return _decided(accounts, control.call.entry, time)
    if control is not None and control.action != "continue":
        return accounts
    to = (address(control.agent, control.task),) if control and control.agent else message.to
    if not to:
        # Words without an addressee are for all lanes, so every account begins anew.
        return UsageByLane(since=time, pass_token=accounts.pass_token)
    if message.meta and is_of_handoff(message):
        return _handed_on(accounts, message.author, to)
    handoffs = accounts.handoffs if message.author_kind == "agent" else 0
    anew = dict.fromkeys(to, NEW._replace(since=time))
    return accounts._replace(lanes={**accounts.lanes, **anew}, handoffs=handoffs)


def _handed_on(accounts: UsageByLane, by: str, to: Iterable[str]) -> UsageByLane:
    """Count a hand-off; an account that is older than the person's words to the caller begins anew."""
    since, number, lanes = accounts.lane(by).since, accounts.handoffs + 1, dict(accounts.lanes)
    for where in to:
        account = accounts.lane(where)
        if since is not None and (account.since is None or account.since < since):
            account = NEW._replace(since=since)
        lanes[where] = account._replace(handoffs=number)
    return accounts._replace(lanes=lanes, handoffs=number)


def _decided(accounts: UsageByLane, entry: str, time: datetime) -> UsageByLane:
    """Leave out the time that a person took for a decision."""
    waited = {
        where: account._replace(since=time)
        for where, account in accounts.lanes.items()
        if any(call.entry == entry for call in account.calls)
    }
    return accounts._replace(lanes={**accounts.lanes, **waited})


def _paid(account: LaneUsage, model: str, used: Usage) -> LaneUsage:
    # Kept apart, so that these tokens are not priced a second time from the list.
    if used.cost is not None:
        return account._replace(billed=added(account.billed, model, used))
    return account._replace(tokens=added(account.tokens, model, used))


def added(tokens: dict[str, Tokens], model: str, used: Usage) -> dict[str, Tokens]:
    """Return the tokens by model with those of one more call."""
    return {**tokens, model: tokens.get(model, Tokens()).plus(used)}


def _on_answer(account: LaneUsage, message: AssistantMessage, entry: Entry, pass_token: str) -> LaneUsage:
    """Count an answer as a step; one without calls ends the run of repeated calls."""
    if message.usage is not None:
        account = _paid(account, message.model, message.usage)
    # A summary was written in a fork, on behalf of this lane.
    for model, used in delegated_usage(message) if message.purpose != "answer" else ():
        account = _paid(account, model, used)
    # Paid for, but no step: a summary, or an answer made anew.
    if message.purpose != "answer" or message.replaces is not None:
        return account
    steps = account.steps + 1
    calls = tuple(tried(entry.id, nth, call) for nth, call in enumerate(message.tool_calls))
    if calls:
        return account._replace(steps=steps, answered=entry.position, calls=calls, said=CallRound(), again=0)
    kept = {name: getattr(account, name) for name in ("tokens", "billed", "since", "said", "again")}
    rested = LaneUsage(steps, **kept)
    words = " ".join(message.text.split())
    # A pass says the same each time, and is no sign of a lane that is stuck.
    if not words or message.text.strip() == pass_token:
        return rested
    round = CallRound(hash_of((words,)), words if len(words) <= MAX_QUOTED else f"{words[: MAX_QUOTED - 1]}…")
    return rested._replace(said=round, again=account.again + 1 if round.hash == account.said.hash else 1)


def _resulted(accounts: UsageByLane, result: ToolResult) -> UsageByLane:
    """Close the call of a result, the nearest of its id if it names none; the last one ends the round."""
    found = [
        (account.answered, -call.nth, where)
        for where, account in accounts.lanes.items()
        for call in account.calls
        if not call.result and belongs(result, call)
    ]
    if not found:
        return accounts
    # An id may come twice: the nearest answer's call is meant, and of one answer the first.
    _, nth, where = max(found)
    account = accounts.lanes[where]
    for model, used in delegated_usage(result):
        account = _paid(account, model, used)
    return _set(accounts, where, _closed(account, -nth, result))


def delegated_usage(result: ToolResult | AssistantMessage) -> Iterator[tuple[str, Usage]]:
    """Yield each model that a worker used, with its tokens; twice if some had a stated cost."""
    match result.meta.get("stenolog"):
        case {"child": {"spent": spent, **rest}}:
            for used in (spent, rest.get("billed")):
                if isinstance(used, dict):
                    yield from (
                        (model, _usage(each)) for model, each in used.items() if isinstance(each, dict)
                    )
        case _:
            pass


def _usage(given: Mapping[str, object]) -> Usage:
    known: dict[str, Any] = {kind: given[kind] for kind in Tokens._fields if type(given.get(kind)) is int}
    return Usage(**{kind: known[kind] for kind in known if 0 <= known[kind] < MAX_TOKENS_PER_CALL})


def _closed(account: LaneUsage, nth: int, result: ToolResult) -> LaneUsage:
    came = hash_of((str(result.is_error), result.blob, *map(content_of, result.parts)))
    calls = tuple(
        call._replace(result=came, failed=result.is_error) if call.nth == nth else call
        for call in account.calls
    )
    account = account._replace(calls=calls)
    return _rounded(account) if all(call.result for call in calls) else account


def _rounded(account: LaneUsage) -> LaneUsage:
    calls, last, before = account.calls, account.last, account.before
    # With the results: the same call that gives something new each time is progress.
    now = CallRound(hash_of(part for each in calls for part in (each.call, each.result)), quoted(calls))
    failing = tuple(each for each in calls if each.failed)
    error = CallRound(hash_of(each.result for each in failing), quoted(failing)) if failing else CallRound()
    same = now.hash == last.hash
    # Equal rounds count once, as `same`: A A A is no turn of A and A.
    again = now.hash == before.hash and not same
    cycles = now.hash == account.third.hash and not same and not again
    fails = error.hash == account.error.hash
    return account._replace(
        last=now,
        before=last,
        third=before,
        cycled=account.cycled + 1 if cycles else 0,
        same=account.same + 1 if same else 1,
        turned=account.turned + 1 if again else 1 if same or not last.hash else 2,
        error=error,
        failed=0 if not failing else account.failed + 1 if fails else 1,
    )
