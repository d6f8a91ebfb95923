"""The files that OpenAI chat messages come in: a list of messages, an object that holds one, a list of
tau-bench trajectories, or JSON Lines of messages or of such objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from stenolog.domain.errors import NotATranscript
from stenolog.domain.values import Card

from ..fields import Json, items, obj
from ..lines import Reading, Record, Skipped
from ..told import Told
from .messages import ROLES, OpenAIChat, card_of

_SAID = ("content", "tool_calls", "function_call", "refusal")
_ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def is_message(value: Json) -> bool:
    """Whether it is an OpenAI chat message, and not an item of another API."""
    if not isinstance(value, dict) or "type" in value or not isinstance(value.get("role"), str):
        return False
    parts = items(value.get("content"))
    return any(name in value for name in _SAID) and not any(
        obj(part).get("type") in _ANTHROPIC for part in parts
    )


def are_messages(value: Json) -> bool:
    """Whether it is a list of messages, at least one of them an OpenAI chat message in a known role."""
    found = [message for message in items(value) if is_message(message)]
    all_have_roles = all(isinstance(obj(message).get("role"), str) for message in items(value))
    no_other_api = all(is_message(m) or not items(obj(m).get("content")) for m in items(value))
    return all_have_roles and no_other_api and any(message["role"] in ROLES for message in found)


def conversations_in(document: Json) -> list[Told] | None:
    """The conversations of a document; None where it is none that holds OpenAI chat messages."""
    if are_messages(document):
        return [_told("", _numbered(document))]
    if isinstance(document, dict) and are_messages(document.get("messages")):
        return [_of_object(document)]
    if (
        isinstance(document, list)
        and document
        and all(are_messages(obj(item).get("traj")) for item in document)
    ):
        return [_of_trajectory(trajectory) for trajectory in document]
    return None


def read(stream: BinaryIO, reading: Reading) -> Iterator[Told]:
    """The conversations of a file that was recognised as OpenAI chat messages."""
    lines = Lines(stream, reading)
    first = next(iter(lines), None)
    if first is None or first.number != 1:
        again, document = Reading(), None
        with suppress(NotATranscript):
            stream.seek(0)
            document = again.document(stream)
        if document is not None:
            reading.begin()
            reading.repaired = again.repaired
            yield from conversations_in(document) or ()
            return
    if first is not None and is_message(first.value):
        yield _told("", lines, unit="line")
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

    def __init__(self, stream: BinaryIO, reading: Reading) -> None:
        self._stream = stream
        self._reading = reading

    def __iter__(self) -> Iterator[Record]:
        self._stream.seek(0)
        self._reading.begin()
        return self._reading.records(self._stream)


def _of_object(document: dict[str, Any]) -> Told:
    """Messages, and the answer to them where the object is the record of a call."""
    messages = list(document["messages"])
    choices = items(obj(document.get("response")).get("choices"))
    answer = obj(obj(choices[0] if choices else None).get("message"))
    if answer.get("role") == "assistant":
        messages.append(answer)
    beyond = Counter(name for name in document if name not in ("messages", "model", "tools"))
    return _told("", _numbered(messages), beyond, card_of(document))


def _of_trajectory(trajectory: dict[str, Any]) -> Told:
    name = f"task-{trajectory.get('task_id')}-trial-{trajectory.get('trial')}"
    beyond = Counter(key for key in trajectory if key not in ("traj", "task_id", "trial"))
    return _told(name, _numbered(trajectory["traj"]), beyond)


def _told(
    name: str,
    records: Iterable[Record],
    beyond: Counter[str] | None = None,
    card: Card | None = None,
    unit: str = "message",
) -> Told:
    make = partial(OpenAIChat, card=card or Card())
    return Told(name, records, make, Counter() if beyond is None else beyond, unit=unit)


def _numbered(messages: list[dict[str, Any]]) -> list[Record]:
    return [Record(str(number), message) for number, message in enumerate(messages, 1)]
