"""How far a lane may go by itself: what it has done since a person last spoke to it, and when that is enough.

`watch` folds the accounts of all lanes from the log; `exceeded` says in words which limit one has reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, NamedTuple

from pydantic import Field, JsonValue

from .entry import Entry
from .events import AssistantMessage, LlmError, ToolResult, UserMessage
from .parts import Text, ToolCall, UserPart
from .placed import rule
from .scalars import Natural
from .state import address
from .values import Usage

MOST = 10**12
"""No call has used so many tokens."""
MICRO = 1_000_000
"""Micro-dollars in a dollar: money is counted in whole micro-dollars."""
SHOWN = 60
"""So many characters of a call are quoted in a reason."""


@rule
class Limits:
    """How far a lane may go since a person last spoke to it; None or 0: without end.

    `max_steps` counts answers, `max_tokens` what went in and came out of its models together, `max_cost` is
    in USD. It is stuck after `same_call` steps in a row with the same calls and the same results, after two
    such steps in turn `ping_pong` times, and after `same_error` steps in a row with the same error of a tool.
    """

    max_steps: Natural | None = 50
    max_tokens: Natural | None = None
    max_cost: Annotated[float, Field(ge=0)] | None = None
    same_call: Natural | None = 3
    ping_pong: Natural | None = 3
    same_error: Natural | None = 3

    def fault(self) -> str:
        """What is wrong with the fields taken together: one call in a row is no repetition."""
        lone = [name for name in ("same_call", "ping_pong", "same_error") if getattr(self, name) == 1]
        return f"expected {lone[0]} of at least 2, found 1" if lone else ""


class Tokens(NamedTuple):
    """Tokens as the provider counted them; `input` counts what was read from the cache too."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def plus(self, used: Usage) -> Tokens:
        """These, and those of one more call."""
        return Tokens(
            self.input + used.input,
            self.output + used.output,
            self.cache_read + used.cache_read,
            self.cache_write + used.cache_write,
            self.reasoning + used.reasoning,
        )


class Tried(NamedTuple):
    """A call of the lane's last answer: its entry, its place there and its id, and how it is quoted.

    `call` is a hash of its name and arguments, `result` of what it gave back (empty: nothing yet).
    """

    entry: str
    nth: int
    id: str
    words: str
    call: str
    result: str = ""
    failed: bool = False


class Round(NamedTuple):
    """What a step came to: a hash of its calls with their results, and how they are quoted."""

    hash: str = ""
    words: str = ""


class Account(NamedTuple):
    """What a lane has done since a person last spoke to it.

    `tokens` are by model. `calls` are those of its last answer, at `answered`. `last` and `before` are its
    last two rounds of calls; `same` counts how often in a row the last one came, `turned` for how many rounds
    two have come in turn, `failed` how often in a row tools failed with this `error`.
    """

    steps: int = 0
    tokens: dict[str, Tokens] = {}  # noqa: RUF012 - never changed in place; watch makes a new one
    answered: int = 0
    calls: tuple[Tried, ...] = ()
    last: Round = Round()
    before: Round = Round()
    same: int = 0
    turned: int = 0
    error: Round = Round()
    failed: int = 0

    @property
    def total(self) -> int:
        """All tokens, in and out, of all models."""
        return sum(each.input + each.output for each in self.tokens.values())


NEW = Account()


class Accounts(NamedTuple):
    """The account of every lane that has done something, by its address."""

    lanes: dict[str, Account] = {}  # noqa: RUF012 - never changed in place; watch makes a new one

    def lane(self, where: str) -> Account:
        """The account of a lane; an empty one where it has done nothing."""
        return self.lanes.get(where, NEW)


def watch(accounts: Accounts, entry: Entry) -> Accounts:
    """The accounts after the entry."""
    event = entry.event
    match event:
        case UserMessage():
            return _told(accounts, event)
        case AssistantMessage(agent=agent, task=task):
            where = address(agent, task)
            return _set(accounts, where, _said(accounts.lane(where), event, entry))
        case LlmError(agent=agent, task=task, usage=Usage() as used, model=model):
            where = address(agent, task)
            return _set(accounts, where, _paid(accounts.lane(where), model, used))
        case ToolResult():
            return _resulted(accounts, event)
        case _:
            return accounts


def exceeded(limits: Limits, account: Account, cost: int | None = None) -> str:
    """The limit that a lane has reached, in words; empty where it may go on.

    `cost` is what the account's tokens have cost, in micro-dollars; None: that is not known, and not limited.
    """
    if limits.max_steps and account.steps >= limits.max_steps:
        return f"max_steps: {account.steps} steps since the last message"
    if limits.max_tokens and account.total >= limits.max_tokens:
        return f"max_tokens: {account.total:,} of {limits.max_tokens:,} tokens since the last message"
    if limits.max_cost and cost is not None and cost >= limits.max_cost * MICRO:
        spent = f"{cost / MICRO:.4f} of {limits.max_cost:.4f} USD"
        return f"max_cost: {spent} since the last message"
    return _stuck(limits, account)


def _stuck(limits: Limits, account: Account) -> str:
    if limits.same_error and account.failed >= limits.same_error:
        return f"stuck: {account.error.words} failed with the same error {account.failed} times"
    if limits.same_call and account.same >= limits.same_call:
        return f"stuck: {account.last.words} gave the same result {account.same} times"
    if limits.ping_pong and account.turned >= 2 * limits.ping_pong:
        both = f"{account.before.words} and {account.last.words}"
        return f"stuck: two calls in turn, {account.turned // 2} times: {both}"
    return ""


def _set(accounts: Accounts, where: str, account: Account) -> Accounts:
    return Accounts({**accounts.lanes, where: account})


def _told(accounts: Accounts, message: UserMessage) -> Accounts:
    """A message, or a word to go on, starts anew those that it is for."""
    control = message.control
    if message.author_kind == "system" or not message.in_context:
        return accounts
    if control is not None and control.action != "continue":
        return accounts
    to: Sequence[str] = message.to
    if control is not None and control.agent:
        to = (address(control.agent, control.task),)
    if not to:
        return Accounts()
    return Accounts({where: account for where, account in accounts.lanes.items() if where not in to})


def _paid(account: Account, model: str, used: Usage) -> Account:
    tokens = account.tokens.get(model, Tokens()).plus(used)
    return account._replace(tokens={**account.tokens, model: tokens})


def _said(account: Account, message: AssistantMessage, entry: Entry) -> Account:
    """An answer is a step; one that calls nothing ends the row of calls."""
    if message.usage is not None:
        account = _paid(account, message.model, message.usage)
    if message.purpose != "answer" or message.replaces is not None:
        return account
    calls = tuple(_tried(entry.id, nth, call) for nth, call in enumerate(message.tool_calls))
    if not calls:
        return Account(account.steps + 1, account.tokens)
    return account._replace(steps=account.steps + 1, answered=entry.position, calls=calls)


def _tried(entry: str, nth: int, call: ToolCall) -> Tried:
    words = f"{call.name}({call.arguments})"
    quoted = words if len(words) <= SHOWN else f"{words[: SHOWN - 2]}…)"
    return Tried(entry, nth, call.id, quoted, _hash((call.name, call.arguments)))


def _resulted(accounts: Accounts, result: ToolResult) -> Accounts:
    """A result closes its call, the nearest of its id where it names none; the last one ends the round."""
    found = [
        (account.answered, -call.nth, where)
        for where, account in accounts.lanes.items()
        for call in account.calls
        if not call.result and _belongs(result, call)
    ]
    if not found:
        return accounts
    _, nth, where = max(found)
    account = accounts.lanes[where]
    for model, used in spent_of(result).items():
        account = _paid(account, model, used)
    return _set(accounts, where, _closed(account, -nth, result))


def spent_of(result: ToolResult) -> dict[str, Usage]:
    """What a call has used of models, where a worker was behind it: the tokens of each."""
    match result.meta.get("stenolog"):
        case {"child": {"spent": dict(spent)}}:
            return {model: _usage(used) for model, used in spent.items() if isinstance(used, dict)}
        case _:
            return {}


def _usage(given: Mapping[str, JsonValue]) -> Usage:
    """What is sound of it: a tool may say anything."""
    known = {kind: given.get(kind) for kind in Tokens._fields}
    return Usage(**{kind: n for kind, n in known.items() if type(n) is int and 0 <= n < MOST})


def _belongs(result: ToolResult, call: Tried) -> bool:
    if result.call is not None:
        return (result.call.entry, result.call.index) == (call.entry, call.nth)
    return result.call_id == call.id


def _closed(account: Account, nth: int, result: ToolResult) -> Account:
    came = _hash((str(result.is_error), result.blob, *map(_content, result.parts)))
    calls = tuple(
        call._replace(result=came, failed=result.is_error) if call.nth == nth else call
        for call in account.calls
    )
    account = account._replace(calls=calls)
    return _rounded(account) if all(call.result for call in calls) else account


def _content(part: UserPart) -> str:
    return part.text if isinstance(part, Text) else part.blob or part.url


def _rounded(account: Account) -> Account:
    """The account once every call of the last answer has its result."""
    calls, last, before = account.calls, account.last, account.before
    now = Round(_hash(part for each in calls for part in (each.call, each.result)), _words(calls))
    failing = tuple(each for each in calls if each.failed)
    error = Round(_hash(each.result for each in failing), _words(failing)) if failing else Round()
    same = now.hash == last.hash
    again = now.hash == before.hash and not same
    fails = error.hash == account.error.hash
    return account._replace(
        last=now,
        before=last,
        same=account.same + 1 if same else 1,
        turned=account.turned + 1 if again else 1 if same or not last.hash else 2,
        error=error,
        failed=0 if not failing else account.failed + 1 if fails else 1,
    )


def _words(calls: Sequence[Tried]) -> str:
    rest = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"{calls[0].words}{rest}" if calls else ""


def _hash(parts: Iterable[str]) -> str:
    """A short hash of several texts."""
    whole = sha256()
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        whole.update(b"%d:" % len(text) + text)
    return whole.hexdigest()[:16]
