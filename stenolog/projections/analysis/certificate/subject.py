"""Entries and texts that an agent should never have been sent: who quotes them, which requests show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_effects, is_gone
from stenolog.domain.errors import CallerError, StenologError
from stenolog.domain.events import Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.values import WorkflowRun
from stenolog.projections.analysis.quotes import Pieces, folded, readings, texts_of
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import BlobText
from stenolog.projections.requests import Request
from stenolog.projections.requests.pipeline.truncation import alias, given_alias
from stenolog.projections.views.artifacts import artifacts_of
from stenolog.projections.views.tool_pairs import pair

MOST = 5_000
"""Messages that are searched once."""
How: TypeAlias = Literal["entry", "quote", "held", "words"]
HOWS: Mapping[How, str] = {
    "entry": "it has the entry",
    "quote": "it has an entry that quotes it",
    "held": "the model's backend has it from an earlier request",
    "words": "it has the words",
}
"""The ways in which a request shows what an agent should never have been sent, the plainest first."""


class Subject:
    """The entries and texts that an agent should not have been sent, and where else they are."""

    def __init__(
        self,
        log: Sequence[Entry],
        never: Collection[Entry],
        wanted: Collection[str],
        blobs: Mapping[str, bytes],
    ) -> None:
        self._blobs = blobs
        self._known: dict[str, bool] = {}
        self._clean: list[Any] = []
        self.texts = len(wanted)
        if gone := next((one for one in never if is_gone(one.event) or is_effects(one.event)), None):
            raise CallerError(f"the entry at {gone.position} was erased: nobody can say who quotes it")
        if not never and not wanted:
            raise CallerError("expected an entry or a text that the agent was never sent, found neither")
        if not all(folded(text) for text in wanted):
            raise CallerError("expected a text to look for, found none")
        # A fork has its parent's entries, and another conversation may only quote them.
        keys = {(one.id, one.position, one.digest) for one in never}
        self.positions = frozenset(one.position for one in log if (one.id, one.position, one.digest) in keys)
        self._places = {(one.conversation, one.position) for one in never}
        self._shas = {sha for entry in never for sha in _shas_of(entry.event)}
        words = [text for entry in never for text in _words_of(entry.event)]
        self._pieces = Pieces([*words, *self._contents(self._shas)], wanted)
        quoting = {
            entry.position
            for entry in log
            if entry.position not in self.positions and self._is_quoted(entry.event)
        }
        self.quoting = frozenset(quoting | set(self._read_again(log, quoting)))
        self._entries = self.positions | self.quoting
        self.first = min(self._entries, default=0)
        switches = (entry.position for entry in log if isinstance(entry.event, ModeSwitch))
        self._is_set = not self._entries.isdisjoint(switches)

    def shown_by(
        self, request: Request, shown: Collection[int] | None = None
    ) -> tuple[How, tuple[int, ...]] | None:
        """Return how a request shows it, and the entries that do; None if it does not.

        `shown` are positions beside which it was made from settings only; None: it is not known.
        """
        near = shown is None or not self._entries.isdisjoint(shown)
        if self.first and self.first <= request.at and (near or self._is_set):
            parts = {position for part in request.parts for position in part.positions}
            held = {at for run in request.held_runs for at in range(run.first, run.last + 1)}
            sent = (request.read | parts) - (held - parts)
            found: tuple[tuple[How, Collection[int]], ...] = (
                ("entry", sent & self.positions),
                ("quote", sent & self.quoting),
                ("held", held & self._entries),
            )
            for how, positions in found:
                if positions:
                    return how, tuple(sorted(positions))
        return ("words", ()) if self._is_in_body(request) else None

    def is_among(self, value: Any) -> bool:
        """Return whether JSON has it."""
        return self._pieces.is_in(" ".join(_strings(value)))

    def _is_in_body(self, request: Request) -> bool:
        under = request.messages_key
        messages = request.body.get(under)
        each = messages if isinstance(messages, list) else [messages]
        # Requests one after another share their messages, of which the first were searched.
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self._clean, each, strict=False))
        )
        front = {key: value for key, value in request.body.items() if key != under}
        if any(map(self._is_in, (front, *each[same:]))):
            self._clean = []
            return True
        self._clean = [*each]
        return False

    def _is_in(self, value: Any) -> bool:
        """Return whether a message has it; requests one after another have mostly the same."""
        key = compact(value)
        if key not in self._known:
            ways = (" ".join(_strings(value)), *_joined([*texts(value)]))
            if len(self._known) > MOST:
                self._known.clear()
            self._known[key] = any(map(self._pieces.is_in, ways))
        return self._known[key]

    def _is_quoted(self, event: Event) -> bool:
        shas = {*_shas_of(event)}
        if shas & self._shas:
            return True
        ways = (REGISTRY.dump(event)[1].decode(errors="replace"), *_joined([*texts_of(event)]))
        return any(map(self._pieces.is_in, (*ways, *self._contents(shas))))

    def _contents(self, shas: Iterable[str]) -> Iterator[str]:
        """Yield the blobs that are texts."""
        for sha in shas:
            try:
                yield self._blobs[sha].decode()
            except (KeyError, UnicodeDecodeError, StenologError):
                continue

    def _read_again(self, log: Sequence[Entry], quoting: Collection[int]) -> Iterator[int]:
        """Yield the results of calls that name an output of the entries, and what was recalled of them."""
        if not self._places:
            return  # a part of an output that has a text is not the text
        found, names, calls = {*self.positions, *quoting}, set[str](), pair(log).calls
        at = {entry.position: entry for entry in log}
        for entry in log:
            call = calls.get(entry.position)
            made = at[call.position].event if call is not None else None
            asked = getattr(made, "tool_calls", ())[call.nth].arguments if call is not None else ""
            is_read = bool(asked) and any(name in each for each in readings(asked) for name in names)
            if is_read or any(
                place in self._places or (place[0] == entry.conversation and place[1] in found)
                for place in _recalled(entry.event)
            ):
                found.add(entry.position)
                yield entry.position
            if entry.position in found:
                names |= _names_of(entry)


def _joined(said: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a message as one text, as they are read."""
    return ("".join(said), " ".join(said)) if len(said) > 1 else ()


def _recalled(event: Event) -> set[tuple[str, object]]:
    match getattr(event, "meta", None):
        case {"stenolog": {"recalled": [*pairs]}}:
            return {(str(one[0]), one[1]) for one in pairs if isinstance(one, list | tuple) and len(one) == 2}
        case _:
            return set()


def _names_of(entry: Entry) -> set[str]:
    """Return the names by which the contents of an entry are read."""
    names = {file.name for file in artifacts_of(entry)}
    if isinstance(entry.event, ToolResult):
        names |= {alias(entry.id), given_alias(entry.event)}
    return names - {""}


def _shas_of(event: Event) -> Iterator[str]:
    for holder in (event, *getattr(event, "parts", ())):
        if sha := getattr(holder, "blob", ""):
            yield sha


def _words_of(event: Event) -> Iterator[str]:
    """Yield all that an event says to a model: also settings, what a person answered, why a call failed."""
    yield from texts_of(event)
    yield "".join(texts_of(event))
    match event:
        case ModeSwitch():
            for card in filter(None, event.cards.values()):
                yield from (tool.description for tool in card.tools or ())
                yield from _strings([card.policy, card.parameters])
            if isinstance(event.handoff, str):
                yield event.handoff
            if isinstance(run := event.active_run, WorkflowRun):
                yield from (run.directive, run.brief, run.context)
        case UserMessage(control=control) if control is not None:
            yield control.answer
            yield from (control.question.text, *control.question.choices) if control.question else ()
        case LlmError():
            yield event.message
        case _:
            pass


def _strings(value: Any) -> Iterator[str]:
    """Yield every text and number in JSON, keys too, but no contents of blobs."""
    match value:
        case BlobText():
            pass
        case str():
            yield value
        case Mapping():
            for key, inner in value.items():
                yield str(key)
                yield from _strings(inner)
        case list() | tuple():
            for inner in value:
                yield from _strings(inner)
        case int() | float():
            yield compact(value)
        case _:
            pass
