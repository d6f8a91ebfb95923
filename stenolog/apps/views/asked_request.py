"""Requests as data: the real one, its reasons, its differences, and what it might be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.requests.lanes import origin_of
from stenolog.adapters.conversation.queries.requests.rates import as_billed
from stenolog.adapters.conversation.queries.requests.rewritten import rewritten_request
from stenolog.adapters.conversation.queries.requests.sent_forms import sent_form
from stenolog.adapters.conversation.queries.requests.window_cache import windows_of
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy import Policy
from stenolog.domain.policy_text import amount, policy_of
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.budget import with_tokens
from stenolog.projections.analysis.cache.difference import diff
from stenolog.projections.analysis.explain import Missing, Reason
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill
from stenolog.projections.analysis.whatif import NO_EDITS, WhatIf
from stenolog.projections.requests import Request

from .lanes import lane, on_card, own_api, request_of
from .positions import is_number

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class AskedRequest(NamedTuple):
    """An agent's request at a position, under conditions.

    A request that another program sent is in the form that it was sent in, unless `as_built`.
    """

    conversation: Conversation
    agent: str
    at: int
    api: str | None
    policy: Policy | None
    without: Sequence[PositionRange]
    mode: str | None = None
    edits: Mapping[int, str] = NO_EDITS
    as_built: bool = False

    @property
    def is_changed(self) -> bool:
        """True if it is another request than the real one."""
        return self.policy is not None or self.is_rewritten

    @property
    def is_rewritten(self) -> bool:
        """True if the log itself would have to be another one."""
        return bool(self.without) or bool(self.edits) or self.mode is not None

    def real(self) -> AskedRequest:
        """Return what is asked for without the conditions."""
        return self._replace(policy=None, without=(), mode=None, edits=NO_EDITS)

    def request(self) -> Request:
        """Return the request; one that was asked for lately is not built again."""
        if self.is_rewritten:
            made = rewritten_request(
                self.conversation,
                **lane(self.agent)._asdict(),
                at=self.at,
                api=self.api or own_api(self.conversation, self.agent),
                policy=self.policy,
                without=self.without,
                mode=self.mode,
                edits=self.edits,
            )
            return as_billed(self.conversation, made)
        last = next(iter(self.conversation.entries(self.at - 1, self.at)), None) if self.at else None
        if last is None:
            return self._built()
        cache = windows_of(self.conversation.log)
        policy = cache.policy_key(self.policy)
        key = (self.conversation.key, last.digest, self.agent, self.at, self.api, policy, self.as_built)
        return cache.remembered(key, self._built)

    def _built(self) -> Request:
        if self.policy is None and not self.as_built:
            sent = sent_form(self.conversation, lane(self.agent), self.at, self.api)
            if sent is not None:
                return as_billed(self.conversation, sent)
        return request_of(self.conversation, self.agent, self.at, self.api, self.policy)

    def whatif(self) -> WhatIf:
        """Return it beside the real one."""
        real, other = self.real()._replace(as_built=True).request(), self.request()
        return WhatIf(real, other, diff(real, other))


def edits_asked(written: Iterable[str]) -> dict[int, str]:
    """Return the texts by position: `12:other words`. Raises `InvalidEventError`."""
    found = {}
    for one in written:
        position, colon, text = one.partition(":")
        if not (colon and is_number(position.strip())):
            raise InvalidEventError(
                f"edit: expected a position and a text such as 12:text, found {one!r:.60}"
            )
        found[int(position)] = text
    return found


def policy_asked(
    conversation: Conversation,
    agent: str,
    position: int,
    written: str | None,
    tokens: str | None,
    *,
    prefix: str = "--",
) -> Policy | None:
    """Return the policy that was written; None for the agent's own.

    Raises `InvalidPolicyError`, which names `policy` or `budget` with the `prefix`.
    """
    chosen = policy_of(written, f"{prefix}policy")
    if tokens is None:
        return chosen
    own = on_card(conversation, agent, position) if chosen is None else chosen
    is_foreign = origin_of(conversation) is not None
    return with_tokens(own, amount(tokens, f"{prefix}budget"), as_billed=is_foreign)


def request_data(request: Request) -> dict[str, Any]:
    """Return a request as JSON: the body, its digest, and the explanation."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256", "pipeline", "counter", "cuts")
    shown = {name: getattr(request, name) for name in fields}
    shown |= {"policy": request.policy.json, "size": request.size._asdict()}
    shown |= {"counter": request.counted_by}
    shown |= {"as_sent": request.patch is not None}
    return {**shown, "parts": request.parts, "omissions": request.omissions, "body": request.body}


def request_reference(request: Request) -> dict[str, Any]:
    """Return the fields that identify a request."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256")
    return {**{name: getattr(request, name) for name in fields}, "policy": request.policy.json}


def bill_data(billed: Bill) -> dict[str, Any] | None:
    """Return a bill as JSON; None without one."""
    if billed == NO_BILL:
        return None
    gone = billed.unexplained
    return {
        **billed._asdict(),
        "note": billed.note,
        "unexplained": None if gone is None else gone._asdict(),
    }


def real_data(request: Request, billed: Bill) -> dict[str, Any]:
    """Return a request, and the provider's bill beside it."""
    return {**request_data(request), "bill": bill_data(billed)}


def reasons_data(
    request: Request, reasons: Sequence[Reason], gone: Sequence[Missing], billed: Bill = NO_BILL
) -> dict[str, Any]:
    """Return the reason for each part of a request and each omission, and the bill."""
    found = {**request_reference(request), "reasons": reasons, "left_out": gone}
    return {**found, "bill": bill_data(billed)}


def whatif_data(asked: AskedRequest, whatif: WhatIf) -> dict[str, Any]:
    """Return a request as it might be, beside the real one."""
    return {
        "conversation": asked.conversation.name,
        "agent": asked.agent,
        "same": whatif.same,
        "difference": whatif.difference,
        "real": request_data(whatif.real),
        "other": request_data(whatif.other),
    }
