"""Differences of two requests as data: what changed, what a cache keeps of them, and the cost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.providers.prices import are_examples, listed
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.triggers import response_of
from stenolog.domain.values import Usage
from stenolog.projections.analysis.cache.calls import CacheCall, cost_anew, is_call
from stenolog.projections.analysis.cache.changes import ONE_LOG, Twins
from stenolog.projections.analysis.cache.difference import RequestDiff, diff
from stenolog.projections.analysis.cache.stated import UNKNOWN
from stenolog.projections.requests import Request

from .asked_request import AskedRequest, request_reference
from .caches import NEAR, answer_before, cache_line, call_data, read_by, read_words, receipt_of
from .lanes import lane

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class Difference(NamedTuple):
    """Two requests, what differs, and what the later one read from the cache.

    `call` is known if the later one was sent, and the earlier one is the lane's call before. `cost` is what
    was, or would be, paid beyond the price of the cache, in micro-dollars; None without a price.
    """

    before: Request
    after: Request
    diff: RequestDiff
    call: CacheCall | None
    cost: int | None

    @property
    def read(self) -> str:
        """The later request's reading of the cache, in a line; empty if unknown.

        The cause is left out if it is the first change.
        """
        if self.call is None:
            return ""
        if self.call.is_miss and self.call.cause.kind == UNKNOWN and self.diff.first is None:
            return f"{cache_line(self.call)}; in what the log has nothing changed: the cause is outside it"
        return read_words(self.call) if self.call.cause == self.diff.first else cache_line(self.call)


def difference(before: AskedRequest, after: AskedRequest) -> Difference:
    """Return the difference between two requests, of one conversation or of a fork and its parent."""
    then, now = before.request(), after.request()
    between, twins = [*_between(before, after)], _twins(before, after)
    answer = _answer(before, after) if between else None
    call = answer and read_by(after.conversation, answer)
    card = before.conversation.settings(at=before.at).cards.get(now.agent)
    usage: Usage | None = getattr(answer.event, "usage", None) if answer else None
    differences = diff(then, now, between, card, usage, twins)
    model = str(now.body.get("model", ""))
    cost = call.cost(listed()) if call else cost_anew(differences.again, model, listed())
    return Difference(then, now, differences, call, cost)


def _answer(before: AskedRequest, after: AskedRequest) -> Entry | None:
    if before.is_changed or after.is_changed or before.conversation.name != after.conversation.name:
        return None
    where = lane(after.agent)
    for entry in islice(after.conversation.entries(after.at), NEAR):
        if is_call(entry.event) and where.owns(entry.event):
            first = answer_before(after.conversation, entry)
            views = [_view_of(one) for one in (first, entry) if one is not None]
            return entry if views == [before.at, after.at] else None
    return None


def _view_of(answer: Entry) -> int:
    receipt = receipt_of(answer)
    return receipt.view if receipt is not None else answer.position - 1


def _between(before: AskedRequest, after: AskedRequest) -> Iterable[Entry]:
    if before.conversation.name == after.conversation.name:
        same = (before.agent, before.api) == (after.agent, after.api)
        return after.conversation.entries(before.at, after.at) if same and before.at < after.at else ()
    return after.conversation.entries(
        min(common(before.conversation, after.conversation), after.at), after.at
    )


def _twins(before: AskedRequest, after: AskedRequest) -> Twins:
    if before.conversation.name == after.conversation.name:
        return ONE_LOG
    shared = range(1, common(before.conversation, after.conversation) + 1)
    return Twins(dict(zip(shared, shared, strict=True)))


def common(one: Conversation, other: Conversation) -> int:
    """Return the last position that a conversation shares with its fork, in either order.

    Raises `InvalidEventError` if neither is a fork of the other.
    """
    for child, parent in ((one, other), (other, one)):
        ancestor, shared = child.settings(), child.position
        while ancestor.is_fork and ancestor.parent:
            shared = min(shared, ancestor.parent.position)
            if ancestor.parent.conversation == parent.name:
                return shared
            ancestor = child.log[ancestor.parent.conversation].settings()
    raise InvalidEventError(f"neither of {one.name!r} and {other.name!r} is a fork of the other")


def at_call_before(asked: AskedRequest) -> AskedRequest:
    """Return the request of the lane's call before. Raises `InvalidEventError` if there was none."""
    found = call_before(asked.conversation, asked.agent, asked.at)
    if not found:
        where = f"{asked.conversation.name!r} at {asked.at}"
        raise InvalidEventError(f"{where}: {asked.agent} made no call before")
    return asked._replace(at=found)


def call_before(conversation: Conversation, address: str, at: int) -> int:
    """Return the position of the request of the lane's last answered call up to here; 0 without one.

    Only where none was answered is it a failed attempt.
    """
    where, found, failed, response = lane(address), 0, 0, ""
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
        view = entry.position - 1 if event.receipt is None else event.receipt.view
        if isinstance(event, LlmError):
            failed = failed or view
            continue
        if event.purpose != "answer":
            continue
        if found and not (response and response_of(event) == response):
            break
        if event.receipt is not None:
            return view
        # A program may write one response as several messages, one after the other.
        response, found = response_of(event), view
    return found or failed


def difference_data(found: Difference) -> dict[str, Any]:
    """Return what differs between two requests."""
    return {
        "before": request_reference(found.before),
        "after": request_reference(found.after),
        **found.diff._asdict(),
        "call": found.call and call_data(found.call, listed()),
        "known_cost_micro_usd": found.cost,
        "cost_is_by_example_prices": are_examples() and bool(found.cost),
    }
