"""Differences of two requests as data: what changed, what a cache keeps of them, and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.providers.prices import are_examples, listed
from stenolog.adapters.queries.backwards import backwards
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.triggers import response_of
from stenolog.projections.analysis.shared_prefix import SharedPrefix, shared_prefix
from stenolog.projections.prices import price_of
from stenolog.projections.requests import Request
from stenolog.projections.requests.as_sent import without_marks
from stenolog.projections.requests.comparison import RequestDiff, diff

from .lanes import lane
from .requests import AskedRequest, request_reference

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


class Difference(NamedTuple):
    """Two requests, what differs, and what they begin with.

    `cost` is what was paid beyond the price of the cache, in micro-dollars, for what both have behind their
    common beginning; None where no price of the model is known.
    """

    before: Request
    after: Request
    told: RequestDiff
    prefix: SharedPrefix
    cost: int | None


def difference(
    before: AskedRequest, after: AskedRequest, made: Callable[[AskedRequest], Request] = AskedRequest.request
) -> Difference:
    """Return what differs between two requests, of one conversation or of a fork and its parent."""
    then, now = made(before), made(after)
    told = diff(then, now)
    unmarked = (_without_marks(then), _without_marks(now))
    prefix = shared_prefix(*unmarked, diff(*unmarked), _between(before, after))
    return Difference(then, now, told, prefix, _cost(now, prefix.again))


def _without_marks(request: Request) -> Request:
    """Return a request of another program without the marks of the cache, which are no part of the prompt."""
    if request.patch is None:
        return request
    bare, explanation = without_marks(request.body)[0], request.explanation
    return replace(request, body=bare, encoded=None, explain=lambda: explanation)


def _between(before: AskedRequest, after: AskedRequest) -> Iterable[Entry]:
    """Return the entries that may be the cause: those that the later request has beside the earlier one."""
    if before.conversation.name == after.conversation.name:
        same = (before.agent, before.api) == (after.agent, after.api)
        return after.conversation.entries(before.at, after.at) if same and before.at < after.at else ()
    return after.conversation.entries(
        min(common(before.conversation, after.conversation), after.at), after.at
    )


def _cost(request: Request, again: int) -> int | None:
    price = price_of(str(request.body.get("model", "")), listed())
    # Tokens times USD per million tokens are micro-dollars.
    return None if price is None else round(again * max(0.0, price.input - price.cached))


def common(one: Conversation, other: Conversation) -> int:
    """Return the last position that two conversations share, of which one is a fork of the other.

    Raises `InvalidEventError` where neither is.
    """
    for child, parent in ((one, other), (other, one)):
        ancestor, shared = child.settings(), child.position
        while ancestor.is_fork and ancestor.parent:
            shared = min(shared, ancestor.parent.position)
            if ancestor.parent.conversation == parent.name:
                return shared
            ancestor = child.log[ancestor.parent.conversation].settings()
    raise InvalidEventError(f"neither of {one.name!r} and {other.name!r} is a fork of the other")


def call_before(conversation: Conversation, address: str, at: int) -> int:
    """Return the position that the lane's last call up to here was made at; 0 where it made none."""
    where, found, response = lane(address), 0, ""
    for entry in backwards(conversation, at):
        event = entry.event
        if found and entry.position < found:
            break
        if (
            not isinstance(event, AssistantMessage | LlmError)
            or not where.owns(event)
            or not event.in_context
        ):
            continue
        if isinstance(event, AssistantMessage) and event.purpose != "answer":
            continue
        if found and not (
            isinstance(event, AssistantMessage) and response and response_of(event) == response
        ):
            break
        if event.receipt is not None:
            return event.receipt.view
        # A program may write one response as several messages, one behind the other.
        response = response_of(event) if isinstance(event, AssistantMessage) else ""
        found = entry.position - 1
    return found


def difference_data(found: Difference) -> dict[str, Any]:
    """Return what differs between two requests."""
    return {
        "before": request_reference(found.before),
        "after": request_reference(found.after),
        **found.told._asdict(),
        "prefix": found.prefix,
        "known_cost_micro_usd": found.cost,
        "cost_is_by_example_prices": are_examples() and bool(found.cost),
    }
