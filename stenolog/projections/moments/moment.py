"""A moment: one request of an agent, and only the entries and blobs that it is made of.

The request is built from them before they are taken, to see that they are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, StenologError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, Unknown
from stenolog.domain.lanes.state import address
from stenolog.domain.values import Receipt
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId, Request, build
from stenolog.projections.requests.as_sent import Patches, as_sent, is_of
from stenolog.projections.requests.request import PATCH
from stenolog.projections.requests.transport import Transport

from .entry_lines import read_entries, written_entries

UNTOLD: Mapping[str, Any] = {
    "receipt": None,
    "usage": None,
    "source": None,
    "meta": {},
    "tags": (),
    "duration_ms": None,
    "first_token_ms": None,
}
"""The fields of an event that requests are seldom made of, and their empty values."""


class Moment(NamedTuple):
    """A request, the entries and blobs that it is made of, and how it was sent.

    `receipt` is that of the answer to it, with its patch resolved; None if stenolog never sent it, or sent
    another request. `entries` keep their positions, with gaps between them. `missing` says what the log lacks
    of it, if another program sent it.
    """

    conversation: str
    request: Request
    entries: tuple[Entry, ...] = ()
    blobs: Mapping[str, bytes] = EMPTY_BLOBS
    receipt: Receipt | None = None
    missing: str = ""

    @property
    def title(self) -> str:
        """The request in words; one that is only rebuilt says what is missing."""
        where = f"{self.address} at {self.request.at} of {self.conversation}"
        return f"Rebuilt, for {where}; {self.missing}" if self.missing else f"The request of {where}"

    @property
    def address(self) -> str:
        """The lane whose request it is: `agent`, or `agent/task`."""
        return address(self.request.agent, self.request.task)

    @property
    def api(self) -> str:
        """The name of the API, without its version."""
        return self.request.api.partition("@")[0]

    @property
    def sent(self) -> Transport | None:
        """The transport of the request; None if the log does not know it."""
        if self.receipt is None or not self.receipt.transport:
            return None
        return Transport.of(self.receipt.transport)

    @property
    def patch(self) -> Mapping[str, Any] | None:
        """The patch from the body that is built to the one that was sent; None if they are the same."""
        found: Any = None if self.receipt is None else self.receipt.plan.get(PATCH)
        return found if isinstance(found, Mapping) else None

    def render(self, transport: Transport) -> bytes:
        """Return the bytes of the request by a transport."""
        return transport.render(self.request.body, self.blobs)


def receipt_of(later: Iterable[Entry], lane: LaneId, at: int) -> Receipt | None:
    """Return the receipt of the lane's call at a position, from the entries after it, or None."""
    aside: Receipt | None = None
    for entry in later:
        event = entry.event
        if not isinstance(event, AssistantMessage | LlmError) or not lane.owns(event):
            continue
        receipt = event.receipt if event.receipt is not None and event.receipt.view == at else None
        if event.receipt is None or PATCH not in event.receipt.plan:
            return receipt or aside
        # A program may ask several times at once, and count tokens between two turns.
        if receipt is not None and isinstance(event, AssistantMessage) and event.purpose == "routing":
            aside = aside or receipt
        elif receipt is not None:
            return receipt
    return aside


def moment_of(
    request: Request,
    choices: Iterable[Iterable[Entry]],
    *,
    conversation: str,
    receipt: Receipt | None = None,
    patches: Patches | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Moment:
    """Return the moment of a request, of the first choice of entries that builds the same request.

    The last choice must be the whole log up to the request. `patches` resolve the receipt's patch if another
    program sent the request: the moment is of that form.
    """
    for entries in choices:
        # As they are read back: what a file holds is what is tried out.
        kept = tuple(read_entries(conversation, "\n".join(written_entries(entries))))
        used = _Used(blobs)
        try:
            again = build(
                kept,
                request.agent,
                task=request.task,
                api=request.api.partition("@")[0],
                policy=request.policy,
                blobs=used,
                counters=counters,
            )
        except StenologError:
            continue
        if again.sha256 == request.sha256:
            sent = request
            if receipt is not None and patches is not None and is_of(receipt, request):
                receipt = patches.independent(receipt)
                sent = as_sent(request, receipt, patches, used)
            is_as_sent = receipt is not None and receipt.sha256 == sent.sha256
            if receipt is not None and is_as_sent:
                used.get(
                    str(receipt.transport.get("blob", ""))
                )  # the bytes, where they were kept as they were
            return Moment(
                conversation,
                sent if is_as_sent else request,
                kept,
                used.found,
                receipt if is_as_sent else None,
            )
    whose = address(request.agent, request.task)
    raise InvalidEventError(f"the request of {whose} at {request.at} cannot be built of its entries")


def shown_in(request: Request) -> frozenset[int]:
    """Return the positions of the entries that a request shows."""
    return frozenset(position for part in request.parts for position in part.positions)


def choices(
    request: Request, beginning: Iterable[Entry], whole: Callable[[], Iterable[Entry]]
) -> Iterator[Iterable[Entry]]:
    """Yield choices of entries that may be enough for a request, the fewest first.

    `beginning` has at least those that it shows and all mode switches, `whole` returns the log up to it.
    """
    shown = shown_in(request)
    few = [entry for entry in beginning if entry.position in shown or isinstance(entry.event, ModeSwitch)]
    yield [entry._replace(event=_bare(entry.event)) for entry in few]
    yield few
    yield whole()


def _bare(event: Event) -> Event:
    if isinstance(event, Unknown):
        return event
    bare: Event = replace(event, **{name: empty for name, empty in UNTOLD.items() if hasattr(event, name)})
    return bare


class _Used(Mapping[str, bytes]):
    """Blobs, with those that were read."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs = blobs
        self.found: dict[str, bytes] = {}

    def __getitem__(self, sha: str) -> bytes:
        content = self.found[sha] = self._blobs[sha]
        return content

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)
