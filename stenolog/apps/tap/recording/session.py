"""A conversation being recorded: its lanes, and the entries of requests and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.importers.conversion.steps import position_ranges
from stenolog.apps.tap.exchanges.answers import answer_of, counted_tokens, without_secrets
from stenolog.apps.tap.exchanges.exchange import Answered, RecordedExchange, decoded
from stenolog.apps.tap.exchanges.identity import SIDE, Identity, asks_for_summary
from stenolog.apps.tap.exchanges.secrets import redacted, secrets_in
from stenolog.apps.tap.exchanges.wire import WireRequest
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import CallerError, VersionConflictError
from stenolog.domain.events import AssistantMessage, Known, LlmError, ModeSwitch, UserMessage
from stenolog.domain.values import Origin, PositionRange, Receipt
from stenolog.projections.messages.json_fields import Blobs, agent_called, as_dict, as_str, title_of

from .agent_notes import NO_NOTE, AgentNote
from .cards import card_of, without_parameters
from .lane import NOTHING_NEW, Alignment, Anchor, Lane, Positions, StoredHistory
from .message_events import as_of_client, mark_of
from .receipts import receipt_for

USER = "user"
"""The address of answers, so that no other agent is shown them."""
META = "tap"
"""The key of what the tap notes in `meta`."""


@dataclass
class Pending:
    """A recorded request without an outcome: its lane, and the receipt for the outcome.

    `secrets` are the kinds of secrets in its new entries, with their positions.
    """

    lane: Lane
    request: WireRequest
    identity: Identity
    receipt: Receipt
    anchor: Anchor
    history: StoredHistory
    cause: int | None
    secrets: list[dict[str, Any]]


@dataclass
class Session:
    """A conversation on its way into the log.

    `lanes` are by the client's ids. `recorded` are the exchanges of an earlier process, `stored` the blobs of
    this one, whose entries `written` counts. `hidden` are the positions that each agent's client removed from
    its history. `words` are a person's first, `title_words` those that a title was requested for. `work` is
    folder and branch.
    """

    conversation: Conversation
    client: str
    id: str
    lanes: dict[str, Lane] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    hidden: dict[str, set[int]] = field(default_factory=dict)
    settings: set[int] = field(default_factory=set)
    title: str = ""
    words: str = ""
    title_words: str = ""
    recorded: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    work: Mapping[str, str] = field(default_factory=dict)
    last_ns: int = 0
    written: int = 0

    def lane(self, key: str, request: WireRequest, note: AgentNote = NO_NOTE) -> Lane:
        """Return a key's lane, new if necessary, named by the note on the agent."""
        if key not in self.lanes:
            self.lanes[key] = Lane(self._agent(key, note.type), request.api)
        return self.lanes[key]

    def call_at(self, id: str) -> int | None:
        """Return the position of a call; None if no lane made it."""
        found = (lane.call_positions[id] for lane in self.lanes.values() if id in lane.call_positions)
        return next(found, None)

    def _key(self, lane: Lane) -> str:
        return next((key for key, each in self.lanes.items() if each is lane), "")

    def _agent(self, key: str, type: str) -> str:
        kind = agent_called(type) if type else self.client
        name = f"{kind}-{key[-12:].replace('/', '-')}" if key else self.client
        taken = {lane.agent for lane in self.lanes.values()}
        return name if name not in taken else f"{name}-{len(taken)}"

    def record_request(
        self,
        exchange: RecordedExchange,
        request: WireRequest,
        lane: Lane,
        identity: Identity,
        why: str,
        cause: int | None,
    ) -> None:
        """Append what is new in a request; make its outcome's receipt."""
        blobs: Blobs = {}
        hashes = request.hashes
        whole = lane.after_warm_up(request)
        is_turn = identity.kind != "warm-up"  # a warm-up's messages are those of the turn after it
        alignment = lane.align(whole, blobs) if is_turn else NOTHING_NEW
        first = self._opening(lane, whole, identity, exchange, why)
        events = [event for plan in alignment.plans for event in plan.events]
        if identity.kind in SIDE and lane is not self.lanes.get(""):
            events = [as_of_client(event) for event in events]
        elif cause is not None and not lane.hashes:
            events = self._briefed(events, cause)
        switches = [*first, *self._edits(lane, alignment)]
        self._put(blobs)
        written = self._append(exchange, [*switches, *events], exchange.time)
        placed = self._placed(alignment, written[len(switches) :])
        self._note(lane, alignment, placed, written)
        self._begin(events)
        view = self.conversation.position
        built = self._built(lane, request, exchange)
        receipt = receipt_for(exchange, request, built, hashes, lane.anchor)
        self._put(receipt.blobs)
        messages = built.body.get(built.messages_key)
        anchor = Anchor(0, receipt.patch, tuple(hashes), len(messages) if isinstance(messages, list) else 0)
        asked = max((p for positions in placed for p in positions if p not in lane.attempts), default=view)
        if is_turn:
            lane.settle(alignment, placed)
        lane.open.add(exchange.id)
        lane.model = request.model or lane.model
        found = [{"kind": kind, "position": entry.position} for entry in written for kind in kinds_in(entry)]
        self.pending[exchange.id] = Pending(
            lane, request, identity, receipt.receipt, anchor, lane.history, asked or None, found
        )

    def _briefed(self, events: list[Known], cause: int) -> list[Known]:
        briefs = (n for n, e in enumerate(events) if isinstance(e, UserMessage) and e.author_kind == "person")
        if (at := next(briefs, None)) is not None:
            brief = events[at]
            assert isinstance(brief, UserMessage)
            events[at] = replace(brief, cause=cause, author_kind="agent")
        return events

    def _built(self, lane: Lane, request: WireRequest, exchange: RecordedExchange) -> Any:
        try:
            return self.conversation.request(lane.agent, api=request.api)
        except CallerError:
            # A parameter that no request can be built with: it stays in the receipt's patch.
            assert lane.card is not None
            lane.card = without_parameters(lane.card)
            switch = ModeSwitch(cards={lane.agent: lane.card})
            self._append(exchange, [switch], exchange.time, "plain")
            return self.conversation.request(lane.agent, api=request.api)

    def _opening(
        self, lane: Lane, request: WireRequest, identity: Identity, exchange: RecordedExchange, why: str
    ) -> list[Known]:
        """Return changed settings: members, and the card with prompt and tools."""
        card = card_of(request, lane.card, lane.stored_tools(request))
        if card == lane.card:
            return []
        is_new, lane.card = lane.card is None, card
        fields: dict[str, Any] = {"cards": {lane.agent: card}}
        about = {"client": identity.client, "program": exchange.headers.get("user-agent", "")[:200]}
        if is_new:
            fields["joins"] = (lane.agent,)
            about |= {"session": identity.session, "agent": identity.agent, "rule": why}
            about["key"] = self._key(lane)
            kind = "" if identity.kind == "warm-up" else identity.kind
            about |= {"kind": kind, "run": exchange.run, "api": lane.api}
        fields["meta"] = {META: {name: value for name, value in about.items() if value}}
        if not self.conversation.position:
            about |= self.work
            fields["meta"] = {META: {name: value for name, value in about.items() if value}}
            fields |= {"mode": "chat", "scope": "addressed", "source": Origin(system=META, id=self.id)}
        return [ModeSwitch(**fields)]

    def _edits(self, lane: Lane, alignment: Alignment) -> list[Known]:
        """Return the change of context, if the client's history lacks something."""
        if not (alignment.gone or alignment.back):
            return []
        own = self.hidden.setdefault(lane.agent, set())
        own |= alignment.gone
        own -= alignment.back
        everything = set[int]().union(*self.hidden.values())
        ranges: tuple[PositionRange, ...] = tuple(position_ranges(everything, self.settings))
        note: dict[str, Any] = {
            "from": alignment.same,
            "messages": len(alignment.hashes),
            "gone": len(alignment.gone),
        }
        # By agent, since `hides` is of all: a later process goes on from here.
        hidden: dict[str, Any] = {agent: sorted(positions) for agent, positions in self.hidden.items()}
        return [ModeSwitch(hides=ranges, meta={META: {"rewrite": note, "hidden": hidden}})]

    def _placed(self, alignment: Alignment, written: Sequence[Entry]) -> list[Positions]:
        rest, placed = iter(written), list[Positions]()
        for plan in alignment.plans:
            new = tuple(next(rest).position for _ in plan.events)
            placed.append(plan.positions + new)
        return placed

    def _note(
        self,
        lane: Lane,
        alignment: Alignment,
        placed: Sequence[Positions],
        written: Iterable[Entry],
    ) -> None:
        for entry in written:
            if isinstance(entry.event, AssistantMessage):
                lane.note_answer(entry.event, entry.id, entry.position)
            elif isinstance(entry.event, UserMessage):
                lane.note_words(entry.event, entry.position)
            elif isinstance(entry.event, ModeSwitch):
                self.settings.add(entry.position)
        for index in range(alignment.same, len(placed)):
            lane.note_results(alignment.plans[index].events, placed[index])

    def _begin(self, events: Iterable[Known]) -> None:
        if not self.words:
            spoken = (e for e in events if isinstance(e, UserMessage) and e.author_kind == "person")
            self.words = next((title_of(event.text) for event in spoken), "")

    def _entitle(self, exchange: RecordedExchange, event: AssistantMessage) -> None:
        title = title_in(event.text)
        if title and title != self.title:
            self.title = title
            self._append(exchange, [ModeSwitch(title=title)], self._ended(exchange), "title")

    def record_answer(self, exchange: RecordedExchange) -> Entry | None:
        """Append a pending request's outcome, or return None."""
        pending = self.pending.get(exchange.id)
        if pending is None:
            return None
        lane, request = pending.lane, pending.request
        lane.open.discard(exchange.id)
        answered = exchange.answered or answer_of(request.api, exchange)
        if exchange.redacts:
            answered = without_secrets(answered)
        event = self._outcome(exchange, pending, answered)
        (entry,) = self._append(exchange, [event], self._ended(exchange), "answer")
        del self.pending[exchange.id]  # not before: the store may not have taken it, and it is tried again
        lane.anchor = pending.anchor._replace(position=entry.position)
        if pending.identity.kind == "warm-up":
            lane.warm_up = answered.id, request.messages
        if isinstance(event, AssistantMessage) and event.purpose != "routing":
            self._answered(lane, event, entry, asks_for_summary(request))
            if answered.id:
                lane.note_response(answered.id, pending.history, entry.position)
            if pending.identity.kind == "title":
                self._entitle(exchange, event)
        elif isinstance(event, LlmError):
            lane.failed += 1
        return entry

    def _answered(self, lane: Lane, event: AssistantMessage, entry: Entry, asks_for_summary: bool) -> None:
        lane.note_answer(event, entry.id, entry.position)
        lane.attempts.append(entry.position)
        lane.answer, lane.failed = mark_of(event.parts), 0
        if event.purpose == "summary" or asks_for_summary:
            lane.summary = (entry.position, mark_of(event.parts).words)
            lane.is_summary = event.purpose == "summary"

    def _outcome(self, exchange: RecordedExchange, pending: Pending, answered: Answered) -> Known:
        lane, request = pending.lane, pending.request
        meta: dict[str, Any] = {META: self._about(exchange, pending, answered)}
        first_token_ms, duration_ms = self._times(exchange)
        if request.kind == "count-tokens":
            return self._count(exchange, pending, meta, answered)
        if pending.identity.kind == "warm-up" and answered.id and not exchange.reason:
            # Codex opens its connection so: an answer with nothing in it is what it asks for.
            quiet = self._count(exchange, pending, meta, answered)
            return replace(quiet, parts=answered.parts, usage=answered.usage)
        if answered.failure is not None:
            return LlmError(
                agent=lane.agent,
                category=answered.failure.category,  # type: ignore[arg-type]
                message=answered.failure.message,
                parts=answered.parts,
                cause=pending.cause,
                model=answered.model or request.model,
                attempt=lane.failed + 1,
                usage=answered.usage,
                duration_ms=duration_ms,
                receipt=pending.receipt,
                in_context=False,  # the client decides what its model reads of it
                meta=meta,
            )
        summary = self._covers(lane, pending)
        return AssistantMessage(
            agent=lane.agent,
            parts=answered.parts,
            cause=pending.cause,
            to=(USER,),
            model=answered.model or request.model,
            finish_reason=answered.finish_reason,
            usage=answered.usage,
            receipt=pending.receipt,
            purpose="summary" if summary else "answer",
            covers=summary,
            meta=meta,
            first_token_ms=first_token_ms,
            duration_ms=duration_ms,
        )

    def _covers(self, lane: Lane, pending: Pending) -> tuple[PositionRange, ...]:
        """Return what a summary replaces; nothing for another answer."""
        if pending.identity.kind != "compaction" or len(lane.hashes) < 3:
            return ()
        return tuple(position_ranges(lane.visible, self.settings))

    def _count(
        self, exchange: RecordedExchange, pending: Pending, meta: dict[str, Any], answered: Answered
    ) -> AssistantMessage:
        """Return a token count's answer, which no agent is shown."""
        content = decoded(bytes(exchange.answer), exchange.answer_headers.get("content-encoding", ""))
        number = counted_tokens(pending.request.api, content)
        text = content.decode("utf-8", "replace") if number is None else f"{number} tokens"
        if exchange.redacts:
            text = redacted(text)[0]
        return AssistantMessage(
            agent=pending.lane.agent,
            text=text or f"status {exchange.status}",
            purpose="routing",
            in_context=False,
            tags=(pending.request.kind,),
            model=pending.request.model,
            receipt=pending.receipt,
            meta=meta,
        )

    def _about(self, exchange: RecordedExchange, pending: Pending, answered: Answered) -> dict[str, Any]:
        about: dict[str, Any] = {"exchange": exchange.id, "id": answered.id, "kind": pending.identity.kind}
        about["secrets"] = pending.secrets
        about["unread"] = answered.unread
        if exchange.unproven:
            about["unproven"] = True
        if exchange.redacted:
            about["redacted"] = list(exchange.redacted)
        return {name: value for name, value in about.items() if value}

    def _times(self, exchange: RecordedExchange) -> tuple[int | None, int | None]:
        """Return the milliseconds to the answer's first byte and end, if known."""
        begun = exchange.begun_ns
        first, last = ((at - begun) // 1_000_000 for at in (exchange.first_ns, exchange.ended_ns))
        return first if begun and first >= 0 else None, last if begun and last >= 0 else None

    def _ended(self, exchange: RecordedExchange) -> datetime:
        if exchange.ended_ns > exchange.begun_ns > 0:
            return exchange.time + timedelta(microseconds=(exchange.ended_ns - exchange.begun_ns) // 1_000)
        return exchange.time

    def _append(
        self, exchange: RecordedExchange, events: Iterable[Known], time: datetime, what: str = "request"
    ) -> list[Entry]:
        """Append events under ids of the exchange, so that a repetition after a crash finds them."""
        new = [NewEntry(event, f"{exchange.id}-{what}-{n}", time) for n, event in enumerate(events)]
        while new:
            try:
                at = self.conversation.position
                entries = self.conversation.extend(new, expected=at)
                self.written += max(entries[-1].position - at, 0)
                return entries
            except VersionConflictError:  # somebody else appended; what the tap records stays as it was
                continue
        return []

    def _put(self, blobs: Blobs) -> None:
        for sha, content in blobs.items():
            # An entry names those that were put before, so they stay.
            if sha not in self.stored:
                self.conversation.log.blobs.put(content)
                self.stored.add(sha)


def kinds_in(entry: Entry) -> list[str]:
    """Return the kinds of secrets in an entry."""
    event = entry.event
    texts = [getattr(part, name, "") for part in getattr(event, "parts", ()) for name in ("text", "raw")]
    if isinstance(event, ModeSwitch):
        texts = [card.persona for card in event.cards.values() if card is not None]
    return [*dict.fromkeys(found.kind for text in texts for found in secrets_in(text))]


def title_in(answer: str) -> str:
    """Return an answer's title: all of it, or `title` if it is JSON."""
    try:
        given = as_str(as_dict(json.loads(answer)).get("title"))
    except (ValueError, RecursionError):
        given = answer
    return title_of(given.strip().strip('"'))
