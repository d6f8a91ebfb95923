"""Events to bytes and back: a closed registry of `kind@version`.

`load(dump(event)) == event`, and `dump(load(payload)) == payload` for every payload that `dump` made. JSON in
another form (blanks, order, defaults, repeated keys: the last counts) loads too. The log keeps its bytes. A
topic that is not registered stays `Unknown`, byte for byte.

A new field with a default needs no new version: it is left out of the bytes, so old payloads load and stay as
they are. An earlier release refuses only entries that have it. For any other change of fields or defaults,
register the new class under the next version, and an upcaster from the old JSON object to the new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from stenolog.domain.erasure import WORDLESS

from .base.model import first_error
from .errors import CorruptLogError, InvalidEventError
from .events import AssistantMessage, Event, Known, LlmError, ModeSwitch, ToolResult, Unknown, UserMessage

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Upcast:
    """An upcast: `change` turns a payload of an old topic into one of topic `to`."""

    to: str
    change: Callable[[JsonObject], JsonObject]


# Closed: no class is ever imported because a database names it.
class TopicRegistry:
    """The class of each topic, and the upcasts that bring old topics up to date."""

    def __init__(
        self, events: Mapping[str, type[Known]], upcasts: Mapping[str, Upcast] | None = None
    ) -> None:
        self.events = MappingProxyType(dict(events))
        self.upcasts = MappingProxyType(dict(upcasts or {}))
        for old in self.upcasts:
            # Checked when the registry is made, so that no entry of a log meets a broken upcast.
            if old in self.events or self._newest(old) not in self.events:
                raise ValueError(f"the upcasts from {old} must lead from an old topic to one of an event")
        self._topics = {cls: topic for topic, cls in self.events.items()}
        self._classes: dict[str, Any] = dict(self.events)

    def topics(self, kinds: Iterable[type[Event]]) -> tuple[str, ...]:
        """Return the topics, old ones too, of these kinds."""
        wanted = set(kinds)
        known = (*self.events, *self.upcasts)
        return tuple(topic for topic in known if self.events[self._newest(topic)] in wanted)

    def dump(self, event: Event) -> tuple[str, bytes]:
        """Return the topic and payload of an event. Raises `InvalidEventError` if it cannot be stored."""
        if isinstance(event, Unknown):
            return self._dump_unknown(event)
        topic = self._topics.get(type(event))
        if topic is None:
            raise InvalidEventError(_no_event(event))
        try:
            encoder = self._classes[topic].__pydantic_serializer__
            # Defaults are left out: small events stay small, and a later release can add a field.
            return topic, encoder.to_json(event, exclude_defaults=True)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InvalidEventError(f"{event.kind} cannot be written as JSON: {error}") from None

    def load(self, topic: str, payload: bytes) -> Event:
        """Return the event of a stored payload; `Unknown` for an unknown topic.

        Raises `CorruptLogError` for a payload that is no event of its topic, and for an impossible topic.
        """
        cls = self._classes.get(topic)
        try:
            if cls is not None:
                # Past the constructor, which prepares what callers give.
                event: Event = cls.__pydantic_validator__.validate_json(payload)
                return event
            if topic in self.upcasts:
                # One step at a time, so an upcaster is written once, to the next version only.
                return self.load(*self._upcast(topic, payload))
        except ValidationError as error:
            raise CorruptLogError(
                f"{topic} does not decode: {first_error(error, cls, found=_type_of)}"
            ) from None
        # A damaged row may have any bytes for a topic, and nothing else may tell that it is damaged.
        if not _may_be_topic(topic):
            raise CorruptLogError(f"expected a topic such as user_message@1, found {topic!r:.60}")
        return _unknown(topic, payload)

    def _dump_unknown(self, event: Unknown) -> tuple[str, bytes]:
        known = event.topic in self.events or event.topic in self.upcasts
        # An `Unknown` must load as what it is, and must not pass for a kind that is known.
        if known or not _may_be_topic(event.topic) or event != _unknown(event.topic, event.payload):
            raise InvalidEventError(
                f"unknown event {event.topic!r:.60}: expected a topic that this release does not know, "
                "and of `ignorable` and `needs` what the payload says"
            )
        return event.topic, event.payload

    def _upcast(self, topic: str, payload: bytes) -> tuple[str, bytes]:
        upcast = self.upcasts[topic]
        try:
            return upcast.to, to_json(upcast.change(from_json(payload)))
        # An upcaster is made for what `dump` wrote, and may fail on anything else in its own way.
        except Exception as error:
            raise CorruptLogError(f"{topic} cannot be made {upcast.to}: {type(error).__name__}") from error

    def _newest(self, topic: str) -> str:
        # As many steps as there are upcasts, so that a circle ends.
        for _ in self.upcasts:
            topic = self.upcasts[topic].to if topic in self.upcasts else topic
        return topic


def _may_be_topic(topic: str) -> bool:
    return bool(topic) and topic.isprintable()


def _type_of(value: object) -> str:
    # Stored words do not belong into an error, which may come into a log file.
    return type(value).__name__


def _no_event(found: object) -> str:
    what = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
    match found:
        case type():
            how = f"; a value of it is {found.__name__}(...)"
        case str():
            how = "; of a text, UserMessage('hi') makes one"
        case dict():
            how = "; for a chat message: conversation.extend(events_from([message], agent=...))"
        case list() | tuple():
            how = "; for chat messages: conversation.extend(events_from(messages, agent=...))"
        case _:
            how = ""
    return f"expected one of the five kinds of event, found {what}{how}"


def _unknown(topic: str, payload: bytes) -> Unknown:
    """Return an event without words, or one of a later release that may be `ignorable`."""
    if topic in WORDLESS and not payload:
        return Unknown(topic=topic, payload=b"", ignorable=True)
    try:
        fields = from_json(payload)
    except ValueError:
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    needs = fields.get("needs")
    return Unknown(
        topic=topic,
        payload=payload,
        # `true` alone: an entry that must not be passed over stops the conversation here.
        ignorable=fields.get("ignorable") is True,
        needs=needs if isinstance(needs, str) and needs.isprintable() else "",
    )


REGISTRY = TopicRegistry(
    {
        "user_message@1": UserMessage,
        "assistant_message@1": AssistantMessage,
        "tool_result@1": ToolResult,
        "llm_error@1": LlmError,
        "mode_switch@1": ModeSwitch,
    }
)


def dump_event(event: Event) -> tuple[str, bytes]:
    """Return the topic and payload of an event, as a log stores them. Raises `InvalidEventError`."""
    return REGISTRY.dump(event)


def load_event(topic: str, payload: bytes) -> Event:
    """Return the event of a stored topic and payload. Raises `CorruptLogError` if they do not fit."""
    return REGISTRY.load(topic, payload)
