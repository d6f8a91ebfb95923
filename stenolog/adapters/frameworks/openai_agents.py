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
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, TypeVar

from stenolog.adapters.log import Conversation
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError, VersionConflictError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.domain.values import PositionRange
from stenolog.projections.messages.json_fields import (
    Blobs,
    arguments,
    as_dict,
    as_list,
    as_str,
    compact_json,
    data_url,
    keep_data_url,
)

from .shared import InContext, apply_patch, context_of, hidden, make_patch, whole_text

if TYPE_CHECKING:
    from agents import SessionSettings


T = TypeVar("T")


class OpenAIAgentsSession:
    """A `Session` of the Agents SDK; `session_id` is the conversation's name.

    All agents of a run share one list of items, and each reads what the others said as its own; so in the log
    they are one lane, `agent`. `model` is noted with what is said: only models of its family are sent its
    reasoning again. Each batch of items that a run adds is one transaction. After `close` the session raises
    `CallerError`; the log stays open.
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
        """Return the items that are in context, as they were added; of `limit`, the last so many."""
        self._check_open()
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await asyncio.to_thread(self._items)
        return items if limit is None or limit < 0 else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append the items, all of them or none. Raises as `Conversation.extend`."""
        self._check_open()
        if items:
            await asyncio.to_thread(self._add, list(items))

    async def pop_item(self) -> Any | None:
        """Return the last item, which is in context no more; None where there is none."""
        self._check_open()
        return await asyncio.to_thread(self._decided, self._pop)

    async def clear_session(self) -> None:
        """Clear the session: no message so far is in context."""
        self._check_open()
        await asyncio.to_thread(self._decided, self._clear)

    def close(self) -> None:
        """Close the session, as the SDK's own sessions are closed."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise CallerError(f"the session {self.session_id!r} is closed")

    def _items(self) -> list[Item]:
        return [*chain.from_iterable(self._items_by_position(self.conversation.position).values())]

    def _items_by_position(self, position: int) -> dict[int, list[Item]]:
        """Return the items of each entry that has some in context there, by its position."""
        held = {
            entry.position: items_of(entry.event, self.conversation.log.blobs)
            for entry in self._in_context(position)[0]
        }
        return {where: items for where, items in held.items() if items}

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
        """Decide at the conversation's head and append the events; on a version conflict, decide again."""
        while True:
            position = self.conversation.position
            answer, events = decide(position)
            try:
                self.conversation.extend(events, expected=position)
            except VersionConflictError:
                continue
            return answer

    def _pop(self, position: int) -> tuple[Item | None, list[Event]]:
        """Hide the item's entry, with the entries that it edits; the items before it are written again."""
        held = self._items_by_position(position)
        if not held:
            return None, []
        is_newest = [*held][-1] == max(held)
        last, (*rest, item) = held.popitem()
        here = PositionRange(first=last, last=position if is_newest else last)
        before = [
            PositionRange(first=old, last=old) for old in self._in_context(position).edited.get(last, ())
        ]
        hides = hidden(self.conversation.settings(at=position), here, *before)
        return item, [ModeSwitch(hides=hides), *self._events(rest)]

    def _clear(self, position: int) -> tuple[None, list[Event]]:
        return None, [ModeSwitch(context_from=position + 1)] if self._items_by_position(position) else []


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings | None:
    """Return the settings as the SDK's type; its own sessions take a dict too.

    Raises TypeError for a name that they do not have, as the SDK's sessions do.
    """
    if not isinstance(given, dict):
        return given
    from agents import SessionSettings

    if strangers := given.keys() - {field.name for field in fields(SessionSettings)}:
        raise TypeError(f"session_settings: no such setting: {', '.join(sorted(map(str, strangers)))}")
    return SessionSettings(**given)


OURS = "openai_agents"
"""The key in `meta` of what an item says beyond its event."""
PROVIDER = "openai"
HEARD = ("user", "system", "developer")
CALLS = ("_call", "program")
GIVEN = ("action", "actions", "operation", "code")
"""The fields in which calls of tools other than functions keep their arguments."""
Item = dict[str, Any]


def openai_agents_events(given: Sequence[Item], agent: str, model: str, blobs: Blobs) -> Iterator[Event]:
    """Yield the events that take the items down, in their order; pictures and files go among the blobs."""
    for is_said, run in groupby(given, key=_is_said):
        for group in [list(run)] if is_said else [[item] for item in run]:
            event = _answer(group, agent, model) if is_said else _input_event(group[0], blobs)
            beyond = make_patch(_plain(event, blobs), group)
            yield replace(event, meta={OURS: beyond}) if beyond else event


def items_of(event: Event, blobs: Mapping[str, bytes]) -> list[Item]:
    """Return new items of an event; none if it was for no model, or is no message."""
    if not isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError) or not event.in_context:
        return []
    kept: list[Item] = apply_patch(_plain(event, blobs), as_dict(event.meta.get(OURS)))
    return kept


def _is_said(item: Item) -> bool:
    return item.get("role") not in HEARD and _answered(item) is None


def _answered(item: Item) -> str | None:
    """Return the id of the call that an item is the output of."""
    kind = as_str(item.get("type"))
    id = item.get("id") if kind == "local_shell_call_output" else item.get("call_id")
    return id if kind.endswith("_output") and isinstance(id, str) else None


def _input_event(item: Item, blobs: Blobs) -> UserMessage | ToolResult:
    """Return a message of a person's or the system's, or a tool's result."""
    call_id = _answered(item)
    if call_id is not None:
        return ToolResult(call_id=call_id, parts=_contents(item.get("output"), blobs))
    is_person = item.get("role") == "user"
    return UserMessage(
        parts=_contents(item.get("content"), blobs), author_kind="person" if is_person else "system"
    )


def _contents(content: Any, blobs: Blobs) -> tuple[UserPart, ...]:
    """Return a content (a text, parts, or a screenshot) as parts; unknown content becomes JSON text."""
    if content is None:
        return ()
    given = content if isinstance(content, list) else [content]
    return tuple(
        TextPart(text=part) if isinstance(part, str) else _content(as_dict(part), blobs) for part in given
    )


def _content(part: Item, blobs: Blobs) -> UserPart:
    match part:
        case {"type": "input_text" | "output_text", "text": str(words)}:
            return TextPart(text=words)
        case {"type": "input_image" | "computer_screenshot", "image_url": str(url)}:
            kept = keep_data_url(url, blobs)
            return ImagePart(media_type=kept[0], blob=kept[1]) if kept else ImagePart(url=url)
        case {"type": "input_file", "file_data": str(data)} if kept := keep_data_url(data, blobs):
            return FilePart(name=as_str(part.get("filename")), media_type=kept[0], blob=kept[1])
        case {"type": "input_file", "file_url": str(url)}:
            return FilePart(name=as_str(part.get("filename")), url=url)
        case _:
            return TextPart(text=compact_json(part))


def _answer(group: Sequence[Item], agent: str, model: str) -> AssistantMessage:
    parts = [part for item in group for part in _parts(item)]
    return AssistantMessage(agent=agent, model=model, parts=parts)


def _parts(item: Item) -> list[AssistantPart]:
    """Return the parts of one item of a model's; items that only OpenAI understands stay as they are."""
    kind = as_str(item.get("type"))
    if item.get("role") == "assistant":
        content = item.get("content")
        return [TextPart(text=content)] if isinstance(content, str) else [*map(_spoken, as_list(content))]
    if kind == "reasoning":
        thought = "\n".join(as_str(as_dict(part).get("text")) for part in as_list(item.get("summary")))
        encrypted = as_str(item.get("encrypted_content"))
        return [
            ReasoningPart(text=thought, provider=PROVIDER, id=as_str(item.get("id")), encrypted=encrypted)
        ]
    if kind.endswith(CALLS) and isinstance(item.get("call_id"), str):
        return [_call(item, kind)]
    return [ProviderPart(provider=PROVIDER, raw=compact_json(item))]


def _spoken(part: Any) -> AssistantPart:
    match part:
        case {"type": "output_text", "text": str(words)}:
            return TextPart(text=words)
        case {"type": "refusal", "refusal": str(words)}:
            return RefusalPart(text=words)
        case _:
            return ProviderPart(provider=PROVIDER, raw=compact_json(part))


def _call(item: Item, kind: str) -> ToolCall:
    """Return a call of a function, or of another tool that the program itself runs."""
    asked = item.get("arguments", item.get("input"))
    if asked is None:
        asked = next((item[name] for name in GIVEN if name in item), None)
    name = as_str(item.get("name")) or kind.removesuffix("_call")
    return ToolCall(id=item["call_id"], name=name, arguments=arguments(asked))


def _plain(
    event: UserMessage | AssistantMessage | ToolResult | LlmError, blobs: Mapping[str, bytes]
) -> list[Item]:
    """Return the items that an event is by itself."""
    match event:
        case UserMessage(parts=parts):
            role = "developer" if event.author_kind == "system" else "user"
            return [{"role": role, "content": _sent_content(parts, blobs)}] if parts else []
        case ToolResult(call_id=id):
            return [
                {"type": "function_call_output", "call_id": id, "output": _sent_content(event.parts, blobs)}
            ]
        case AssistantMessage():
            return [*_answers(event.parts)] if event.purpose == "answer" else []
        case LlmError():
            return [*_answers([part for part in event.parts if isinstance(part, TextPart)])]


def _sent_content(parts: Sequence[UserPart], blobs: Mapping[str, bytes]) -> str | list[Item]:
    """Return no text or one text as a string, and anything else as a list."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_shown_part(part, blobs) for part in parts]


def _shown_part(part: UserPart, blobs: Mapping[str, bytes]) -> Item:
    url = (
        data_url(part.media_type, part.blob, blobs)
        if isinstance(part, ImagePart | FilePart) and part.blob
        else ""
    )
    match part:
        case ProviderPart(raw=raw):
            return as_dict(json.loads(raw))
        case TextPart(text=words):
            return {"type": "input_text", "text": words}
        case ImagePart():
            return {"type": "input_image", "image_url": url or part.url}
        case FilePart():
            named = {"filename": part.name} if part.name else {}
            if part.id:
                return {"type": "input_file", "file_id": part.id}
            return {"type": "input_file", **named, **({"file_data": url} if url else {"file_url": part.url})}


def _answers(parts: Sequence[Part]) -> Iterator[Item]:
    """Yield the items that a model's parts are: texts that follow each other are one message."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, TextPart | RefusalPart)):
        if is_text:
            yield {"type": "message", "role": "assistant", "content": [*map(_shown_words, run)]}
            continue
        for part in run:
            match part:
                case ToolCall():
                    call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
                    yield {"type": "function_call", **call}
                case ReasoningPart() if part.provider == PROVIDER:
                    yield _thought(part)
                case ProviderPart() if part.provider == PROVIDER:
                    yield json.loads(part.raw)
                case _:
                    pass  # another provider's own: OpenAI could not read it


def _shown_words(part: Part) -> Item:
    match part:
        case RefusalPart(text=words):
            return {"type": "refusal", "refusal": words}
        case _:
            return {"type": "output_text", "text": getattr(part, "text", ""), "annotations": []}


def _thought(part: ReasoningPart) -> Item:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    known = {"id": part.id, "summary": summary, "encrypted_content": part.encrypted}
    return {"type": "reasoning"} | {
        name: value for name, value in known.items() if value or name == "summary"
    }
