"""Entries as data: the requests that they are in, and what led to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stenolog.adapters.conversation.queries.requests.bills import bill_of
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.policy import PolicyLike
from stenolog.projections.analysis.blame import Blame
from stenolog.projections.analysis.explain import Explanation, explain
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill, states_input
from stenolog.projections.requests import LaneId

from .asked_request import bill_data
from .envelope import Diagnostic
from .lanes import means, request_of, unrecorded

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def explained(
    conversation: Conversation,
    entries: Iterable[Entry],
    position: int,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
) -> Explanation:
    """Return the history of an entry, up to the end of the entries. Raises as `explain`."""
    return explain(entries, position, api=api, policy=policy, **means(conversation))


def explanation_data(
    conversation: Conversation, at: int, explanation: Explanation, asked: Blame, billed: Bill = NO_BILL
) -> dict[str, Any]:
    """Return the history of an entry up to position `at`; for an answer, with its request's bill.

    `asked` is the chain of causes back to a person.
    """
    history = explanation._asdict()
    return {
        "conversation": conversation.name,
        "at": at,
        **history,
        "asked": asked._asdict(),
        "bill": bill_data(billed),
    }


def bill_of_answer(conversation: Conversation, entry: Entry) -> Bill:
    """Return the bill that another program's answer states; none for any other entry."""
    event = entry.event
    if not states_input(event) or event.receipt is not None or event.source is None or entry.position < 2:
        return NO_BILL
    lane = LaneId(event.agent, event.task)
    try:
        request = request_of(conversation, lane.address, entry.position - 1, None)
    except CallerError:  # an entry is explained even where no request can be built
        return NO_BILL
    return bill_of(conversation, request, list(conversation.entries()))


def rebuilt_notes(conversation: Conversation, explanation: Explanation) -> tuple[Diagnostic, ...]:
    """Return a note for each other program that sent requests with an entry in them."""
    notes = (note for lane in explanation.lanes for note in unrecorded(conversation, lane.lane))
    return tuple({note.message: note for note in notes}.values())
