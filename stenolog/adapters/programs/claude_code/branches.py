"""Structure of a Claude Code session: branches, sub-agents, queue, repeated records.

Records form a tree by `parentUuid`, but most branches are not the conversation's: parallel results, blocks of
a message and progress records branch too. Only a prompt can leave something, so this tree is of turns: a
prompt and all up to the next.

`enqueue` brings words. `remove` delivers them within a turn, later versions as an attachment too. `dequeue`
makes them the next prompt, `popAll` returns them for editing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from stenolog.domain.values import PositionRange
from stenolog.projections.formats.anthropic.read import blocks
from stenolog.projections.messages.json_fields import as_dict, as_str, compact_json, conversation_name


@dataclass(eq=False)
class TurnRecords:
    """A prompt and the records after it.

    `first` is its first position, 0 without a message; `last` its end, None until another turn begins. `way`
    leads to its end, once known. A turn without a parent is a root, where a context begins.
    """

    parent: TurnRecords | None = None
    first: int = 0
    last: int | None = None
    way: Way | None = None


class Way(NamedTuple):
    """The way from a context's beginning to the end of a turn.

    Its first position, the position after the turn, and earlier spans off the way.
    """

    root: int
    next: int
    spans: tuple[PositionRange, ...]


class Tree:
    """A session's turns in order, and the current one."""

    def __init__(self) -> None:
        self.origin = TurnRecords()
        self.current = self.origin
        self._turns: list[TurnRecords] = []
        self._of: dict[str, TurnRecords] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._of

    def note(self, uuid: str, parent: str, *, begins: bool = False) -> None:
        """Note a record that is no prompt. With `begins`, one without a parent begins a context."""
        self._of[uuid] = TurnRecords() if begins and not parent else self._of.get(parent, self.current)

    def drop(self, uuid: str) -> None:
        """Forget the place of a record whose uuid is not unique."""
        self._of.pop(uuid, None)

    def base(self, parent: str) -> TurnRecords:
        """Return the turn that a prompt with this parent continues."""
        return self._of.get(parent, self.current) if parent else self.origin

    def opens(self, parent: str) -> TurnRecords | None:
        """Return the context that the first message below this parent opens, if any."""
        turn = self._of.get(parent)
        return None if turn is None or turn.first or turn is self.current else turn

    def way(self, base: TurnRecords) -> Literal["on", "reset", "rewind"]:
        """Return the effect of continuing from that turn: none, a new context, or a return."""
        if base is self.current or not self._turns:
            return "on"
        return "rewind" if base.first else "reset"

    def start(self, position: int) -> None:
        """Note that the message at this position belongs to the current turn."""
        if not self.current.first:
            self.current.first = position
            if self._turns:
                self._turns[-1].last = position - 1
            self._turns.append(self.current)

    def prompt(self, uuid: str, position: int) -> None:
        """Note that a prompt at this position begins a turn."""
        self.current = self._of[uuid] = TurnRecords(parent=self.current)
        self.start(position)

    def forget(self, uuid: str) -> None:
        """Clear the context at this record; later records begin a new one."""
        self.current = self._of[uuid] = TurnRecords()

    def hidden(self, base: TurnRecords, last: int) -> tuple[int, tuple[PositionRange, ...]]:
        """Return a turn's context's beginning, and the hidden spans.

        Those up to `last` that are off the way back from the turn.
        """
        way = self._way(base, last)
        return way.root, _with_gap(way.spans, way.next, last)

    def _way(self, turn: TurnRecords, last: int) -> Way:
        """Return the way to a turn's end; an ended turn's is computed once."""
        path: list[TurnRecords] = []
        each: TurnRecords | None = turn
        while each is not None and each.way is None:
            path.append(each)
            each = each.parent
        root = path[-1].first if each is None else 0
        way = Way(root, root or self._turns[0].first, ()) if each is None else each.way
        for each in reversed(path):
            assert way is not None, "one that is kept"
            if each.first:
                spans = _with_gap(way.spans, way.next, each.first - 1)
                end = last if each.last is None else each.last
                way = Way(way.root, max(way.next, end + 1), spans)
            if each.last is not None:
                each.way = way
        assert way is not None, "as above"
        return way


def _with_gap(spans: tuple[PositionRange, ...], first: int, last: int) -> tuple[PositionRange, ...]:
    """Return the spans and one more, if it is not empty."""
    if last < first:
        return spans
    if spans and spans[-1].last == first - 1:
        return (*spans[:-1], PositionRange(first=spans[-1].first, last=last))
    return (*spans, PositionRange(first=first, last=last))


SHORT = 8


class SubAgents:
    """Names of sub-agents, `<type>-<first eight characters of their id>`.

    If only the call's id is known, its last eight characters are used. The type is the starting call's, if
    known, else `agent`. `known` are the log's names, which are kept. From the log, `ran` and `prompts` have
    the starting calls' ids, by agent id and by brief, and `kinds` types by call id.
    """

    def __init__(
        self,
        known: Iterable[str],
        ran: Mapping[str, str],
        prompts: Mapping[str, str],
        kinds: Mapping[str, str],
    ) -> None:
        self._known = sorted(known)
        self._ran = dict(ran)
        self._prompts = dict(prompts)
        self._types = dict(kinds)
        self._own_types: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._roots: dict[str, str] = {}

    def starts(self, call_id: str, arguments: object) -> None:
        """Note a tool call that may start a sub-agent."""
        given = as_dict(arguments)
        if kind := as_str(given.get("subagent_type")):
            self._types[call_id] = kind
        if prompt := as_str(given.get("prompt")):
            self._prompts[prompt] = call_id

    def ran(self, agent_id: str, call_id: str) -> None:
        """Note which agent a call has run, as its result says."""
        if agent_id:
            self._ran[agent_id] = call_id

    def describe(self, agent_id: str, kind: str, call_id: str) -> str:
        """Note an agent's type and starting call; return its name."""
        if kind:
            self._own_types[agent_id] = kind
        if call_id:
            self._ran[agent_id] = call_id
        return self.name(agent_id, call_id)

    def call_of(self, agent_id: str) -> str:
        """Return the id of the call that ran an agent; empty if unknown."""
        return self._ran.get(agent_id, "")

    def call_with(self, prompt: str) -> str:
        """Return the id of the latest call with this brief; empty if none."""
        return self._prompts.get(prompt, "")

    def of_record(self, record: dict[str, Any]) -> str:
        """Return a record's sub-agent; empty for the main agent."""
        if call_id := as_str(record.get("parent_tool_use_id")):
            return self.name(call_id, call_id)
        if not record.get("isSidechain"):
            return ""
        uuid, parent = as_str(record.get("uuid")), as_str(record.get("parentUuid"))
        root = self._roots[uuid] = self._roots.get(parent, uuid)
        return self.name(as_str(record.get("agentId")) or root, "")

    def name(self, agent_id: str, call_id: str) -> str:
        """Return the name of the agent of that id, started by that call."""
        if agent_id not in self._names:
            whole = conversation_name(agent_id).replace("/", "-")
            short = (
                whole[-SHORT:] if agent_id == call_id else whole[:SHORT]
            ).strip()  # calls' ids begin alike
            call = call_id or self._ran.get(agent_id, "")
            type = self._own_types.get(agent_id) or self._types.get(call, "")
            kind = conversation_name(type, "agent").replace("/", "-")
            used = (name for name in self._known if name.endswith(f"-{short}"))
            self._names[agent_id] = next(used, f"{kind}-{short}")
        return self._names[agent_id]


@dataclass(eq=False)
class QueuedMessage:
    """A queued message: words, id of its entry, whether delivered."""

    text: str
    entry: str
    delivered: bool = False


class Queue:
    """Waiting messages in order, and those taken out."""

    def __init__(self) -> None:
        self._waiting: list[QueuedMessage] = []
        self._out: list[QueuedMessage] = []

    def enqueue(self, text: str, entry: str) -> None:
        """Add words that were typed while the agent was busy."""
        self._waiting.append(QueuedMessage(text, entry))

    def take(self, content: str) -> QueuedMessage | None:
        """Take one out: the one with these words, or the first."""
        for waiting in self._waiting:
            if not content or waiting.text == content:
                self._waiting.remove(waiting)
                if not waiting.delivered:
                    self._out.append(waiting)
                return waiting
        return None

    def out(self, entry: str) -> QueuedMessage | None:
        """Return that entry's message, if dequeued as the next prompt and not delivered since."""
        return next((waiting for waiting in self._out if waiting.entry == entry), None)

    def forget(self, waiting: QueuedMessage) -> None:
        """Drop a dequeued message that needs no delivery."""
        self._out.remove(waiting)

    def clear(self) -> None:
        """Remove all waiting messages."""
        self._waiting.clear()

    def claim(self, text: str, *, delivered: bool = False) -> QueuedMessage | None:
        """Return the queued message that a record with these words delivers.

        With `delivered`, it may be an echo of one already delivered; else not, as the same words may be typed
        again.
        """
        for waiting in (*self._out, *self._waiting):
            if waiting.text == text and (delivered or not waiting.delivered):
                if waiting in self._out:
                    self._out.remove(waiting)
                return waiting
        return None


class Repeats:
    """Memory of records by uuid and content, and of sub-agents' by time too.

    `shared` are uuids of several records: placeholders without identity or place in the tree.
    """

    def __init__(self) -> None:
        self.shared: set[str] = set()
        self._uuids: set[str] = set()
        self._heard: set[int] = set()

    def again(self, value: dict[str, Any], agent: str = "", beside: Collection[int] = ()) -> bool:
        """Return whether a record was read before.

        `agent` is set inside a progress record: such records repeat the sub-agent's messages so far, whole
        and by block; `beside` are that progress record's blocks.
        """
        uuid, pieces = uuid_of(value), content_of(value)
        by_uuid = [hash((uuid, piece)) for piece in pieces]
        by_time = [hash((agent, as_str(value.get("timestamp")), piece)) for piece in pieces] if agent else []
        is_named = bool(uuid) and uuid not in self.shared
        is_new = uuid not in self._uuids if is_named else not agent
        marks = zip(by_uuid if is_named else by_time, pieces, strict=True) if not is_new else ()
        is_known = not is_new and all(mark in self._heard or piece in beside for mark, piece in marks)
        if is_named and not is_new and not is_known:
            self.shared.add(uuid)
        self._uuids.add(uuid)
        self._heard.update(by_uuid if uuid else (), by_time)
        return is_known


def uuid_of(value: dict[str, Any]) -> str:
    """Return a record's uuid; empty if none."""
    return as_str(value.get("uuid")).strip()


def content_of(value: dict[str, Any]) -> list[int]:
    """Return a number for each block, equal for equal content."""
    message = value.get("message")
    if isinstance(message, dict):
        return [_hash(block) for block in blocks(message.get("content"))]
    return [hash(tuple(as_str(value.get(name)) for name in ("type", "subtype", "content")))]


def _hash(block: dict[str, Any]) -> int:
    fields = sorted(block.items())
    return hash(tuple((name, each if isinstance(each, str) else compact_json(each)) for name, each in fields))
