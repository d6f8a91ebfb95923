"""Exporters: the formats that a conversation is written in, as registered values.

TO_NOTES = Exporter("notes", "my notes", write)
EXPORTERS.add(TO_NOTES.name, TO_NOTES)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from stenolog.adapters.plugins import LazyRegistry
from stenolog.adapters.store.handle import StreamHandle
from stenolog.domain.errors import CallerError
from stenolog.projections.requests import lanes


@dataclass(frozen=True)
class Exporter:
    """A format that a conversation is written in: to a stream, or into a folder.

    `write(conversation, stream, agent)` writes text; `agent` is the one whose messages are wanted, empty
    where `of_one_agent` is False. `write_folder(conversation, folder)` returns the file that it wrote.
    """

    name: str
    title: str
    write: Callable[..., object] | None = None
    write_folder: Callable[..., Path] | None = None
    of_one_agent: bool = False


EXPORTERS: LazyRegistry[Exporter] = LazyRegistry("a format to export")
"""Every exporter by its name."""
_SHIPPED = "stenolog.adapters.importers.shipped"
for _name in ("jsonl", "openai", "markdown", "html"):
    EXPORTERS.add_reference(_name, f"{_SHIPPED}:TO_{_name.upper()}")


def export(conversation: StreamHandle, form: str, agent: str) -> str:
    """Return a conversation as text.

    Raises `NotRegisteredError` for a form that no exporter has, and `CallerError` for one that is written
    into a folder, or for one agent where several take part and none is named.
    """
    exporter = EXPORTERS[form]
    if exporter.write is None:
        raise CallerError(f"{form!r} is written into a folder: expected a form of text, such as 'jsonl'")
    stream = StringIO()
    exporter.write(conversation, stream, _whose(conversation, exporter, agent))
    return stream.getvalue()


def _whose(conversation: StreamHandle, exporter: Exporter, agent: str) -> str:
    if agent and not exporter.of_one_agent:
        raise CallerError(f"{exporter.name!r} is of all agents: expected no agent, found {agent!r}")
    if agent or not exporter.of_one_agent:
        return agent
    known = sorted({lane.agent for lane in lanes(conversation.entries())})
    if len(known) != 1:
        if not known:
            raise CallerError(
                f"{exporter.name!r} is of one agent: no agent has answered yet; say whose it is: agent=NAME"
            )
        raise CallerError(f"{exporter.name!r} is of one agent: expected agent=, one of: {', '.join(known)}")
    return known[0]
