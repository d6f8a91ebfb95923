"""Requests as another program sent them: the request that the log leads to, and a patch in the receipt.

A recorded program writes bodies in its own way. Its receipts hold a patch, under `patch` in the plan, from
the body that stenolog builds at that position to the one that was sent:

    order      the keys of the body, in their order
    front      for each key but the messages', a recipe of its value (see `recipe`)
    messages   a recipe for each message from `keep` on; those before are the base's
    base       the position of the entry whose receipt has them; 0: there is none, and nothing is kept
    cache      marks of the prompt cache, `[pointer, value]`, which are lifted off before anything is compared

What is equal to the base's is left out, so a patch grows only with what is new. If there is only `raw`, the
bytes are in the transport, and nothing else describes the body.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.base.model import clean
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.values import Receipt
from stenolog.projections.formats.caching import MARK
from stenolog.projections.messages.body_digest import escape, unescape
from stenolog.projections.messages.message import EMPTY_BLOBS, Body
from stenolog.projections.messages.sizes import ESTIMATE, Counter

from .pipeline.lane import LaneId
from .recipe import REFERENCE, Making, Recipe
from .request import PATCH, Request
from .sent_explanation import sent_explanation
from .transport import Transport

RAW = "raw"
FOLLOWED = "previous_response_id"
EPHEMERAL = {"type": "ephemeral"}
MOST = 64
"""Patches that are kept whole: each names every message, so many of them are large."""
MOST_MESSAGES = 100_000
_ODD = (TypeError, ValueError, LookupError, AttributeError, RecursionError)


class Patch(NamedTuple):
    """A whole patch: the keys in order, recipes by key, a recipe for each message, marks of the cache."""

    order: tuple[str, ...] = ()
    front: Mapping[str, Recipe] = {}
    messages: Sequence[Recipe] = ()
    cache: Sequence[Sequence[Any]] = ()

    @property
    def json(self) -> dict[str, Any]:
        """The patch as in a receipt, without a base."""
        fields = {"front": dict(self.front), "messages": [*self.messages], "cache": [*self.cache]}
        return {"order": [*self.order], **{name: value for name, value in fields.items() if value}}


class Patches:
    """A log's patches, each resolved once. `receipt_at` reads an entry's receipt."""

    def __init__(self, receipt_at: Callable[[int], Receipt | None]) -> None:
        self._receipt_at = receipt_at
        self._resolved: dict[int, Patch] = {}

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Patches:
        """Return the patches of a log's entries."""
        receipts = {
            entry.position: entry.event.receipt
            for entry in entries
            if isinstance(entry.event, AssistantMessage | LlmError) and entry.event.receipt is not None
        }
        return cls(receipts.get)

    def resolve(self, receipt: Receipt) -> Patch:
        """Return a receipt's whole patch. Raises `StoredDataError` if its base is gone."""
        try:
            return self._resolve(receipt)
        except _ODD as error:
            raise StoredDataError(f"patch: it cannot be read: {error}") from None

    def _resolve(self, receipt: Receipt) -> Patch:
        chain: list[Mapping[str, Any]] = []
        patch, base = Patch(), 0
        plan: Mapping[str, Any] = _patch_of(receipt)
        positions: list[int] = []
        while True:
            chain.append(plan)
            base = int(plan.get("base", 0))
            if not base:
                break
            if base in self._resolved:
                patch = self._resolved[base]
                break
            if positions and base >= positions[-1]:
                raise StoredDataError(f"patch: expected one before {positions[-1]} as its base, found {base}")
            positions.append(base)
            earlier = self._receipt_at(base)
            if earlier is None or PATCH not in earlier.plan:
                raise StoredDataError(f"the receipt at {base}, which this one goes on from, is gone")
            plan = _patch_of(earlier)
        # From the oldest to the newest; each but the newest stands at a position of its own.
        for plan, position in zip(reversed(chain), [*reversed(positions), 0], strict=True):
            patch = _following(patch, plan)
            if position:
                self._keep(position, patch)
        return patch

    def independent(self, receipt: Receipt) -> Receipt:
        """Return a receipt whose patch has no base. Raises `StoredDataError`."""
        if PATCH not in receipt.plan or RAW in _patch_of(receipt):
            return receipt
        return replace(receipt, plan={**receipt.plan, PATCH: self.resolve(receipt).json})

    def _keep(self, position: int, patch: Patch) -> None:
        self._resolved[position] = patch
        if len(self._resolved) > MOST:
            del self._resolved[next(iter(self._resolved))]


def _patch_of(receipt: Receipt) -> Mapping[str, Any]:
    patch: Any = receipt.plan[PATCH]
    if not isinstance(patch, Mapping):
        raise StoredDataError("patch: expected an object in the receipt's plan")
    return patch


def _following(base: Patch, patch: Mapping[str, Any]) -> Patch:
    front = {**base.front, **patch.get("front", {})}
    order = tuple(patch.get("order", base.order))
    kept = base.messages[: int(patch.get("keep", 0))]
    return Patch(order, front, [*kept, *expanded(patch.get("messages", ()))], patch.get("cache", ()))


def expanded(messages: Iterable[Recipe]) -> Iterator[Recipe]:
    """Yield a recipe for each message, also of a run."""
    room = MOST_MESSAGES
    for item in messages:
        if isinstance(item, dict) and REFERENCE in item and "all" in item:
            run = range(*item["all"])
            room -= len(run)
            if room < 0:
                raise StoredDataError(f"patch: expected at most {MOST_MESSAGES:,} messages, found more")
            yield from ({REFERENCE: f"{item[REFERENCE]}/{n}"} for n in run)
        else:
            yield item


def sent_body(patch: Patch, body: Body, messages_key: str, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> Body:
    """Return the body that was sent. Raises `StoredDataError` for a patch that does not fit."""
    try:
        return _made_body(patch, body, messages_key, blobs)
    except _ODD as error:
        raise StoredDataError(f"patch: it does not fit the request: {error}") from None


def _made_body(patch: Patch, body: Body, messages_key: str, blobs: Mapping[str, bytes]) -> Body:
    made_body: Body = {}
    making = Making(body, blobs)
    for key in patch.order:
        if key in patch.front:
            made_body[key] = making.value_of(patch.front[key])
        elif key == messages_key:
            made_body[key] = making.value_of(list(patch.messages))
        else:
            raise StoredDataError(f"patch: expected a recipe for {key!r}, found none")
    for mark in patch.cache:
        made_body = with_mark(made_body, mark[0], mark[1] if len(mark) > 1 else EPHEMERAL)
    return made_body


def with_mark(body: Body, pointer: str, value: Any) -> Body:
    """Return the body with a cache mark after the keys at a pointer; only its path is copied."""
    steps = pointer.split("/")[1:]
    whole = {**body}
    here: Any = whole
    for step in steps:
        key: Any = int(step) if isinstance(here, list) else unescape(step)
        try:
            inner = here[key]
        except (LookupError, TypeError):
            raise StoredDataError(f"patch: nothing stands at {pointer} in the request") from None
        here[key] = {**inner} if isinstance(inner, dict) else [*inner]
        here = here[key]
    here[MARK] = value
    return whole


def without_marks(body: Body) -> tuple[Body, list[list[Any]]]:
    """Return a body without the cache marks that come last in their objects, and these marks."""
    marks: list[list[Any]] = []
    return {key: _lifted(value, f"/{escape(key)}", marks) for key, value in body.items()}, marks


def _lifted(value: Any, pointer: str, marks: list[list[Any]]) -> Any:
    match value:
        case dict() if MARK in value and next(reversed(value)) == MARK and len(value) > 1:
            mark = value[MARK]
            marks.append([pointer] if mark == EPHEMERAL and [*mark] == [*EPHEMERAL] else [pointer, mark])
            inner = {key: each for key, each in value.items() if key != MARK}
            return {key: _lifted(each, f"{pointer}/{escape(key)}", marks) for key, each in inner.items()}
        case dict() if pointer.count("/") < DEEPEST:
            return {key: _lifted(each, f"{pointer}/{escape(key)}", marks) for key, each in value.items()}
        case list() if pointer.count("/") < DEEPEST:
            return [_lifted(each, f"{pointer}/{n}", marks) for n, each in enumerate(value)]
        case _:
            return value


# /messages/7/content/2/content/0: providers take no mark further in.
DEEPEST = 6
"""Steps of a pointer to the furthest block that may have a mark."""


def as_sent(
    request: Request,
    receipt: Receipt | None,
    patches: Patches,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counter: Counter = ESTIMATE,
) -> Request:
    """Return the request as its receipt says; unchanged if the receipt has no patch.

    Raises `StoredDataError` for a patch that does not fit the request.
    """
    if receipt is None or PATCH not in receipt.plan:
        return request
    patch = patches.resolve(receipt)
    if RAW in _patch_of(receipt):
        body = _raw_body(receipt, blobs)
    else:
        body = sent_body(patch, request.body, request.messages_key, blobs)
    response = str(body.get(FOLLOWED) or "")
    return replace(
        request,
        body=body,
        encoded=None,
        patch=_patch_of(receipt),
        # It was sent, whatever would be sent today.
        sendable=True,
        ready=True,
        reason="",
        obstacle="",
        code="",
        places=(),
        explain=lambda: sent_explanation(request, patch.messages, body, response, counter),
    )


class SentForms:
    """A lane's requests as their receipts say."""

    def __init__(
        self, entries: Iterable[Entry], lane: LaneId, blobs: Mapping[str, bytes] = EMPTY_BLOBS
    ) -> None:
        log = list(entries)
        self._patches, self._blobs = Patches.of(log), blobs
        self._receipts: dict[int, Receipt] = {}
        for entry in log:
            event = entry.event
            if not isinstance(event, AssistantMessage | LlmError) or not lane.owns(event):
                continue
            receipt = event.receipt
            if receipt is not None and PATCH in receipt.plan and not _is_aside(event, self._receipts):
                self._receipts[receipt.view] = receipt

    def form(self, request: Request, receipt: Receipt | None = None) -> Request:
        """Return the request as it was sent; unchanged without a receipt, or if its patch is broken.

        The default receipt is that of its position, API and policy.
        """
        found = self._receipts.get(request.at) if receipt is None else receipt
        if found is None or (receipt is None and not is_of(found, request)):
            return request
        try:
            return as_sent(request, found, self._patches, self._blobs)
        except StoredDataError:
            return request


def is_of(receipt: Receipt, request: Request) -> bool:
    """Return whether a receipt is of a request's position, API and policy."""
    receipt_key = (receipt.view, receipt.api, {**receipt.policy})
    return receipt_key == (request.at, request.api, request.policy.json)


def _is_aside(event: AssistantMessage | LlmError, known: Mapping[int, Receipt]) -> bool:
    aside = isinstance(event, AssistantMessage) and event.purpose == "routing"
    return aside and event.receipt is not None and event.receipt.view in known


def _raw_body(receipt: Receipt, blobs: Mapping[str, bytes]) -> Body:
    try:
        body = json.loads(Transport.of(receipt.transport).render({}, blobs))
    except (CallerError, ValueError) as error:
        raise StoredDataError(f"patch: {error}") from None
    return without_halves(body) if isinstance(body, dict) else {}


def without_halves(value: Any) -> Any:
    """Return JSON without half surrogate pairs, which no event can hold."""
    match value:
        case str():
            return clean(value)
        case list():
            return [without_halves(each) for each in value]
        case dict():
            return {clean(key): without_halves(each) for key, each in value.items()}
        case _:
            return value
