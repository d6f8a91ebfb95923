"""Events of a dsh session, formats 0 to 4, as events of a log.

dsh refuses sessions of an earlier release for a missing head field or an unlisted event type. Here an unknown
record is kept as a note, out of context.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog import importers
from stenolog.events import AssistantMessage, ToolResult, UserMessage
from stenolog.importers import Blobs, Json, JsonObject, Record, as_dict, as_int, as_list, as_str, as_time
from stenolog.parts import TextPart

from . import vocabulary
from .failures import Failures
from .notes import ANSWERS, INPUTS, SYSTEM, Notes, outcome_of, text_in, tools_in, usage_of


class Node(NamedTuple):
    """A message on the surface: number in the session, type, position in the log.

    The position of the system prompt, which is no entry, is 0.
    """

    seq: int
    kind: str
    position: int


class ReplacedSpan(NamedTuple):
    """The first and the last number of the nodes that an event replaces."""

    first: int
    last: int


def span_of(operation: Json) -> ReplacedSpan | None:
    """Return the span that an event replaces; None if it is appended."""
    fields = as_dict(operation)
    first, last = fields.get("startSeq", fields.get("start")), fields.get("endSeq", fields.get("end"))
    if fields.get("op") == "replace" and isinstance(first, int) and isinstance(last, int):
        return ReplacedSpan(first, last)
    return None


class Surface:
    """The nodes in order; a replacement has the place of what it replaces."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def replaced(self, span: ReplacedSpan) -> list[Node]:
        """Return a span's nodes in order; empty if one of its ends is missing."""
        places = {node.seq: place for place, node in enumerate(self.nodes)}
        first, last = places.get(span.first), places.get(span.last)
        return [] if first is None or last is None else self.nodes[first : last + 1]

    def put(self, node: Node, instead: list[Node]) -> None:
        """Add a node at the end, or in the place of others."""
        if not instead:
            self.nodes.append(node)
            return
        place = self.nodes.index(instead[0])
        self.nodes[place : place + len(instead)] = [node]


CODE = "code"
"""The agent whose calls a program makes that the model wrote: they never enter its context."""
USER = "user"
_ABOUT = ("parentSession", "origin", "agentPreset", "delegationDepth")


class DeepseekHarness(importers.SessionConverter):
    """Converter of a dsh session."""

    system = SYSTEM
    main = "dsh"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self.notes = Notes(self)
        self.failures = Failures(self)
        self._about: JsonObject = {}
        self._surface = Surface()
        self._hidden: set[int] = set()
        self._titled = False
        self._inner: dict[str, str] = {}
        """The ids of the calls of programs, by dsh's."""
        self._numbers: dict[str, str] = {}
        """The number of the record that each message's id was first seen in."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value = record.value
        if vocabulary.is_header(value):
            self._begin(value)
        else:
            self.time = as_time(value.get("time", value.get("time0")), self.time)
            value = self.notes.numbered(value)
            record = Record(record.line, value)
            self._event(value, importers.key_of(_number(record)))
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the file."""
        self.notes.write_queued()
        self.notes.write_unfinished(self.failures.attempt.blocks)
        return self.writer.drain()

    def key(self, message: JsonObject, number: str) -> str:
        """Return a message's key: its id, numbered if a redacted session repeats it."""
        id = importers.key_of(as_str(message.get("id"))) or number
        first = self._numbers.setdefault(id, number)
        return id if first == number else f"{id}-{number}"

    def about(self, **facts: object) -> None:
        """Note what the session says of itself beside its messages."""
        self._about |= facts
        self.setup.about(SYSTEM, self._about)

    def _begin(self, head: JsonObject) -> None:
        self.time = as_time(head.get("createdAt"), self.time)
        version = head.get("version", 0)
        facts = {name: head.get(name) for name in _ABOUT}
        self.about(cwd=as_str(head.get("cwd")), format=f"v{version}", **facts)
        if version not in vocabulary.VERSIONS or isinstance(version, bool):
            self.notes.write(
                "version",
                f"this session is in version {version!r} of dsh's format; versions 0 to "
                f"{vocabulary.VERSIONS[-1]} are known, and its records are read as those",
                head,
            )

    def _event(self, value: JsonObject, key: str) -> None:
        kind, data = as_str(value.get("type")), as_dict(value.get("data"))
        match kind:
            case "user/message" | "developer/message":
                self._user(value, data, key)
            case "system/message":
                self._system(value, data, key)
            case "assistant/message":
                self._assistant(value, data, key)
            case "tool/result":
                self._result(value, data, key)
            case "assistant/chunk":
                self.failures.attempt.take(as_dict(data.get("chunk")))
            case _ if kind in vocabulary.PACKED:
                self.failures.attempt.take_packed(kind, data)
            case "assistant/attempt" | "llm/retry" | "step/end" | "turn/end":
                self.failures.take(kind, data, key)
            case "request/header" | "request/context" | "model/selection":
                self._request(data)
            case "session/title":
                self._titled = True
                self.setup.title = importers.title_of(as_str(data.get("title"))) or None
            case "plan/mode":
                self.setup.mode = "plan" if data.get("active") is True else "agent"
            case "subagent/descriptor":
                self.about(label=as_str(data.get("label")), descriptor=as_str(data.get("mode")))
            case "tool/code-dispatch-start" | "tool/ptc-dispatch-start":
                self._inner_call(data, key)
            case "tool/code-dispatch" | "tool/ptc-dispatch":
                self._inner_result(data, key)
            case _:
                if not self.notes.take(kind, data, key):
                    self._other(value, kind, key)

    def _other(self, value: JsonObject, kind: str, key: str) -> None:
        """Count an event without a speaker; note an unknown one unless it may be skipped."""
        if kind == "step/start":
            self.failures.begin_step()
        if kind in vocabulary.LOG_ONLY or value.get("ignorable") is True:
            self.ignored[kind] += 1
            return
        self.decisions["unknown record"] += 1
        self.notes.write(key, f"a record of the type {kind!r} that is not known: {_excerpt(value)}", value)

    def _request(self, data: JsonObject) -> None:
        """Read a request's head: model, tools, and up to version 2 the system prompt."""
        header = as_dict(data.get("header"))
        config = as_dict(header.get("config")) or data
        changes: JsonObject = {
            name: as_str(config[name]) for name in ("model", "provider") if as_str(config.get(name))
        }
        if as_str(header.get("system")):
            changes["persona"] = header["system"]
        if tools := tools_in(header):
            changes["tools"] = tuple(map(importers.read_tool, tools))
        self.setup.card(self.main, **changes)
        if effort := as_str(config.get("reasoningEffort")):
            self.about(effort=effort)

    def _system(self, value: JsonObject, data: JsonObject, key: str) -> None:
        """Read a system prompt: the first and its replacements are the persona, others messages."""
        instead = self._replaced(value, key)
        head = self._surface.nodes[:1]
        if instead == head or not self._surface.nodes:
            self.setup.card(self.main, persona=text_in(vocabulary.message_in(data).get("content")))
            self._surface.put(Node(as_int(value.get("seq")), "system/message", 0), instead)
        else:
            self._user(value, data, key)

    def _user(self, value: JsonObject, data: JsonObject, key: str) -> None:
        """Read a message in the user's name: a person's, the program's, or a summary's."""
        message = vocabulary.message_in(data)
        key = self.key(message, key)
        self.notes.forget_queued(key)
        name = vocabulary.source_name(as_dict(message.get("source")))
        kind = "system" if value.get("type") != "user/message" else vocabulary.author_kind(name)
        instead = self._replaced(value, key)
        if instead and name in vocabulary.COMPACTING:
            self._summarise(value, message, key, instead)
            return
        self._hide(node.position for node in instead)
        if kind == "person" and not self._titled and self.setup.title is None:
            self.setup.title = importers.title_of(text_in(message.get("content"))) or None
        blobs: Blobs = {}
        said = UserMessage(
            parts=INPUTS.parts(message.get("content"), blobs),
            author="" if kind == "person" else name,
            author_kind=kind,
            to=(self.main,),
            source=self.writer.source(key, USER, key),
        )
        self._put(value, self.put(said, key, blobs), instead)

    def _assistant(self, value: JsonObject, data: JsonObject, key: str) -> None:
        message = vocabulary.message_in(data)
        key = self.key(message, key)
        source = as_dict(message.get("source")) or as_dict(data.get("provenance"))
        provider, model = as_str(source.get("provider")), as_str(source.get("model"))
        attempt = self.failures.settle(as_list(data.get("stream")))
        finish = "interrupted" if data.get("interrupted") else as_str(attempt.finish.get("kind"))
        if model:
            self.setup.card(self.main, model=model, provider=provider or self.setup.cards[self.main].provider)
        parts = ANSWERS.parts(message.get("content"), provider=provider, model=model, key=key)
        position = self.write_whole(
            key,
            parts,
            model=model,
            finish_reason=finish,
            usage=usage_of(data.get("usage")) or usage_of(attempt.usage),
            cause=self.writer.last_question(self.main),
        )
        instead = self._replaced(value, key)
        self._hide(node.position for node in instead)
        self._put(value, position, instead)

    def _result(self, value: JsonObject, data: JsonObject, key: str) -> None:
        """Read a call's result; a later, shorter one is a note."""
        found = outcome_of(data)
        key = self.key(as_dict(data.get("message")), key)
        if instead := self._replaced(value, key):
            self._hide(node.position for node in instead)
            words = text_in(found.content)
            self.notes.write(key, f"the result of {found.call_id} was shortened to: {words}", value)
            self._put(value, instead[0].position, instead)
            return
        blobs: Blobs = {}
        parts, error = INPUTS.parts(found.content, blobs), as_dict(data.get("error"))
        meta = {SYSTEM: {"error": error}} if error else {}
        position = self.write_result(
            key, found.call_id, parts, blobs=blobs, is_error=found.is_error, meta=meta
        )
        self._put(value, position, [])

    def _inner_call(self, data: JsonObject, key: str) -> None:
        """Read a call by a program of the model; only the program sees its result."""
        id = as_str(data.get("subCallId")) or key
        if id in self._inner:
            return
        key = importers.key_of(f"call-{id}")
        # dsh's own id is longer than providers take, and has a colon in it.
        self._inner[id] = f"code_{len(self._inner) + 1}"
        outer = self.writer.find_call(as_str(data.get("rootCallId")) or as_str(data.get("parentCallId")))
        self.setup.card(CODE)
        fields = {"name": as_str(data.get("name")) or "unknown", "arguments": data.get("arguments")}
        block = {"type": "tool-call", "id": self._inner[id], **fields}
        call = AssistantMessage(
            agent=CODE,
            parts=ANSWERS.parts(block, key=key),
            to=(USER,),
            cause=outer.position if outer else None,
            source=self.writer.source(id, CODE, key),
        )
        self.put(call, key)

    def _inner_result(self, data: JsonObject, key: str) -> None:
        id = as_str(data.get("subCallId")) or key
        self._inner_call(data, key)
        key = importers.key_of(f"result-{id}")
        call = self.writer.closed(self._inner[id])
        blobs: Blobs = {}
        result = ToolResult(
            call_id=self._inner[id],
            call=call.ref if call else None,
            name=call.name if call else as_str(data.get("name")),
            to=() if call else (CODE,),
            parts=INPUTS.parts(data.get("content"), blobs),
            is_error=data.get("isError") is True,
            source=self.writer.source(id, "tool", key),
        )
        self.put(result, key, blobs)

    def _summarise(self, value: JsonObject, message: JsonObject, key: str, instead: list[Node]) -> None:
        replaced = {node.position for node in instead}
        stays = {node.position for node in self._surface.nodes} - replaced
        calls = {position for position in self.writer.open_calls(self.main) if position in replaced}
        covers = self.writer.visible(1, self._hidden | stays | calls)
        self._hide(calls)
        if not covers:
            return
        summary = AssistantMessage(
            agent=self.main,
            purpose="summary",
            covers=covers,
            parts=[TextPart(text=text_in(message.get("content")))],
            to=(USER,),
            source=self.writer.source(key, "compacted", key),
        )
        self._put(value, self.put(summary, key), instead)
        self.decisions["compaction as a summary"] += 1

    def _replaced(self, value: JsonObject, key: str) -> list[Node]:
        if (span := span_of(value.get("surfaceOp"))) is None:
            return []
        if not (found := self._surface.replaced(span)):
            words = f"a message replaces records {span.first} to {span.last}, which are not in the file"
            self.notes.write(f"{key}/span", words, value)
        return found

    def _put(self, value: JsonObject, position: int, instead: list[Node]) -> None:
        self._surface.put(Node(as_int(value.get("seq")), as_str(value.get("type")), position), instead)

    def _hide(self, positions: Iterable[int]) -> None:
        found = {position for position in positions if position}
        if found - self._hidden:
            self._hidden |= found
            self.setup.hides = tuple(importers.position_ranges(self._hidden, set()))


def _number(record: Record) -> str:
    seq = record.value.get("seq", record.value.get("seq0"))
    return f"seq-{seq}" if isinstance(seq, int) else f"#{record.line}"


def _excerpt(value: JsonObject) -> str:
    text = str(value.get("data"))
    return text if len(text) <= 500 else f"{text[:500]}…"
