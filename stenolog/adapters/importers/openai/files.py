"""The files that OpenAI chat messages come in: a list of messages, an object that holds one, a list of
tau-bench trajectories, or JSON Lines of messages or of such objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from stenolog.adapters.importers.converter import SourceConversation
from stenolog.adapters.importers.json_lines import JsonLinesReader, Record, Skipped
from stenolog.adapters.providers.json_fields import Json, as_dict, as_list
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import UnknownFormatError

from .messages import ROLES, OpenAIChat, card_of

_SAID = ("content", "tool_calls", "function_call", "refusal")
_ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def is_message(value: Json) -> bool:
    """Return whether the value is an OpenAI chat message, and not an item of another API."""
    if not isinstance(value, dict) or "type" in value or not isinstance(value.get("role"), str):
        return False
    parts = as_list(value.get("content"))
    return any(name in value for name in _SAID) and not any(
        as_dict(part).get("type") in _ANTHROPIC for part in parts
    )


def are_messages(value: Json) -> bool:
    """Return whether a value lists messages, at least one of them a chat message in a known role."""
    found = [message for message in as_list(value) if is_message(message)]
    all_have_roles = all(isinstance(as_dict(message).get("role"), str) for message in as_list(value))
    no_other_api = all(is_message(m) or not as_list(as_dict(m).get("content")) for m in as_list(value))
    return all_have_roles and no_other_api and any(message["role"] in ROLES for message in found)


def conversations_in(document: Json) -> list[SourceConversation] | None:
    """The conversations of a document; None where it is none that holds OpenAI chat messages."""
    if are_messages(document):
        return [_source_conversation("", _numbered(document))]
    if isinstance(document, dict) and are_messages(document.get("messages")):
        return [_of_object(document)]
    if (
        isinstance(document, list)
        and document
        and all(are_messages(as_dict(item).get("traj")) for item in document)
    ):
        return [_of_trajectory(trajectory) for trajectory in document]
    return None


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """The conversations of a file that was recognised as OpenAI chat messages."""
    lines = Lines(stream, reading)
    first = next(iter(lines), None)
    if first is None or first.number != 1:
        again, document = JsonLinesReader(), None
        with suppress(UnknownFormatError):
            stream.seek(0)
            document = again.document(stream)
        if document is not None:
            reading.begin()
            reading.repaired = again.repaired
            yield from conversations_in(document) or ()
            return
    if first is not None and is_message(first.value):
        yield _source_conversation("", lines, unit="line")
        return
    for record in lines:
        found = conversations_in(record.value)
        if found is None:
            reading.skipped.append(Skipped(record.number, "holds no messages"))
        yield from found or ()


class Lines:
    """The records of a file, read anew each time that they are gone through: not all of them are in memory.

    What was found on the way is told of the last time.
    """

    def __init__(self, stream: BinaryIO, reading: JsonLinesReader) -> None:
        self._stream = stream
        self._reading = reading

    def __iter__(self) -> Iterator[Record]:
        self._stream.seek(0)
        self._reading.begin()
        return self._reading.records(self._stream)


def _of_object(document: dict[str, Any]) -> SourceConversation:
    """Messages, and the answer to them where the object is the record of a call."""
    messages = list(document["messages"])
    choices = as_list(as_dict(document.get("response")).get("choices"))
    answer = as_dict(as_dict(choices[0] if choices else None).get("message"))
    if answer.get("role") == "assistant":
        messages.append(answer)
    beyond = Counter(name for name in document if name not in ("messages", "model", "tools"))
    return _source_conversation("", _numbered(messages), beyond, card_of(document))


def _of_trajectory(trajectory: dict[str, Any]) -> SourceConversation:
    name = f"task-{trajectory.get('task_id')}-trial-{trajectory.get('trial')}"
    beyond = Counter(key for key in trajectory if key not in ("traj", "task_id", "trial"))
    return _source_conversation(name, _numbered(trajectory["traj"]), beyond)


def _source_conversation(
    name: str,
    records: Iterable[Record],
    beyond: Counter[str] | None = None,
    card: AgentCard | None = None,
    unit: str = "message",
) -> SourceConversation:
    make = partial(OpenAIChat, card=card or AgentCard())
    return SourceConversation(name, records, make, Counter() if beyond is None else beyond, unit=unit)


def _numbered(messages: list[dict[str, Any]]) -> list[Record]:
    return [Record(str(number), message) for number, message in enumerate(messages, 1)]
