"""Requests of an evidence pack: built again from the log, and only from what the pack shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.erasure import WITHHELD
from stenolog.domain.errors import CallerError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, Unknown
from stenolog.domain.values import Receipt
from stenolog.projections.analysis.quotes import forms_of, texts_of
from stenolog.projections.messages.body_digest import written
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests.as_sent import RAW
from stenolog.projections.requests.proofs import Proof, rebuilt
from stenolog.projections.requests.request import PATCH, Request
from stenolog.projections.requests.transport import Transport

from .lines import SentRequest

Wanted: TypeAlias = Collection[int] | Literal["newest", "all"]
"""The answers whose requests to show: their positions, the newest with a receipt, or all."""


class Chosen(NamedTuple):
    """The requests to show, by position, and why others are left out."""

    requests: tuple[SentRequest, ...]
    left_out: tuple[tuple[int, str], ...]


def receipt_at(entry: Entry) -> Receipt | None:
    """Return an answer's receipt."""
    return entry.event.receipt if isinstance(entry.event, AssistantMessage | LlmError) else None


def choose_requests(
    entries: Sequence[Entry],
    wanted: Wanted,
    withheld: Collection[int],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Chosen:
    """Return the wanted requests with their bytes.

    Raises `CallerError` for a position without a receipt, and for one whose request cannot be shown; with
    "newest" and "all" that request is left out.
    """
    answers = {entry.position: entry for entry in entries if receipt_at(entry) is not None}
    if not isinstance(wanted, str):
        for position in wanted:
            if position not in answers:
                raise CallerError(
                    f"evidence: {position} is no answer with a receipt: its request is not known"
                )
        asked = {*wanted}
    else:
        shown = [position for position in answers if position not in withheld]
        asked = {*(shown if wanted == "all" else shown[-1:])}
    secret = _Withheld(entries, withheld, asked, blobs, counters)
    found: list[SentRequest] = []
    left_out: list[tuple[int, str]] = []
    for proof, request in rebuilt(entries, within=asked, blobs=blobs, counters=counters) if asked else ():
        made = _sent(answers[proof.position], proof, request, secret, blobs)
        if isinstance(made, SentRequest):
            found.append(made)
        elif isinstance(wanted, str):
            left_out.append((proof.position, made))
        else:
            raise CallerError(f"evidence: the request of {proof.position} cannot be shown: {made}")
    return Chosen(tuple(sorted(found)), tuple(sorted(left_out)))


class _Withheld:
    """The withheld entries, and which of the asked requests are the same without the settings among them."""

    def __init__(
        self,
        entries: Sequence[Entry],
        positions: Collection[int],
        asked: Collection[int],
        blobs: Mapping[str, bytes],
        counters: Mapping[str, Counter],
    ) -> None:
        self.positions = {*positions}
        self._words = {
            form
            for entry in entries
            if entry.position in self.positions
            for text in texts_of(entry.event)
            for form in forms_of(text)
        }
        switches = {entry.position for entry in entries if isinstance(entry.event, ModeSwitch)}
        self._switches = self.positions & switches
        without = [
            entry._replace(event=_WORDLESS) if entry.position in self._switches else entry
            for entry in entries
        ]
        built = rebuilt(without, within=asked, blobs=blobs, counters=counters) if self._switches else ()
        self._same = {proof.position for proof, _ in built if proof.found == proof.expected}

    def shown_by(self, receipt: Receipt, position: int, request: Request, *contents: bytes) -> str:
        """Return why a request would show something withheld; "" if it would not."""
        before = sorted(at for at in self.positions if at <= receipt.view)
        if not before:
            return ""
        if read := sorted(self.positions.intersection(request.read)):
            return f"it was built from {read[0]}, which is withheld"
        # The parameters and tools of a card are no words that were read.
        settings = [str(at) for at in before if at in self._switches]
        if settings and position not in self._same:
            return f"without the settings of {', '.join(settings)}, which are withheld, it would be another"
        # A recorded program may send words that nothing says it has from an entry.
        patch: Any = receipt.plan.get(PATCH)
        is_raw = isinstance(patch, Mapping) and RAW in patch
        if is_raw or any(words in content for content in contents for words in self._words):
            return "it may have words of a withheld entry"
        return ""


_WORDLESS = Unknown(topic=WITHHELD, payload=b"", ignorable=True)


def _sent(
    entry: Entry, proof: Proof, request: Request | None, secret: _Withheld, blobs: Mapping[str, bytes]
) -> SentRequest | str:
    """Return the request with its bytes, or why it cannot be shown."""
    receipt = receipt_at(entry)
    assert receipt is not None, "it is one of the answers"
    if entry.position in secret.positions:
        return "its answer is withheld"
    # Only the bytes may be unprovable, of a program whose secrets were removed before they were kept.
    if request is None or proof.outcome == "differs" or proof.found != receipt.sha256:
        return proof.reason
    body, sent = written(request.body), b""
    if receipt.sent and proof.outcome == "same":
        sent = Transport.of(receipt.transport).render(request.body, blobs)
    if why := secret.shown_by(receipt, entry.position, request, body, sent):
        return why
    with suppress(UnicodeDecodeError):  # what a program sent may be anything
        return SentRequest(entry.position, sorted(request.read), body.decode(), sent.decode())
    return SentRequest(entry.position, sorted(request.read), body.decode())
