"""Exchanges written into a log: a request when it is complete, its outcome when it ends."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.lanes import opening_of
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.identity import Identity, identity_of
from stenolog.apps.tap.exchanges.secrets import redacted
from stenolog.apps.tap.exchanges.wire import WireRequest, api_of, of_body, wire_request
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import OperationalError, StenologError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.projections.messages.json_fields import title_of
from stenolog.projections.requests import Request
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.recipe import references
from stenolog.projections.requests.request import sent_under

from .agent_notes import NO_NOTE, Notes, agent_note
from .lane import Anchor, Lane, Positions, StoredHistory
from .message_events import mark_of
from .placing import LanePlace, Placing
from .session import META, Session

RECENT = timedelta(days=7)
"""Conversations that were active since are taken up again."""
UNREDACTED = ("unreadable", "too-large")
"""Words in place of the kinds of secrets: the relay has recorded nothing of such a body."""
GAPS = "tap-gaps"
"""The conversation in which the tap says what it could not record."""


class Transcriber:
    """Writer of exchanges into a log. `others` counts those that asked no model, by method and path.

    `notes` reads a client's notes on a sub-agent. `work` is folder and branch of new conversations. `named`
    returns the conversation of a new session's name. `lost` is called with an exchange that could not be
    understood; by default, its bytes are kept.
    """

    def __init__(
        self,
        log: Log,
        notes: Notes = agent_note,
        work: Mapping[str, str] = MappingProxyType({}),
        named: Callable[[str], Conversation] | None = None,
        lost: Callable[[RecordedExchange, Exception], object] | None = None,
    ) -> None:
        self.log, self._work = log, work
        self._named, self._lost = named or log.__getitem__, lost or self._unrecorded
        self._notes = notes
        self._causes: dict[str, int] = {}
        self.placing = Placing(self._begin, work.get("cwd", ""))
        self.others: dict[str, int] = {}
        self.recorded: set[str] = set()
        self.places: dict[str, LanePlace] = {}
        self._recalled = False

    def request(self, exchange: RecordedExchange) -> bool:
        """Record a complete request; return whether it asks a model."""
        if exchange.blobs:
            self._too_large(exchange)
            return False
        request = wire_request(exchange)
        asked = (exchange.method, exchange.path, exchange.upstream)
        if request is None and not exchange.content and api_of(*asked)[0]:
            self._unredacted(exchange)
        if request is None:
            name = f"{exchange.method} {exchange.path.partition('?')[0]}"
            self.others[name] = self.others.get(name, 0) + 1
            return False
        try:
            identity = identity_of(exchange, request)
            if not identity.session:
                self._recall(exchange)
            if exchange.id in self.recorded:
                return False
            place = self.placing.find(exchange, request, identity)
            if exchange.id in self.recorded:
                return False
            lane = self._lane(place, request, identity)
            cause = place.cause if place.cause is not None else self._causes.get(lane.agent)
            card = lane.card
            try:
                place.session.record_request(exchange, request, lane, identity, place.rule, cause)
            except OperationalError:
                lane.card = card  # so that the next try appends the same
                raise
        except OperationalError:
            raise  # the disk is full, say: it is tried again
        except Exception as error:
            self._lost(exchange, error)
            return False
        place.session.last_ns = lane.last_ns = exchange.begun_ns
        self.places[exchange.id] = place
        self.placing.note(place.session, place.key)
        return True

    def _lane(self, place: LanePlace, request: WireRequest, identity: Identity) -> Lane:
        """Return a place's lane; a sub-agent's is named by its client's note."""
        session = place.session
        is_new = place.key not in session.lanes and bool(identity.agent)
        note = self._notes(identity) if is_new else NO_NOTE
        lane = session.lane(place.key, request, note)
        if note.call and (position := session.call_at(note.call)) is not None:
            self._causes[lane.agent] = position
        return lane

    def answer(self, exchange: RecordedExchange) -> None:
        """Record the outcome of a recorded request."""
        place = self.places.pop(exchange.id, None)
        if place is None:
            return
        try:
            entry = place.session.record_answer(exchange)
        except OperationalError:
            self.places[exchange.id] = place
            raise
        except Exception as error:
            self._lost(exchange, error)
            return
        place.session.lanes[place.key].last_ns = exchange.ended_ns or exchange.begun_ns
        if entry is not None and isinstance(entry.event, AssistantMessage):
            about: Any = entry.event.meta.get(META, {})
            self.placing.note(place.session, place.key, str(about.get("id", "")))

    def gap(self, reason: str, exchanges: int, id: str) -> None:
        """Record that some exchanges were not recorded."""
        words = f"The tap could not record {exchanges} exchanges: {reason}"
        self._note(words, {"gap": reason, "exchanges": exchanges}, f"gap-{id}")

    def _recall(self, exchange: RecordedExchange) -> None:
        """Restore earlier processes' sessions once: without ids, one may continue here."""
        if self._recalled:
            return
        self._recalled = True
        for session in sessions_in(self.log, exchange.time - RECENT):
            self.recorded |= session.recorded
            if session.conversation.name not in self.placing.sessions:
                self.placing.adopt(session.conversation.name, session)

    def _too_large(self, exchange: RecordedExchange) -> None:
        """Keep a request, as it came, that no provider would take."""
        place = f"{exchange.method} {exchange.path.partition('?')[0]}"
        words = f"The tap has kept {place} as it was: it is too large to be taken apart"
        about = {"exchange": exchange.id, "sha256": exchange.sha256, "request": list(exchange.blobs)}
        self._note(words, about, f"{exchange.id}-large")

    def _unredacted(self, exchange: RecordedExchange) -> None:
        kinds = [kind for kind in exchange.redacted if kind in UNREDACTED]
        if kinds:
            place = f"{exchange.method} {exchange.path.partition('?')[0]}"
            words = f"The tap has kept nothing of {place}: it could not be redacted ({kinds[0]})"
            about = {"exchange": exchange.id, "sha256": exchange.sha256, "redacted": kinds}
            self._note(words, about, f"{exchange.id}-unredacted")

    def _unrecorded(self, exchange: RecordedExchange, error: Exception) -> None:
        """Keep the bytes of an exchange that could not be understood.

        Not of an answer to be redacted: it may be compressed, and a secret in pieces.
        """
        kept: dict[str, str] = {}
        answer = b"" if exchange.redacts else bytes(exchange.answer)
        for name, content in (("request", exchange.content), ("answer", answer)):
            packed = zlib.compress(content, 6)
            kept[name] = sha256(packed).hexdigest()
            self.log.blobs.put(packed)
        place = f"{exchange.method} {exchange.path.partition('?')[0]}"
        words = f"The tap could not record {place}: {type(error).__name__}: {error}"
        if exchange.redacts:
            words = redacted(words)[0]
        about = {"exchange": exchange.id, "error": type(error).__name__, "status": exchange.status, **kept}
        self._note(words[:2_000], about, f"{exchange.id}-unrecorded")

    def _note(self, words: str, about: dict[str, Any], id: str) -> None:
        conversation = self.log[GAPS]
        if not conversation.position:
            conversation.append(ModeSwitch(mode="chat", title="What the tap could not record"))
        event = UserMessage(words, author_kind="system", in_context=False, meta={META: about})
        conversation.extend([NewEntry(event, id)])

    def _begin(self, name: str, client: str, exchange: RecordedExchange) -> Session:
        conversation = self._named(name)
        session = Session(conversation, client, name, work=self._work)
        if conversation.position:
            session.recorded = restored(session)
            self.recorded |= session.recorded
        return session


RECALLED = 64
"""So many of the latest conversations are taken up again for requests without an id of a session."""
Outcome = AssistantMessage | LlmError


def restored(session: Session) -> set[str]:
    """Restore a session's lanes from its conversation; return its exchanges."""
    entries = [*session.conversation.entries()]
    patches, recorded = Patches.of(entries), set[str]()
    keys = _keys(session, entries)
    last: dict[str, tuple[Entry, Outcome]] = {}
    answered: dict[str, tuple[Entry, Outcome]] = {}
    warm_ups: dict[str, Outcome] = {}
    shown: dict[str, list[int]] = {agent: [] for agent in keys}
    for entry in entries:
        match entry.event:
            case ModeSwitch() as switch:
                _take_switch(session, entry, switch, keys)
            case AssistantMessage() | LlmError() as outcome if outcome.agent in keys:
                recorded |= set(filter(None, [str(_about(outcome).get("exchange", ""))]))
                if _about(outcome).get("kind") == "warm-up":
                    warm_ups[outcome.agent] = outcome
                    continue
                warm_ups.pop(outcome.agent, None)
                _take_outcome(session.lanes[keys[outcome.agent]], entry, outcome, shown[outcome.agent])
                if outcome.receipt is not None:
                    last[outcome.agent] = entry, outcome
                    if isinstance(outcome, AssistantMessage):
                        answered[outcome.agent] = entry, outcome
            case ToolResult() as result:
                for lane in session.lanes.values():
                    if result.call_id in lane.calls:
                        lane.note_results([result], (entry.position,))
                        shown[lane.agent].append(entry.position)
            case UserMessage() as message:
                _take_words(session, message, entry.position, shown)
            case _:
                pass
    for agent, (entry, outcome) in last.items():
        if agent in answered and entry is not answered[agent][0]:
            # A request that failed may be sent again, and goes on from the last answer.
            _restore(session, session.lanes[keys[agent]], *answered[agent], patches, shown[agent])
        _restore(session, session.lanes[keys[agent]], entry, outcome, patches, shown[agent])
    for agent, outcome in warm_ups.items():
        lane = session.lanes[keys[agent]]
        if sent := _sent(session, lane, outcome, patches):
            lane.warm_up = _id_of(outcome), sent[1].messages
    session.title = session.conversation.settings().title or ""
    return recorded


def sessions_in(log: Log, since: datetime) -> Iterator[Session]:
    """Yield restored sessions recorded since a time, the latest first."""
    for name in log.names(active_since=since, order="latest", limit=RECALLED):
        conversation = log[name]
        opening = opening_of(conversation)
        if isinstance(opening, ModeSwitch) and opening.source is not None and opening.source.system == META:
            about = _about(opening)
            session = Session(conversation, str(about.get("client", "")), opening.source.id)
            session.work = {key: str(about[key]) for key in ("cwd", "branch") if key in about}
            session.recorded = restored(session)
            yield session


def _about(event: Any) -> Mapping[str, Any]:
    about = event.meta.get(META)
    return about if isinstance(about, Mapping) else {}


def _keys(session: Session, entries: Iterable[Entry]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, ModeSwitch) and event.joins and META in event.meta:
            agent, key = event.joins[0], str(_about(event).get("key", ""))
            keys[agent] = key
            session.lanes[key] = Lane(agent, str(_about(event).get("api", "")))
    return keys


def _take_switch(session: Session, entry: Entry, switch: ModeSwitch, keys: Mapping[str, str]) -> None:
    session.settings.add(entry.position)
    for agent, card in switch.cards.items():
        if agent in keys:
            session.lanes[keys[agent]].card = card
    hidden = _about(switch).get("hidden")
    if isinstance(hidden, Mapping):
        for agent, positions in hidden.items():
            session.hidden[str(agent)] = set(positions)
            if agent in keys:
                session.lanes[keys[agent]].hidden = set(positions)


def _take_words(
    session: Session, message: UserMessage, position: int, shown: Mapping[str, list[int]]
) -> None:
    if message.author_kind == "person" and not session.words:
        session.words = title_of(message.text)
    for lane in session.lanes.values():
        if lane.agent in message.to:
            lane.note_words(message, position)
            shown[lane.agent].append(position)


def _id_of(outcome: Outcome) -> str:
    return str(_about(outcome).get("id", ""))


def _take_outcome(lane: Lane, entry: Entry, outcome: Outcome, shown: list[int]) -> None:
    """Take in a request's outcome, with the history that the provider stored under its id."""
    if isinstance(outcome, LlmError):
        lane.failed += 1
        return
    if outcome.purpose == "routing":  # a number of tokens is in nobody's history
        return
    if stored := _id_of(outcome):
        visible = tuple(position for position in shown if position not in lane.hidden)
        lane.note_response(stored, StoredHistory((stored,), (visible,)), entry.position)
    shown.append(entry.position)
    lane.note_answer(outcome, entry.id, entry.position)
    lane.answer, lane.failed = mark_of(outcome.parts), 0
    if outcome.purpose == "summary":
        lane.summary, lane.is_summary = (entry.position, mark_of(outcome.parts).words), True


def _restore(
    session: Session, lane: Lane, entry: Entry, outcome: Outcome, patches: Patches, shown: Sequence[int]
) -> None:
    """Restore a lane's last request: messages and entries.

    `shown` are all positions that the lane was shown; before a stored response they are one message.
    """
    receipt, found = outcome.receipt, _sent(session, lane, outcome, patches)
    if receipt is None or found is None:
        return  # the next request begins anew
    built, wire = found
    patch = patches.resolve(receipt)
    messages = built.body.get(built.messages_key)
    lane.api, lane.model = wire.api, outcome.model
    lane.hashes = [*wire.likenesses]
    lane.positions = [*_positions(built, patch.messages, wire.key, len(lane.hashes))]
    lane.anchor = Anchor(
        entry.position, patch, tuple(wire.hashes), len(messages) if isinstance(messages, list) else 0
    )
    lane.remember()
    is_answer = isinstance(outcome, AssistantMessage) and outcome.purpose != "routing"
    lane.attempts = [entry.position] if is_answer else []
    if wire.previous:
        own = {position for each in lane.positions for position in each} | lane.hidden
        before = tuple(p for p in shown if p <= receipt.view and p not in own)
        lane.hashes, lane.positions = [wire.previous, *lane.hashes], [before, *lane.positions]
    lane.last_ns = session.last_ns = int(entry.time.timestamp() * 1e9)


def _sent(
    session: Session, lane: Lane, outcome: Outcome, patches: Patches
) -> tuple[Request, WireRequest] | None:
    receipt = outcome.receipt
    if receipt is None:
        return None
    log, api = session.conversation.log, receipt.api.partition("@")[0]
    try:
        built = session.conversation.request(lane.agent, at=receipt.view, api=api, policy=sent_under(receipt))
        return built, of_body(api, as_sent(built, receipt, patches, log.blobs).body)
    except StenologError:
        return None


def _positions(built: Request, recipes: Iterable[Any], key: str, number: int) -> Iterator[Positions]:
    """Yield each message's entries: those of the parts that its recipe refers to."""
    by_message: dict[int, list[int]] = {}
    for part in built.parts:
        by_message.setdefault(part.message, []).extend(part.positions)
    under, found = f"/{key}/", list[Positions]()
    for recipe in recipes:
        pointers = (
            pointer.removeprefix(under) for pointer in references(recipe) if pointer.startswith(under)
        )
        indexes = dict.fromkeys(int(pointer.partition("/")[0]) for pointer in pointers)
        found.append(tuple(dict.fromkeys(p for index in indexes for p in by_message.get(index, ()))))
    yield from found[:number]
    yield from [()] * (number - len(found))
