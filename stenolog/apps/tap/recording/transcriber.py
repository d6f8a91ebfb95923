"""Exchanges written into a log: a request when it is complete, its outcome when it ends."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from stenolog.adapters.conversation.log import Log
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.identity import Identity, identity_of
from stenolog.apps.tap.exchanges.secrets import redacted
from stenolog.apps.tap.exchanges.wire import WireRequest, api_of, wire_request
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import OperationalError
from stenolog.domain.events import AssistantMessage, ModeSwitch, UserMessage

from .agent_notes import NO_NOTE, Notes, agent_note
from .lane import Lane
from .placing import LanePlace, Placing
from .restoring import restored, sessions_in
from .session import META, Session

RECENT = timedelta(days=7)
"""Conversations that were active since are taken up again."""
UNREDACTED = ("unreadable", "too-large")
"""Words in place of the kinds of secrets: the relay has recorded nothing of such a body."""
GAPS = "tap-gaps"
"""The conversation in which the tap says what it could not record."""


class Transcriber:
    """Writer of exchanges into a log. `others` counts those that asked no model, by method and path.

    `notes` reads a client's notes on a sub-agent. `work` is folder and branch of new conversations.
    """

    def __init__(
        self, log: Log, notes: Notes = agent_note, work: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.log, self._work = log, work
        self._notes = notes
        self._causes: dict[str, int] = {}
        self.placing = Placing(self._begin, work.get("cwd", ""))
        self.others: dict[str, int] = {}
        self.recorded: set[str] = set()
        self._places: dict[str, LanePlace] = {}
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
            place = self.placing.find(exchange, request, identity)
            if exchange.id in place.session.recorded or exchange.id in self.recorded:
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
            self._unrecorded(exchange, error)
            return False
        place.session.last_ns = lane.last_ns = exchange.begun_ns
        self._places[exchange.id] = place
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
        place = self._places.pop(exchange.id, None)
        if place is None:
            return
        try:
            entry = place.session.record_answer(exchange)
        except OperationalError:
            self._places[exchange.id] = place
            raise
        except Exception as error:
            self._unrecorded(exchange, error)
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
        """Note a request that could not be redacted: nothing of it is kept."""
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
        """Return a session, restored if recorded before."""
        conversation = self.log[name]
        session = Session(conversation, client, name, work=self._work)
        if conversation.position:
            session.recorded = restored(session)
        return session
