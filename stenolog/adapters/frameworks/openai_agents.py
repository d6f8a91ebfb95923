"""A session of the OpenAI Agents SDK that is a conversation of a log, and its items as events and back.

    session = OpenAIAgentsSession(log["parser"])
    await Runner.run(agent, "Which test fails?", session=session)

Whatever the SDK takes back (`pop_item`, `clear_session`, a compaction) is taken out of context by an entry:
nothing is deleted. The SDK's package is not needed for any of this, only for running agents.

What a model said without a break is one event; every other item is one. `items_of` gives the items that an
event would be by itself, whoever wrote it; what the SDK's own items say beyond that is kept in `meta`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError, VersionConflictError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.values import PositionRange
from stenolog.projections.formats.openai_responses.items import plain_items, read_as_kept
from stenolog.projections.formats.openai_responses.read import PROVIDER
from stenolog.projections.formats.reading import Reply, Result, Spoken
from stenolog.projections.messages.json_fields import Blobs, as_dict

from .shared import InContext, apply_patch, context_of, hidden, make_patch, whole_text

if TYPE_CHECKING:
    from agents import SessionSettings


P = ParamSpec("P")
T = TypeVar("T")
Item = dict[str, Any]


class HeldItem(NamedTuple):
    """An item in context, and the position of its entry."""

    position: int
    item: Item


class CompactionSnapshot(NamedTuple):
    """The last items of a session; `complete` if these are all."""

    items: list[Item]
    complete: bool
    replace_suffix: Callable[[int, Sequence[Item]], Awaitable[bool]]


class OpenAIAgentsSession:
    """A `Session` of the Agents SDK; `session_id` is the conversation's name.

    All agents of a run share one list of items and read each other's as their own, so in the log they are one
    lane, `agent`. `model` is recorded with its words: only its family is sent its reasoning again. Each batch
    of a run is one transaction. After `close` the session raises `CallerError`; the log stays open.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        agent: str = "assistant",
        model: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.conversation = conversation
        self.session_id = conversation.name
        self.agent = agent
        self.model = model
        self.session_settings = _settings(session_settings)
        self._closed = False

    def __repr__(self) -> str:
        return f"<OpenAIAgentsSession of {self.conversation!r}>"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in context as they were added, or the last `limit`."""
        self._check_open()
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await asyncio.to_thread(self._items)
        return items if limit is None or limit < 0 else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append the items, all of them or none. Raises as `Conversation.extend`."""
        self._check_open()
        if items:
            await _to_its_end(self._add, list(items))

    async def pop_item(self) -> Any | None:
        """Remove the last item from context and return it; None if there is none."""
        self._check_open()
        return await _to_its_end(self._decided, self._pop)

    async def clear_session(self) -> None:
        """Clear the session: no message so far is in context."""
        self._check_open()
        await _to_its_end(self._decided, self._clear)

    async def _atomic_replace_items(self, items: Sequence[Any]) -> bool:
        """Replace all items in one transaction, as `OpenAIResponsesCompactionSession` asks."""
        self._check_open()
        return await _to_its_end(
            self._decided,
            lambda position: (
                True,
                [*self._clear(position)[1], *self._opening(position), *self._events([*items])],
            ),
        )

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Item], bool] = lambda item: False
    ) -> CompactionSnapshot | None:
        """Return the last items and how to replace their end, as `OpenAIResponsesCompactionSession` asks."""
        self._check_open()
        mine, ours = type(self), OpenAIAgentsSession
        if (mine.get_items, mine.add_items) != (ours.get_items, ours.add_items):
            return None  # a subclass that changes items
        rows = await asyncio.to_thread(self._rows, self.conversation.position)
        shown = rows[-limit:]

        async def replace_suffix(start: int, output: Sequence[Item]) -> bool:
            expected = shown[start:]

            def decide(position: int) -> tuple[bool, list[Event]]:
                now = self._rows(position)
                kept = len(now) - len(expected)
                if not expected or now[kept:] != expected:
                    return False, []
                expired = len([*takewhile(lambda row: prune_prefix(row.item), now[:kept])])
                return True, self._cut(position, now, kept, output, expired)

            return await _to_its_end(self._decided, decide)

        return CompactionSnapshot([row.item for row in shown], len(rows) <= limit, replace_suffix)

    def close(self) -> None:
        """Close the session, as the SDK's own sessions are closed."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise CallerError(f"the session {self.session_id!r} is closed")

    def _items(self) -> list[Item]:
        return [row.item for row in self._rows(self.conversation.position)]

    def _rows(self, position: int) -> list[HeldItem]:
        return [
            HeldItem(entry.position, item)
            for entry in self._in_context(position).entries
            for item in items_of(entry.event, self.conversation.log.blobs)
        ]

    def _in_context(self, position: int) -> InContext:
        settings = self.conversation.settings(at=position)
        return context_of(
            [*self.conversation.entries(max(settings.context_from_of(self.agent) - 1, 0), position)], settings
        )

    def _add(self, items: list[Item]) -> None:
        events = self._events(items)
        if self.agent in self.conversation.settings().cards:
            self.conversation.extend(events)
        else:
            self._decided(lambda position: (None, [*self._opening(position), *events]))

    def _opening(self, position: int) -> list[Event]:
        """Return the event that introduces the agent; none if the log knows it."""
        if self.agent in self.conversation.settings(at=position).cards:
            return []
        return [
            ModeSwitch(joins=[self.agent], cards={self.agent: AgentCard(provider=PROVIDER, model=self.model)})
        ]

    def _events(self, items: list[Item]) -> list[Event]:
        blobs: Blobs = {}
        events = list(openai_agents_events(whole_text(items), self.agent, self.model, blobs))
        self.conversation.log.blobs.put_all(blobs.values())
        return events

    def _decided(self, decide: Callable[[int], tuple[T, list[Event]]]) -> T:
        while True:
            position = self.conversation.position
            answer, events = decide(position)
            try:
                self.conversation.extend(events, expected=position)
            except VersionConflictError:
                continue
            return answer

    def _pop(self, position: int) -> tuple[Item | None, list[Event]]:
        rows = self._rows(position)
        return (rows[-1].item, self._cut(position, rows, len(rows) - 1)) if rows else (None, [])

    def _cut(
        self, position: int, rows: list[HeldItem], kept: int, more: Sequence[Item] = (), expired: int = 0
    ) -> list[Event]:
        """Hide the entries of the rows after `kept`, and those they edit; write their earlier items again.

        The first rows, `expired`, are not written again; entries that have no others are hidden too.
        """
        gone = {row.position for row in rows[kept:]}
        rest = [row.item for row in rows[expired:kept] if row.position in gone]
        gone |= {row.position for row in rows[:expired]} - {row.position for row in rows[expired:]}
        left = {row.position for row in rows} - gone
        edited = self._in_context(position).edited
        spans = [
            PositionRange(first=each, last=each) for where in gone for each in (where, *edited.get(where, ()))
        ]
        last = max(gone)
        if last > max(left, default=0):  # with what stands after it and is no item
            spans.append(PositionRange(first=last, last=position))
        hides = hidden(self.conversation.settings(at=position), *spans)
        return [ModeSwitch(hides=hides), *self._events([*rest, *more])]

    def _clear(self, position: int) -> tuple[None, list[Event]]:
        return None, [ModeSwitch(context_from=position + 1)] if self._rows(position) else []


async def _to_its_end(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Run in a thread; raise a cancellation only after its end, so that what follows is later in the log."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *given, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.exception()
        raise


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings | None:
    """Return the settings as the SDK's type, also from a dict. Raises TypeError for an unknown name."""
    if not isinstance(given, dict):
        return given
    from agents import SessionSettings

    return SessionSettings().resolve(given)


OURS = "openai_agents"
"""The key in `meta` of what an item says beyond its event."""


def openai_agents_events(given: Sequence[Item], agent: str, model: str, blobs: Blobs) -> Iterator[Event]:
    """Yield the items' events in order; add pictures and files to the blobs."""
    read = [(item, read_as_kept(item, blobs)) for item in given]
    for is_said, run in groupby(read, key=lambda each: isinstance(each[1], Reply)):
        for group in [list(run)] if is_said else [[each] for each in run]:
            items, found = zip(*group, strict=True)
            said = [part for each in found if isinstance(each, Reply) for part in each.parts]
            event = AssistantMessage(agent=agent, model=model, parts=said) if is_said else _event(found[0])
            beyond = make_patch(plain_items(event, blobs), [*items])
            yield replace(event, meta={OURS: beyond}) if beyond else event


def items_of(event: Event, blobs: Mapping[str, bytes]) -> list[Item]:
    """Return an event's new items; none if it is not for models, or no message."""
    if not isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError) or not event.in_context:
        return []
    kept: list[Item] = apply_patch(plain_items(event, blobs), as_dict(event.meta.get(OURS)))
    return kept


def _event(given: Spoken | Result) -> UserMessage | ToolResult:
    if isinstance(given, Result):
        return ToolResult(call_id=given.call_id, parts=given.parts)
    return UserMessage(parts=given.parts, author_kind="person" if given.role == "user" else "system")
