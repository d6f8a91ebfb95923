"""A body, read as a list of messages is, and written again for the card that it shows."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from stenolog import AgentCard, Entry, ModeSwitch, Request
from stenolog.importers import events_from
from stenolog.projections.formats import FORMATS, reader_of
from stenolog.projections.formats.reading import read_tool
from stenolog.requests import build
from stenolog.testing import entries

READ = [name for name, format in FORMATS.items() if format.read is not None]
"""The formats that have a reader."""


class Kept(dict[str, bytes]):
    """Blobs that a reader fills, as it fills those of a log."""

    @property
    def blobs(self) -> Kept:
        return self

    def put(self, content: bytes) -> None:
        self[sha256(content).hexdigest()] = content


def log_of(api: str, body: dict[str, Any]) -> tuple[list[Entry], Kept]:
    """Return the log that a body leads to, and its blobs."""
    reader, blobs = reader_of(api), Kept()
    messages = messages_of(api, body)
    first = 1 if reader.instructs_by_message and reader.system(body) else 0
    said = events_from(messages[first:], agent="coder", model=str(body["model"]), log=blobs)  # type: ignore[arg-type]
    opened = [event.cards["coder"] for event in said if isinstance(event, ModeSwitch)]
    told = filter(None, [*reader.system(body), *(card.persona for card in opened if card is not None)])
    card = AgentCard(
        model=str(body["model"]),
        persona="\n\n".join(told),
        tools=[read_tool(tool, reader.provider) for tool in reader.tools(body)] or None,
        parameters=dict(reader.beside),
    )
    switch = ModeSwitch(joins=["coder"], cards={"coder": card})
    return entries(switch, *(event for event in said if not isinstance(event, ModeSwitch))), blobs


def written_again(api: str, body: dict[str, Any]) -> Request:
    """Return the request for what was read of a body."""
    log, blobs = log_of(api, body)
    return build(log, "coder", api=api, blobs=blobs)


def messages_of(api: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a body, as another program would have them."""
    made: list[dict[str, Any]] = json.loads(json.dumps(body[FORMATS[api].messages]))
    return made
