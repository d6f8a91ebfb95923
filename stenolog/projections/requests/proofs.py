"""Checks of all requests of a log: sent ones are rebuilt, possible ones are valid."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.base.registry import HINT
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import WITHHELD, erasure_of, is_effects, is_erased, is_gone
from stenolog.domain.errors import CallerError, InvalidPolicyError, StenologError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.policy import policy
from stenolog.domain.values import Receipt
from stenolog.projections.formats import FORMATS, format_of, validator_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.checks import Violation
from stenolog.projections.messages.body_digest import ORDER, first_difference
from stenolog.projections.messages.message import EMPTY_BLOBS, PIPELINE, PIPELINES
from stenolog.projections.messages.sizes import COUNTERS, Counter

from .as_sent import FOLLOWED, Patches, as_sent
from .choosing import lanes
from .grades import Grade, grade_of
from .incremental.series import at_views, series
from .pipeline.lane import LaneId
from .request import PATCH, Request, sent_under
from .sendable import takes_part
from .transport import Transport

Outcome: TypeAlias = Literal["same", "differs", "not-provable"]


class Proof(NamedTuple):
    """The verdict on one receipt: its position, its lane, and `view`, the position of the request.

    `reason` says where the request differs first, or why it cannot be proved. `found` is the sha256 of the
    rebuilt body, "" if none was built. `covers` is what the receipt proves: the bytes that were sent, or only
    the body if it does not know them. `grade` is that of an equal request of another program.
    """

    position: int
    lane: str
    view: int
    api: str
    outcome: Outcome
    reason: str = ""
    expected: str = ""
    found: str = ""
    covers: Literal["sent", "body"] = "body"
    grade: Grade | None = None


class Sent(NamedTuple):
    """An entry's receipt and lane."""

    position: int
    lane: LaneId
    receipt: Receipt

    @property
    def api(self) -> str:
        """The API's name, without its version."""
        return self.receipt.api.partition("@")[0]

    def proof(self, outcome: Outcome, reason: str = "", found: str = "") -> Proof:
        receipt = self.receipt
        place = (self.position, self.lane.address, receipt.view, receipt.api)
        covers: Literal["sent", "body"] = "sent" if receipt.sent else "body"
        return Proof(*place, outcome, reason, receipt.sha256, found, covers)


def proofs(
    entries: Iterable[Entry],
    *,
    within: range | None = None,
    apis: Mapping[str, Format] = FORMATS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> list[Proof]:
    """Build the request of every receipt again, and compare; in the order of the log.

    With `within`, only those at positions in that range. Unreadable entries may be missing: requests built on
    them cannot be proved.
    """
    found = rebuilt(entries, within=within, apis=apis, blobs=blobs, counters=counters)
    return sorted(proof for proof, _ in found)


def rebuilt(
    entries: Iterable[Entry],
    *,
    within: Container[int] | None = None,
    apis: Mapping[str, Format] = FORMATS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[tuple[Proof, Request | None]]:
    """Yield the proofs in any order, each with the request in the form in which it was sent, if it was built.

    Otherwise as `proofs`.
    """
    log = list(entries)
    # Behind a gap nothing can be built, since a request rests on all entries before it.
    whole = [entry for at, entry in takewhile(lambda pair: pair[0] == pair[1].position, enumerate(log, 1))]
    patches = Patches.of(log)
    groups: dict[tuple[LaneId, str, str], list[Sent]] = defaultdict(list)
    for sent in _sent(entry for entry in log if within is None or entry.position in within):
        if obstacle := _obstacle(sent, len(whole), apis, counters):
            yield sent.proof("not-provable", obstacle), None
        else:
            # Receipts of one lane, pipeline and policy are proved in one pass over the log.
            receipt = sent.receipt
            groups[sent.lane, receipt.pipeline, json.dumps(receipt.policy, sort_keys=True)].append(sent)
    for group in groups.values():
        yield from _prove(whole, group, patches, apis, blobs, counters)


def _sent(log: Iterable[Entry]) -> Iterator[Sent]:
    for entry in log:
        match entry.event:
            case (
                AssistantMessage(agent=agent, task=task, receipt=Receipt() as receipt)
                | LlmError(agent=agent, task=task, receipt=Receipt() as receipt)
            ):
                yield Sent(entry.position, LaneId(agent, task), receipt)
            case _:
                pass


def _obstacle(sent: Sent, whole: int, apis: Mapping[str, Format], counters: Mapping[str, Counter]) -> str:
    """Return why the request cannot be built here as it was then; "" if it can."""
    receipt = sent.receipt
    # Another pipeline gives other bytes for the same log, which proves nothing about the answer.
    if receipt.pipeline not in PIPELINES:
        return f"pipeline {receipt.pipeline or '(unnamed)'} is not here, {PIPELINE} is"
    if sent.api not in apis or receipt.api != f"{sent.api}@{apis[sent.api].version}":
        hint = "" if sent.api in apis or not sent.api else f": {HINT}"
        return f"API {receipt.api or '(unnamed)'} is not here{hint}"
    try:
        name = policy(receipt.policy).counter
    except InvalidPolicyError as error:
        return f"policy {error}"
    if _id_of(name, counters) != receipt.counter:
        return f"counter {receipt.counter or '(unnamed)'} is not here"
    if receipt.view > whole:
        return f"the entry at {whole + 1} cannot be read any more"
    return ""


def _id_of(name: str, counters: Mapping[str, Counter]) -> str | None:
    try:
        return counters[name].id
    except (KeyError, StenologError):
        return None


def _prove(
    log: Sequence[Entry],
    group: Sequence[Sent],
    patches: Patches,
    apis: Mapping[str, Format],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[tuple[Proof, Request | None]]:
    waiting: dict[int, list[Sent]] = defaultdict(list)
    for sent in group:
        waiting[sent.receipt.view].append(sent)
    lane, chosen = group[0].lane, sent_under(group[0].receipt)
    why = "the lane took no part yet"
    try:
        for sent, request in at_views(waiting, log, lane, chosen, counters, blobs):
            yield _proved(sent, request.request(apis[sent.api]), patches, log, blobs)
    except StenologError as error:
        why = str(error)
    for left in waiting.values():
        yield from ((sent.proof("not-provable", why), None) for sent in left)


def _proved(
    sent: Sent, request: Request, patches: Patches, log: Sequence[Entry], blobs: Mapping[str, bytes]
) -> tuple[Proof, Request]:
    try:
        form = as_sent(request, sent.receipt, patches, blobs)
        found = _compared(sent, form, log, blobs)
    except StoredDataError as error:
        unpatched = _compared(sent, request, log, blobs)
        if unpatched.outcome == "not-provable":  # an entry was erased, say, and the patch rests on it
            return unpatched, request
        return sent.proof("differs", str(error), request.sha256), request
    if found.outcome != "same" or PATCH not in sent.receipt.plan:
        return found, form
    patch = patches.resolve(sent.receipt)
    plan: Any = sent.receipt.plan[PATCH]
    answers = _answer_ids(log[: sent.receipt.view]) if FOLLOWED in patch.front else ()
    return found._replace(grade=grade_of(plan, patch, request.body, blobs, answers)), form


def _answer_ids(entries: Iterable[Entry]) -> set[str]:
    found = (entry.event.meta.get("tap") for entry in entries if isinstance(entry.event, AssistantMessage))
    return {str(about["id"]) for about in found if isinstance(about, dict) and "id" in about}


def _compared(sent: Sent, request: Request, log: Sequence[Entry], blobs: Mapping[str, bytes]) -> Proof:
    if request.sha256 == sent.receipt.sha256:
        return _bytes_compared(sent, request, log, blobs)
    # Asked only once the digests differ: an entry that was lost later may not have been shown.
    if lost := next((entry for entry in log[: sent.receipt.view] if is_gone(entry.event)), None):
        is_lost = not (is_erased(lost.event) or is_effects(lost.event))
        how = "was lost" if is_lost else _erased_by(log, lost.position)
        return sent.proof("not-provable", f"the entry at {lost.position} {how}")
    if gone := _missing_blob(request, log, blobs):
        return sent.proof("not-provable", f"blob {gone[:12]}… is gone")
    return sent.proof("differs", _difference(sent.receipt.plan, request), request.sha256)


def _erased_by(log: Sequence[Entry], position: int) -> str:
    if getattr(log[position - 1].event, "topic", "") == WITHHELD:
        return "came withheld"
    for entry in log:
        erasure = erasure_of(entry.event)
        if erasure is not None and position in erasure.positions:
            why = f", {erasure.reason}" if erasure.reason else ""
            return f"was erased by {erasure.by or 'someone unnamed'} on {entry.time:%Y-%m-%d}{why}"
    return "was erased"


def _bytes_compared(sent: Sent, request: Request, log: Sequence[Entry], blobs: Mapping[str, bytes]) -> Proof:
    """Compare the bytes that were sent, if the receipt knows them."""
    # A receipt that does not know the bytes proves the body alone.
    if not sent.receipt.sent:
        return sent.proof("same", found=request.sha256)
    if gone := _missing_blob(request, log, blobs):
        return sent.proof("not-provable", f"blob {gone[:12]}… is gone")
    try:
        transport = Transport.of(sent.receipt.transport)
        if transport.redacted:
            words = ", ".join(transport.redacted)
            return sent.proof("not-provable", f"redacted before it was kept: {words}", request.sha256)
        found = sha256(transport.render(request.body, blobs)).hexdigest()
    except CallerError as error:
        return sent.proof("not-provable", str(error))
    if found != sent.receipt.sent:
        why = f"the bytes sent: expected sha256 {sent.receipt.sent[:12]}…, found {found[:12]}…"
        return sent.proof("differs", f"{why}; the body is the same", request.sha256)
    return sent.proof("same", found=request.sha256)


def _missing_blob(request: Request, log: Sequence[Entry], blobs: Mapping[str, bytes]) -> str:
    positions = {position for part in request.parts for position in part.positions}
    for position in sorted(positions):
        event = log[position - 1].event
        for holder in (event, *getattr(event, "parts", ())):
            sha = getattr(holder, "blob", "")
            if sha and sha not in blobs:
                return str(sha)
    return ""


def _difference(plan: Mapping[str, Any], request: Request) -> str:
    place = "somewhere: the receipt has no sections"
    if "sections" in plan:
        place = first_difference(plan["sections"], request.body, request.messages_key) or ORDER
    now = request.plan
    choices = [
        f"{choice}: expected {plan.get(choice)}, found {now.get(choice)}"
        for choice in sorted({*plan, *now} - {"sections"})
        if plan.get(choice) != now.get(choice)
    ]
    return "; ".join([place, *choices])


class Checked(NamedTuple):
    """A request's position, lane and API, and each place where it breaks a law."""

    position: int
    lane: str
    api: str
    violations: tuple[Violation, ...]


def checked(
    entries: Iterable[Entry],
    *,
    apis: Sequence[str] | None = None,
    all_prefixes: bool = False,
    within: range | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """Yield the requests of every lane at the end of the log, or after each entry. Raises as `build`.

    `apis` are names of APIs; None: every registered one. With `within`, only positions in that range.
    """
    log = list(entries)
    end = log[-1].position if log else 0
    positions = within or range(1 if all_prefixes else end, end + 1)
    names = tuple(FORMATS if apis is None else apis)
    for lane in lanes(log):
        readings = {api: validator_of(api) for api in names}
        window: object = None
        for request in series(log, lane, None, counters, blobs):
            if request.window.position >= positions.stop:
                break
            if request.window.position < positions.start or not takes_part(request.window):
                continue
            if window is not request.window:
                window, readings = request.window, {api: validator_of(api) for api in names}
            for api, reading in readings.items():
                broken = tuple(reading.violations(request.request(api).body))
                yield Checked(request.window.position, lane.address, format_of(api).name, broken)


def invalid_requests(
    entries: Iterable[Entry],
    *,
    apis: Sequence[str] | None = None,
    all_prefixes: bool = False,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """Yield those of `checked` that break a law."""
    found = checked(entries, apis=apis, all_prefixes=all_prefixes, blobs=blobs, counters=counters)
    return (one for one in found if one.violations)
