"""Sessions restored from the log: the lanes, as their last receipts leave them.

A lane's last receipt gives its request as sent, with which the next one is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.queries.requests.lanes import opening_of
from stenolog.apps.tap.exchanges.wire import WireRequest, of_body
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.projections.messages.json_fields import title_of
from stenolog.projections.requests import Request
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.recipe import references
from stenolog.projections.requests.request import sent_under

from .lane import Anchor, Lane, Positions, StoredHistory
from .message_events import mark_of
from .session import META, Session

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
    """Return lanes' keys by agent, and make the lanes."""
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
    """Return an outcome's request as built, and as sent; None if, say, an entry was erased."""
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
