"""One agent's conversation, as a session of another program is to have it.

The messages are those that the agent would be sent next, without a budget. A program has a system prompt and
tools of its own, so these are left out. The ids of sessions and records depend only on the conversation.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha1
from typing import NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import EPOCH, Entry
from stenolog.domain.errors import AgentNotFoundError, InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.parts import FilePart, ImagePart, Part, ProviderPart, ReasoningPart, TextPart, ToolCall
from stenolog.domain.policy import Policy
from stenolog.projections.formats import format_of
from stenolog.projections.formats.body_builder import media, texts
from stenolog.projections.messages.identifiers import arguments_object
from stenolog.projections.messages.json_fields import compact_json
from stenolog.projections.messages.message import DEFAULT_MODEL, Body, Message, Preamble, Rendered
from stenolog.projections.messages.quoting import placeholder
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.pipeline.attribution import as_text
from stenolog.projections.requests.pipeline.omissions import runs
from stenolog.projections.requests.request import Request
from stenolog.projections.requests.sendable import no_agent
from stenolog.projections.views.overview import overview
from stenolog.projections.views.tool_pairs import CallKey

_RUNNING = "placeholder-running"
"""The rule of a result that a call waits for: a session has none, and its program decides."""
_MADE_UP = ("placeholder-unrecorded", "placeholder-interrupted", "placeholder-hidden")
_CUT_OFF = "cut-off-interrupted-note"
STOPPED = ("interrupted-note", _CUT_OFF)
_ON_FAILURES = (*STOPPED, "error-note")
"""The rules of notes for which programs have records of their own."""
_LEFT_OUT = frozenset({"erased", "withheld", "lost", "reset", "covered"})
"""Rules by which entries are in no session, though the agent may have been told them."""
_LOST: Mapping[str, str] = {
    **RULES,
    "late-summary": "a summary that other messages precede, which is in plain words",
    "shown-only": "that an answer failed, which the program shows and does not send",
    "stopped": "the words by which an interruption was reported",
    "taken-for-program": "words of a person that begin like those of the program",
    "unmarked-failure": "that a tool failed, which only its words say",
}
"""Things that a session may lack, by the rules of requests and their own."""
WRITTEN = frozenset(
    {
        "call-id",
        "tool-name",
        "raw-arguments",
        "empty-error",
        "no-tools-found",
        "media-as-text",
        "media-too-large",
        "opening-note",
    }
)
"""Rules by which an API says something otherwise than the agent was shown it."""


_NAMESPACE = "3e1f0a52-7a1c-5d0b-9b6e-5e550a5e551a"
_HALF = re.compile("[\ud800-\udfff]")


class SessionFile(NamedTuple):
    """A session as its program's file: `place` is below the folder of its sessions.

    `command` goes on with it. `notes` name what the format cannot hold.
    """

    id: str
    text: str
    place: str
    command: tuple[str, ...]
    notes: tuple[str, ...] = ()


def _uuid(namespace: str, name: str) -> str:
    """Return the UUID of version 5: only the name decides it, no clock or chance."""
    # By hand: nothing of `uuid`, which has both, is used in projections.
    hashed = bytearray(sha1(bytes.fromhex(namespace.replace("-", "")) + name.encode()).digest()[:16])
    hashed[6], hashed[8] = hashed[6] & 0x0F | 0x50, hashed[8] & 0x3F | 0x80
    found = hashed.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))


def as_lines(records: Iterable[Body]) -> str:
    """Return records as JSON Lines. Half a character, which no file can hold, is escaped."""
    lines = "".join(f"{compact_json(record)}\n" for record in records)
    return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)


class AgentSession(NamedTuple):
    """An agent's messages, and what a session of a program needs beside them.

    `messages` are as the agent is shown them, with ids of calls that are unique. `entries` are those of the
    log by position, `model` is the last that answered. `notes` name what no session holds.
    """

    id: str
    conversation: str
    agent: str
    messages: tuple[Message, ...]
    entries: Mapping[int, Entry]
    model: str
    provider: str
    title: str
    folder: str
    branch: str
    blobs: Mapping[str, bytes]
    notes: tuple[str, ...]

    def uuid(self, record: object) -> str:
        """Return the id of a record, by its number or name."""
        return _uuid(self.id, str(record))

    def time(self, positions: Sequence[int] = ()) -> datetime:
        """Return when a message was said, or when the conversation began."""
        entry = self.entries.get(positions[0]) if positions else next(iter(self.entries.values()), None)
        return EPOCH if entry is None else entry.time

    def answer(self, positions: Sequence[int]) -> AssistantMessage | None:
        """Return the answer at a position, if it is one."""
        found = self.entries[positions[-1]].event if positions else None
        return found if isinstance(found, AssistantMessage) else None

    def failure(self, rule: str, positions: Sequence[int]) -> LlmError | None:
        """Return the failed call that a note is about, if the note is on one."""
        found = self.entries[positions[0]].event if rule in _ON_FAILURES and positions else None
        return found if isinstance(found, LlmError) else None

    def as_summary(self, message: Message) -> Message:
        """Return a summary in its own words, for a program that has a record for summaries."""
        said = self.answer(message.positions)
        text = "" if said is None else as_text(said.parts)
        native = tuple(part for part in message.parts if isinstance(part, ProviderPart))
        return message._replace(parts=((TextPart(text=text),) if text.strip() else ()) + native)

    def lacks(
        self, lost: Iterable[tuple[str, Sequence[int]]], rendered: Rendered | None = None
    ) -> tuple[str, ...]:
        """Return what its file does not have: rules with positions, and what an API's form has lost."""
        found = [*lost]
        if rendered is not None:
            found += [(each.rule, each.positions) for each in rendered.omitted]
            found += [(part.rule, part.positions) for part in rendered.parts if part.rule in WRITTEN]
        return (*self.notes, *_in_words(each for each in found if each[0] != "parameter-not-carried"))

    @staticmethod
    def arguments(call: ToolCall) -> tuple[Body, bool]:
        """Return a call's arguments as an object, and whether they are none, and so wrapped in one."""
        return arguments_object(call.arguments)

    @staticmethod
    def in_words(part: ImagePart | FilePart) -> str:
        """Return a line of text for a picture or file that a session cannot hold."""
        return placeholder(part, "is not shown")

    def data(self, part: ImagePart | FilePart) -> str:
        """Return the base64 of a picture or file; empty if the log does not have it."""
        return b64encode(self.blobs.get(part.blob, b"") if part.blob else b"").decode()

    def rendered(self, api: str, messages: Iterable[Message]) -> Rendered:
        """Return messages in an API's form, with what only its provider understands, whatever the model."""
        # A file is for all models of its provider; the program sends each what that understands.
        model = self.model or DEFAULT_MODEL
        said = [_of_model(each, model) for each in messages]
        return format_of(api).rendered(said, _preamble(self.agent, model), self.blobs)

    def request(self, api: str, model: str) -> Request:
        """Return what a program that has the session should send, without its prompt and tools."""
        form = format_of(api)
        said = [
            _of_model(self.as_summary(each) if each.rule == "summary" else each, model)
            for each in self.messages
            if self.failure(each.rule, each.positions) is None  # in the program's own words
        ]
        said = [each._replace(role="user") if each.role == "system" else each for each in said]
        body = form.rendered(said, _preamble(self.agent, model), self.blobs).body
        return Request(self.agent, "", 0, api, body, True, "", messages_key=form.messages)


def _in_words(lost: Iterable[tuple[str, Sequence[int]]]) -> tuple[str, ...]:
    found: dict[str, set[int]] = {}
    for rule, positions in lost:
        found.setdefault(rule, set()).update(positions)
    return tuple(
        f"{_LOST[rule]}: {runs_in_words(runs(sorted(at)))}" if at else _LOST[rule]
        for rule, at in found.items()
    )


def session_of(log: Sequence[Entry], agent: str, blobs: Mapping[str, bytes]) -> AgentSession:
    """Return an agent's session after these entries.

    Raises `AgentNotFoundError`, and `InvalidEventError` if there is nothing to go on from.
    """
    known = {lane.agent for lane in lanes(log)}
    if agent not in known:
        raise AgentNotFoundError(no_agent(agent, sorted(known)))
    name, last = log[-1].conversation, log[-1]
    seen = window(LaneId(agent), Policy(), log, blobs=blobs)
    contents = seen.contents()
    shown = [message for unit in contents.units for message in unit]
    if not any(_is_carried(part) for message in shown for part in message.parts):
        raise InvalidEventError(f"{name!r}: {agent} was told nothing that it could go on from")
    card, facts = seen.settings.card_of(agent), overview(log)
    messages, lost = _with_unique_ids(_quoted(each) for each in shown if each.rule != _RUNNING)
    lost += [(each.rule, each.positions) for each in shown if each.rule in (_RUNNING, *_MADE_UP, _CUT_OFF)]
    lost += [(rule, (at,)) for at, rule in contents.left_out.items() if rule in _LEFT_OUT]
    notes = [f"other agents' work is not in it: {', '.join(sorted(known - {agent}))}"] * (len(known) > 1)
    if card.persona or card.tools:
        notes.append("the system prompt and the tools are the program's own")
    return AgentSession(
        id=_uuid(_NAMESPACE, f"{name}:{last.position}:{last.id}:{agent}"),
        conversation=name,
        agent=agent,
        messages=messages,
        entries={entry.position: entry for entry in log},
        model=seen.memory.model or card.model,
        provider=card.provider,
        title=seen.settings.title,
        folder=facts.folder or "/",
        branch=facts.branch,
        blobs=blobs,
        notes=(*notes, *_in_words(lost)),
    )


def _is_carried(part: Part) -> bool:
    return not isinstance(part, ReasoningPart | ProviderPart)


def _quoted(message: Message) -> Message:
    """Return a message with another speaker's words as they are quoted to the agent."""
    if not message.speaker:
        return message
    quoted = [TextPart(text=text) for text in texts(message)]
    return message._replace(parts=(*quoted, *media(message)), speaker="")


def _with_unique_ids(
    messages: Iterable[Message],
) -> tuple[tuple[Message, ...], list[tuple[str, Sequence[int]]]]:
    """Return messages in which each call has an id of its own, and what was renamed."""
    ids, made = dict[CallKey, str](), list[Message]()
    taken, renamed = set[str](), list[tuple[str, Sequence[int]]]()
    for message in messages:
        if message.call is not None:
            made.append(message._replace(raw_id=ids[message.call]))
            continue
        keys, parts = iter(message.calls), list[Part]()
        for part in message.parts:
            if isinstance(part, ToolCall) and message.calls:
                key, id = next(keys), part.id
                if not id or id in taken:
                    id = f"{id}_{key.position}_{key.nth}"
                    renamed.append(("call-id", message.positions))
                taken.add(id)
                ids[key] = id
                part = replace(part, id=id)
            parts.append(part)
        made.append(message._replace(parts=tuple(parts)))
    return tuple(made), renamed


def _of_model(message: Message, model: str) -> Message:
    parts = [
        replace(part, model=model) if isinstance(part, ProviderPart) and part.model else part
        for part in message.parts
    ]
    return message._replace(model=message.model and model, parts=tuple(parts))


def _preamble(agent: str, model: str) -> Preamble:
    card = AgentCard(parameters={"cache": False})  # no marks of a cache among the messages
    return Preamble(agent, model, "", (), frozenset(), card)
