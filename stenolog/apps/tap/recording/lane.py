"""One agent's requests in sequence: which of their messages the log has, and which are new.

A client sends its whole history each time. Messages are compared with the last request's by hash: what is
missing there is new, what is missing here is out of context from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stenolog.adapters.store.contract.values import LAST
from stenolog.apps.tap.exchanges.wire import WireRequest, short_hash
from stenolog.domain.card import AgentCard
from stenolog.domain.codec import dump_event
from stenolog.domain.events import AssistantMessage, Known, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, ReasoningPart, ToolCall
from stenolog.domain.values import CallRef
from stenolog.projections.formats import reader_of
from stenolog.projections.messages.json_fields import Blobs, as_str, same_from_start
from stenolog.projections.requests.as_sent import Patch

from . import message_events

Positions = tuple[int, ...]
SHORTEST_SUMMARY = 80
"""Characters of a summary, without blanks, by which it is found again in a message."""


class MessagePlan(NamedTuple):
    """A message of a request: its entries, or the events that it becomes, with their blobs."""

    positions: Positions
    events: tuple[Known, ...] = ()


class Alignment(NamedTuple):
    """A request's messages compared with the lane: a plan for each.

    `same` is the number of unchanged leading messages. `gone` and `back` are the positions that the history
    lost and has again.
    """

    plans: list[MessagePlan]
    hashes: list[str]
    same: int
    gone: frozenset[int] = frozenset()
    back: frozenset[int] = frozenset()


class Anchor(NamedTuple):
    """The last entry of a lane with a receipt: position, patch, and hashes of its messages.

    `built` is the number of messages built from the log.
    """

    position: int = 0
    patch: Patch = Patch()
    hashes: tuple[str, ...] = ()
    built: int = 0


class StoredHistory(NamedTuple):
    """History that a provider stores with a response: messages' likenesses and positions."""

    hashes: Sequence[str]
    positions: Sequence[Positions]


NO_ANCHOR, NO_ANSWER, NOTHING_NEW = Anchor(), message_events.AnswerMark(""), Alignment([], [], 0)


@dataclass
class Lane:
    """State of one agent's requests in a conversation.

    `hashes` are the likenesses of the last request's messages, `positions` their entries, `attempts` the
    positions of its outcomes. `open` are the exchanges under way. `hidden` are the positions that the client
    removed from its history. `item_tools` are the names of tools declared among the messages; None if
    unknown. `summary` is the position and text of the last summary; `is_summary`: a known program asked for
    it. `brief` is the text of the call that began the lane. `warm_up` is the last warm-up's response id, with
    its messages.
    """

    agent: str
    api: str
    model: str = ""
    hashes: list[str] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    card: AgentCard | None = None
    anchor: Anchor = NO_ANCHOR
    open: set[str] = field(default_factory=set)
    attempts: list[int] = field(default_factory=list)
    answer: message_events.AnswerMark = NO_ANSWER
    failed: int = 0
    last_ns: int = 0
    response: str = ""
    calls: dict[str, CallRef] = field(default_factory=dict)
    call_positions: dict[str, int] = field(default_factory=dict)
    open_calls: dict[str, str] = field(default_factory=dict)
    tool_names: dict[str, str] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    item_tools: frozenset[str] | None = None
    summary: tuple[int, str] = (0, "")
    is_summary: bool = False
    brief: str = ""
    warm_up: tuple[str, Sequence[dict[str, Any]]] = ("", ())
    _words: dict[str, list[int]] = field(default_factory=dict)
    _acts: dict[tuple[tuple[str, str], ...], list[int]] = field(default_factory=dict)
    _thoughts: dict[str, int] = field(default_factory=dict)
    _known: dict[str, list[Positions]] = field(default_factory=dict)
    _results: dict[str, Positions] = field(default_factory=dict)
    _said: dict[str, list[int]] = field(default_factory=dict)
    _stored: dict[str, StoredHistory] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _is_stored: bool | None = None

    @property
    def has_answers(self) -> bool:
        """True if an answer to the last request was recorded here."""
        known = {position for each in self.positions for position in each}
        return not known.isdisjoint(
            [*self.call_positions.values(), *(p for each in self._words.values() for p in each)]
        )

    @property
    def history(self) -> StoredHistory:
        return StoredHistory(self.hashes, self.positions)

    @property
    def visible(self) -> list[int]:
        """The positions that the last request shows."""
        return sorted({position for each in self.positions for position in each})

    def note_answer(self, event: AssistantMessage, entry_id: str, position: int) -> None:
        """Remember an answer, to recognise it in the client's history."""
        mark = message_events.mark_of(event.parts)
        if mark.words:
            self._words.setdefault(mark.words, []).append(position)
        if mark.acts:
            self._acts.setdefault(mark.acts, []).append(position)
        for nth, call in enumerate(event.tool_calls):
            self.calls[call.id] = CallRef(entry=entry_id, index=nth)
            self.call_positions[call.id] = position
            self.open_calls[call.id] = call.arguments
            self.tool_names[call.id] = call.name
        for part in event.parts:
            if isinstance(part, ReasoningPart):
                self._thoughts.update(dict.fromkeys(_thought_keys(part), position))

    def note_words(self, event: UserMessage, position: int) -> None:
        """Remember a user's message by its words; a client may renumber it."""
        self._said.setdefault(_words_key(event), []).append(position)

    def align(self, request: WireRequest, blobs: Blobs) -> Alignment:
        """Return which messages of a request are which entries, and which are new."""
        before = self._provided(request)
        hashes = [*before.hashes, *request.likenesses]
        same = same_from_start(self.hashes, hashes)
        self._taken.clear()
        plans = [MessagePlan(positions) for positions in self.positions[:same]]
        plans += [MessagePlan(positions) for positions in before.positions[same:]]
        to = message_events.Addressee(self.agent, request.model or self.model, self.tool_names)
        behind: list[int] = []
        for index in range(len(plans), len(hashes)):
            number, limit = index - len(before.hashes), LAST
            if any(plan.events for plan in plans):
                # Behind something new, old words are the same ones only before an answer that is known.
                behind = behind or self._known_behind(request)
                limit = behind[number]
            plans.append(self._plan(request, number, hashes[index], to, plans, limit, blobs))
        gone: frozenset[int] = frozenset()
        back: frozenset[int] = frozenset()
        now = {position for plan in plans[same:] for position in plan.positions}
        lost = {position for each in self.positions[same:] for position in each}.union(self.attempts) - now
        if lost or (now & self.hidden):
            everything = now.union(*(plan.positions for plan in plans[:same]))
            gone, back = frozenset(lost - everything), frozenset(now & self.hidden)
        return Alignment(plans, hashes, same, gone, back)

    def stored_tools(self, request: WireRequest) -> frozenset[str]:
        """Return the tools that the provider has with earlier messages."""
        tools = self.item_tools
        if tools is None:
            tools = frozenset(tool.name for tool in (self.card.tools if self.card else None) or ())
        names = frozenset(as_str(tool.get("name")) for tool in request.tools_in_messages)
        self.item_tools = names | tools if request.previous else names
        return self.item_tools

    def note_response(self, id: str, history: StoredHistory, position: int) -> None:
        """Remember what the provider stored with an answer; a request may continue it."""
        if self._is_stored is None:
            self._is_stored = bool(reader_of(self.api).follows)
        if not self._is_stored:  # no other API has such requests, and each history is a copy
            return
        self.response = id
        self._stored[id] = StoredHistory([*history.hashes, id], [*history.positions, (position,)])

    def has_stored(self, response: str) -> bool:
        """Return whether a response is this lane's, with known history."""
        return response in self._stored or response == self.warm_up[0]

    def after_warm_up(self, request: WireRequest) -> WireRequest:
        """Return a request with the messages of the warm-up that it continues."""
        id, messages = self.warm_up
        if not id or request.previous != id:
            return request
        return replace(request, previous="", messages=[*messages, *request.messages])

    def _known_behind(self, request: WireRequest) -> list[int]:
        """Return for each message the highest position of known later answers and results."""
        highest, found = 0, list[int]()
        for index in reversed(range(len(request.messages))):
            found.append(highest)
            message = request.read(index)
            if message.role == "assistant":
                highest = max(highest, self.answer_position(message.answer, set()))
            else:
                ids = message.answered
                highest = max([highest, *(p for id in ids for p in self._results.get(id, ()))])
        return found[::-1]

    def _provided(self, request: WireRequest) -> StoredHistory:
        """Return the earlier messages, which the provider has."""
        if not request.previous:
            return StoredHistory((), ())
        # Of an unknown response it is taken to be all that there is.
        latest = StoredHistory([*self.hashes, request.previous], [*self.positions, tuple(self.attempts)])
        return self._stored.get(request.previous, latest)

    def _plan(
        self,
        request: WireRequest,
        index: int,
        digest: str,
        to: message_events.Addressee,
        before: Sequence[MessagePlan],
        limit: int,
        blobs: Blobs,
    ) -> MessagePlan:
        """Return one message's plan; words said before `limit` may recur in it."""
        if index < request.history_start:
            return MessagePlan(())
        used = {position for plan in before for position in plan.positions}
        # Only behind what stands before it: whoever says the same again later says it again.
        last = max(used, default=0)
        for known in self._known.get(digest, ()):
            if last < min(known) and max(known) < limit:
                return MessagePlan(known)
        message = request.read(index)
        if message.role == "assistant":
            parts = message.answer
            if found := self.answer_position(parts, used):
                self._learn_ids(parts, found)
                return MessagePlan((found,))
            return MessagePlan((), (message_events.answer_event(parts, to),))
        ids = message.answered
        carried = tuple(p for id in ids for p in self._results.get(id, ()) if p not in used)
        if ids and carried and all(id in self._results for id in ids):
            return MessagePlan(carried)
        if self._is_summary(request.messages[index]) and self.summary[0] not in used:
            return MessagePlan((self.summary[0],))
        events = tuple(message_events.events_of(message, to))
        blobs.update(message.blobs)
        if again := self._said_again(events, last, limit):
            return MessagePlan(again)
        return MessagePlan((), tuple(self._with_call(event) for event in events))

    def _said_again(self, events: Sequence[Known], after: int, before: int) -> Positions:
        """Return the positions in between that say all of this; () otherwise."""
        positions: list[int] = []
        for event in events:
            found = self._said.get(_words_key(event), ()) if isinstance(event, UserMessage) else ()
            position = next((each for each in found if after < each < before), 0)
            if not position:
                return ()
            positions.append(position)
            after = position
        return tuple(positions)

    def _with_call(self, event: Known) -> Known:
        if not isinstance(event, ToolResult):
            return event
        id = event.call_id or next(
            (id for id in self.open_calls if self.tool_names.get(id) == event.name and id not in self._taken),
            "",
        )
        if id not in self.calls:
            return event
        self._taken.add(id)
        return replace(event, call=self.calls[id], call_id=id, to=())

    def holds_summary(self, request: WireRequest) -> bool:
        """Return whether a request has the summary that answered this lane."""
        return any(map(self._is_summary, request.messages))

    def _is_summary(self, message: Mapping[str, Any]) -> bool:
        position, words = self.summary
        if not position or len(words) < SHORTEST_SUMMARY:
            return False
        return words in "".join(_texts(message)).translate(_BLANKS)

    def answer_position(self, parts: Sequence[AssistantPart], used: set[int]) -> int:
        """Return the position of the answer in a message; 0 if unknown."""
        mark = message_events.mark_of(parts)
        for id in filter(None, mark.ids):
            if id in self.call_positions:
                return self.call_positions[id]
        if mark:
            # The same may have been said before: the first one behind what stands before it.
            found = self._acts.get(mark.acts, []) if mark.acts else self._words.get(mark.words, [])
            last = max(used, default=0)
            return next((p for p in found if p > last), found[-1] if found else 0)
        thoughts = (part for part in parts if isinstance(part, ReasoningPart))
        keys = (key for thought in thoughts for key in _thought_keys(thought))
        return next((self._thoughts[key] for key in keys if key in self._thoughts), 0)

    def _learn_ids(self, parts: Sequence[AssistantPart], position: int) -> None:
        """Remember a client's ids for calls without the provider's."""
        theirs = [part.id for part in parts if isinstance(part, ToolCall)]
        if all(id in self.calls for id in theirs):
            return
        ours = [id for id, at in self.call_positions.items() if at == position]
        for id, our_call in zip(ours, theirs, strict=False):
            if our_call not in self.calls and not message_events.MADE_UP.fullmatch(our_call):
                self.calls[our_call], self.call_positions[our_call] = self.calls[id], position
                self.tool_names[our_call] = self.tool_names[id]
                if id in self.open_calls:
                    self.open_calls[our_call] = self.open_calls.pop(id)

    def settle(self, alignment: Alignment, placed: Sequence[Positions]) -> None:
        """Take a request as the last one; `placed` are each message's positions."""
        self.hashes, self.positions = alignment.hashes, [*placed]
        self.attempts = []
        self.hidden = (self.hidden | alignment.gone) - alignment.back
        for digest, positions in zip(
            alignment.hashes[alignment.same :], placed[alignment.same :], strict=True
        ):
            self._remember(digest, positions)

    def remember(self) -> None:
        """Remember the last request's messages."""
        for digest, positions in zip(self.hashes, self.positions, strict=True):
            self._remember(digest, positions)

    def _remember(self, digest: str, positions: Positions) -> None:
        places = self._known.setdefault(digest, [])
        if positions and positions not in places:
            places.append(positions)

    def note_results(self, events: Iterable[Known], positions: Positions) -> None:
        """Remember which calls a message answers."""
        for event in events:
            if isinstance(event, ToolResult):
                self._results[event.call_id] = positions
                self.open_calls.pop(event.call_id, None)


_BLANKS = {ord(sign): None for sign in " \t\r\n\x0b\x0c\u00a0\u2028\u2029"}


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case Mapping():
            for each in value.values():
                yield from _texts(each)
        case _:
            pass


def _thought_keys(part: ReasoningPart) -> Iterator[str]:
    return filter(None, (part.id, part.encrypted, part.signature, "".join(part.text.split())))


def _words_key(event: UserMessage) -> str:
    _, payload = dump_event(UserMessage(parts=event.parts))
    return short_hash(payload.decode())
