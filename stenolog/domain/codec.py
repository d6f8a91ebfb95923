"""Events to bytes and back: a closed registry of `kind@version`.

`load(dump(event)) == event`, and `dump(load(payload)) == payload` for every payload that `dump` made.
A topic that is not registered is kept byte for byte as `Unknown`; nothing is ever imported because a
database names it. To change an event's fields, register the new class under the next version, and
an upcaster from the old one: a function from the old JSON object to the new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from .errors import CorruptLog, InvalidEvent
from .events import AssistantMessage, Event, Known, LlmError, ModeSwitch, ToolResult, Unknown, UserMessage

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Upcast:
    """How a payload of an old topic becomes one of topic `to`."""

    to: str
    change: Callable[[JsonObject], JsonObject]


class Registry:
    """Which class stands for which topic, and how old topics are brought up to date."""

    def __init__(
        self, events: Mapping[str, type[Known]], upcasts: Mapping[str, Upcast] | None = None
    ) -> None:
        self.events = MappingProxyType(dict(events))
        self.upcasts = MappingProxyType(dict(upcasts or {}))
        for old, upcast in self.upcasts.items():
            if old in self.events or (upcast.to not in self.events and upcast.to not in self.upcasts):
                raise ValueError(f"an upcast leads from {old} to {upcast.to}, which is not registered")
        self._topics = {cls: topic for topic, cls in self.events.items()}
        self._classes: dict[str, Any] = dict(self.events)

    def dump(self, event: Event) -> tuple[str, bytes]:
        """The topic and payload of an event. Raises `InvalidEvent` where it cannot be stored."""
        if isinstance(event, Unknown):
            return event.topic, event.payload
        topic = self._topics.get(type(event))
        if topic is None:
            raise InvalidEvent(f"expected one of the five kinds of event, found {type(event).__name__}")
        try:
            encoder = self._classes[topic].__pydantic_serializer__
            return topic, encoder.to_json(event, exclude_defaults=True)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InvalidEvent(f"{event.kind} cannot be written as JSON: {error}") from None

    def load(self, topic: str, payload: bytes) -> Event:
        """The event of a stored payload. Raises `CorruptLog` where the bytes are not what `dump` wrote."""
        cls = self._classes.get(topic)
        try:
            if cls is not None:
                event: Event = cls.__pydantic_validator__.validate_json(payload)
                return event
            if topic in self.upcasts:
                return self.load(*self._upcast(topic, payload))
        except ValidationError as error:
            raise CorruptLog(f"{topic} does not decode: {_first(error)}") from None
        return _unknown(topic, payload)

    def _upcast(self, topic: str, payload: bytes) -> tuple[str, bytes]:
        upcast = self.upcasts[topic]
        changed = upcast.change(json.loads(payload))
        return upcast.to, json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()


def _first(error: ValidationError) -> str:
    """The first complaint, with its place, without the payload's own words (they may be secret)."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = "/".join(str(step) for step in first["loc"])
    return f"/{place}: {first['msg']}"


def _unknown(topic: str, payload: bytes) -> Unknown:
    """An event of a later release: whether it may be passed over, and which release it needs."""
    try:
        fields = json.loads(payload)
    except ValueError:
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    return Unknown(
        topic=topic,
        payload=payload,
        ignorable=fields.get("ignorable") is True,
        needs=str(fields.get("needs") or ""),
    )


REGISTRY = Registry(
    {
        "user_message@1": UserMessage,
        "assistant_message@1": AssistantMessage,
        "tool_result@1": ToolResult,
        "llm_error@1": LlmError,
        "mode_switch@1": ModeSwitch,
    }
)
