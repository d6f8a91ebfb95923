"""The messages in the channels of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from .messages import clean
from .stored_values import Ref, ValueLink, items_of, sha_of

_MISSING = object()
SPOKEN_IN = ("__root__", "__previous__")
"""Channels of a graph without names for its state, and of an `@entrypoint`: what it saves."""


class ChannelMessage(NamedTuple):
    """A message in a channel; `id` is its own, empty where it has none. `place` tells those from others."""

    channel: str
    id: str
    place: str
    message: BaseMessage
    sha: str

    @property
    def key(self) -> str:
        """The key that identifies the message in its thread."""
        return key_of(self.channel, self.id) if self.id else f"{self.channel}{self.place}"

    @property
    def call_ids(self) -> list[str]:
        """The ids of the calls that it makes."""
        if not isinstance(self.message, AIMessage):
            return []
        calls = [*self.message.tool_calls, *self.message.invalid_tool_calls]
        return [clean(call["id"] or "") for call in calls]


def key_of(channel: str, id: str) -> str:
    """The key of the messages of that id."""
    return f"{channel}:{id}"


def messages_in(
    values: Mapping[str, Any], refs: Mapping[str, Ref], links: Mapping[str, ValueLink], place: str = ""
) -> list[list[ChannelMessage]]:
    """The messages of each channel, the most first: a single one beside a list is often of that list.

    LangGraph's own channels, but two, hold what comes into these later.
    """
    channels = (name for name in values if not name.startswith("__") or name in SPOKEN_IN)
    found = [[*_of_channel(name, values[name], refs[name], links, place)] for name in channels]
    return sorted(found, key=len, reverse=True)


def _of_channel(
    name: str, value: Any, ref: Ref, links: Mapping[str, ValueLink], place: str
) -> Iterator[ChannelMessage]:
    if type(value) is _DeltaSnapshot:
        value, ref = value.value, ref.get("delta")
    is_one = isinstance(value, BaseMessage)
    several = [value] if is_one else value if type(value) is list else []
    items = [ref] if is_one else items_of(ref, links)
    for nth, (message, item) in enumerate(zip(several, items, strict=False)):
        if isinstance(message, BaseMessage) and (sha := sha_of(item)):
            yield ChannelMessage(name, clean(message.id or ""), f"{place}[{nth}]", message, sha)


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint's metadata has all these values.

    A key's dots may lead into nested mappings.
    """
    return all(_at(metadata, key) == value for key, value in wanted.items())


def _at(metadata: Mapping[str, Any], key: str) -> Any:
    if key in metadata:
        return metadata[key]
    first, _, rest = key.partition(".")
    inner = metadata.get(first)
    return _at(inner, rest) if rest and isinstance(inner, Mapping) else _MISSING
