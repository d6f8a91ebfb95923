"""A corpus on its way through a tap, and its comparison with what the log has of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from stenolog import Log
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.values import Receipt
from stenolog.projections.requests.proofs import Proof
from tests.tap.plays import Play, Stage, perform
from tests.tap.prefix_cache import canonical
from tests.tap.raw_client import Label, Observer, Sent

SESSIONS_AT_ONCE = 12
SIDE = frozenset({"title", "count-tokens", "warm-up"})
"""Kinds of requests whose lane is not judged."""
PARTS = ("tools", "system", "messages", "input", "contents", "instructions", "systemInstruction")


async def performed(
    plays: Iterable[Play], urls: Mapping[str, str], observer: Observer | None = None
) -> list[Sent]:
    """Perform sessions, some at once; return what their clients sent and got, in the order of the ends."""
    log: list[Sent] = []
    free = asyncio.Semaphore(SESSIONS_AT_ONCE)

    async def one(play: Play) -> None:
        async with free:
            await perform(Stage(play, urls[play.profile.upstream], log=log, observer=observer))

    async with asyncio.TaskGroup() as group:
        for play in plays:
            group.create_task(one(play))
    return log


class Recorded(NamedTuple):
    """A request as the log has it: where it is, what the receipt says, and what the proof found."""

    conversation: str
    lane: str
    position: int
    sent_sha256: str
    answer_id: str
    kind: str
    is_raw: bool
    proof: Proof


def recorded(log: Log) -> list[Recorded]:
    """Build every request of a log again, and return them all."""
    built: list[Recorded] = []
    for proved in prove(log, jobs=None):
        found = {proof.position: proof for proof in proved.proofs}
        for entry in log[proved.conversation]:
            event = entry.event
            if isinstance(event, AssistantMessage | LlmError) and isinstance(event.receipt, Receipt):
                about: Any = event.meta.get("tap", {})
                style = (event.receipt.transport or {}).get("style")
                ids = event.receipt.sent or "", str(about.get("id", "")), str(about.get("kind", ""))
                where_it_is = proved.conversation, event.agent, entry.position
                built.append(Recorded(*where_it_is, *ids, style == "raw", found[entry.position]))
    return built


@dataclass
class Verdict:
    """What a comparison found: `wrong` says which requests, `by` has the counts by feature.

    `grades` are those of the requests by the client that sent them.
    """

    requests: int = 0
    missing: int = 0
    differs: int = 0
    raw: int = 0
    merged: int = 0
    split: int = 0
    lanes: int = 0
    kinds: int = 0
    sessions: int = 0
    wrong: list[str] = field(default_factory=list)
    by: Counter[str] = field(default_factory=Counter)
    grades: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def derived(self, *clients: str) -> float:
        """Return the part of the requests of clients in which all that the model was given is explained."""
        grades = sum((self.grades[client] for client in clients), Counter[str]())
        return grades["derived"] / max(grades.total(), 1)


def judged(sent: Sequence[Sent], found: Sequence[Recorded]) -> Verdict:
    """Compare what clients sent, by their labels, with what was recorded.

    A conversation that has requests of several sessions is a merge: all but those of its largest session are
    wrong. A session in several conversations is split: all but those in its main one are wrong.
    """
    verdict = Verdict(requests=len(sent))
    pairs = _paired(sent, found, verdict)
    owners: dict[str, Counter[str]] = defaultdict(Counter)
    homes: dict[str, Counter[str]] = defaultdict(Counter)
    lanes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one, record in pairs:
        owners[record.conversation][one.label.session] += 1
        homes[one.label.session][record.conversation] += 1
        if one.label.kind not in SIDE:
            lanes[one.label.session, one.label.lane][record.lane] += 1
    verdict.sessions = len(homes)
    for one, record in pairs:
        label = one.label
        verdict.differs += record.proof.outcome != "same"
        verdict.raw += record.is_raw
        verdict.grades[one.client][record.proof.grade or ""] += 1
        owner, home = _first(owners[record.conversation]), _first(homes[label.session])
        where = f"{one.client} {label.session} {label.lane} {label.kind} in {record.conversation}"
        if record.proof.outcome != "same":
            verdict.wrong.append(f"{record.proof.outcome}: {where}: {record.proof.reason}")
        if owner != label.session:
            _count(verdict, "merged", label, f"{where}, which is {owner}'s")
        elif home != record.conversation:
            _count(verdict, "split", label, f"{where}, and not in {home}")
        elif label.kind not in SIDE and record.lane != _first(lanes[label.session, label.lane]):
            _count(verdict, "lanes", label, f"{where}, lane {record.lane}")
        if record.kind != label.kind:
            _count(verdict, "kinds", label, f"{where}: found {record.kind or 'a turn'}")
    return verdict


def _count(verdict: Verdict, what: str, label: Label, why: str) -> None:
    setattr(verdict, what, getattr(verdict, what) + 1)
    verdict.by[f"{what} {label.feature}{' with ids' if label.has_ids else ''}"] += 1
    verdict.wrong.append(f"{what}: {why}")


def _first(counts: Counter[str]) -> str:
    """Return the most frequent one, the smallest of several."""
    return min(counts, key=lambda name: (-counts[name], name))


def _paired(sent: Sequence[Sent], found: Sequence[Recorded], verdict: Verdict) -> list[tuple[Sent, Recorded]]:
    """Pair requests by the sha256 of the body, and those with the same body by the answer's id."""
    waiting: dict[str, list[Recorded]] = defaultdict(list)
    for record in found:
        waiting[record.sent_sha256].append(record)
    pairs, unpaired = [], []
    for one in sent:
        same = waiting.get(one.body_sha256, [])
        match = next(
            (record for record in same if record.answer_id and record.answer_id == one.answer_id), None
        )
        if match is None:
            unpaired.append(one)
        else:
            same.remove(match)
            pairs.append((one, match))
    for one in unpaired:
        if same := waiting.get(one.body_sha256, []):
            pairs.append((one, same.pop(0)))
        else:
            verdict.missing += 1
            verdict.wrong.append(f"missing: {one.client} {one.label.session} {one.label.kind} {one.status}")
    return pairs


def altered(sent: Iterable[Sent], exchanges: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the exchanges whose bytes are not the same at both ends.

    Of an answer that its client did not read to the end, or that was cut, the request alone is compared.
    """
    came: Counter[str] = Counter()
    ends: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for exchange in exchanges:
        came[exchange["body_sha256"]] += 1
        key = (exchange["body_sha256"], exchange["answer_sha256"], _lines(exchange["headers"]))
        ends[key].append(exchange["chunks_sha256"])
    found = []
    for one in sent:
        came[one.content_sha256] -= 1
        if came[one.content_sha256] < 0:
            found.append(f"request of {one.label.session}: no such body came")
        elif one.complete:
            chunks = ends[one.content_sha256, one.answer_sha256, _lines(one.headers)]
            if one.sees_chunks and one.chunks_sha256 in chunks:
                chunks.remove(one.chunks_sha256)
            elif not one.sees_chunks and chunks:
                chunks.pop()
            else:
                what = "chunks" if chunks else "bytes or headers"
                found.append(f"{one.client} {one.label.session}, status {one.status}: other {what}")
    return found + [f"{number} requests that nobody sent" for number in came.values() if number > 0]


def _lines(headers: Iterable[Sequence[str]]) -> str:
    """Return header lines in their order and case, without `Host` and what the tap answers itself."""
    return "\n".join(f"{name}: {value}" for name, value in headers if name.lower() not in ("host", "expect"))


class Unique:
    """The bytes of the different parts of bodies: tools, blocks of the system, blocks of messages."""

    def __init__(self) -> None:
        self.bytes = self.raw = 0
        self._met: set[bytes] = set()
        self._lock = Lock()

    def observe(self, exchange: RecordedExchange, has_ended: bool) -> None:
        """Count the parts of a request that no earlier one had."""
        if has_ended:
            return
        self.raw += len(exchange.body)
        for part in _parts(json.loads(exchange.body)):
            content = canonical(part)
            digest = sha256(content).digest()
            with self._lock:
                if digest not in self._met:
                    self._met.add(digest)
                    self.bytes += len(content)


def _parts(body: Mapping[str, Any]) -> Iterable[Any]:
    for name in PARTS:
        supplied = body.get(name)
        for one in supplied if isinstance(supplied, list) else [supplied]:
            inner = one.get("content", one.get("parts")) if isinstance(one, dict) else None
            for part in inner if isinstance(inner, list) else [one]:
                if isinstance(part, dict):
                    yield {key: value for key, value in part.items() if key != "cache_control"}
                elif part is not None:
                    yield part
