"""Texts of the parts of a request in its body, on any API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stenolog.projections.formats.readable import text_of, tool_names
from stenolog.projections.messages.body_digest import SYSTEM, conversation, turns
from stenolog.projections.messages.explanation import Omission, RequestPart


class Explained(Protocol):
    """A request with what shows its parts."""

    @property
    def body(self) -> Mapping[str, Any]:
        """The provider's JSON body."""
        ...

    @property
    def messages_key(self) -> str:
        """The key of the messages in the body."""
        ...

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """The source of each part."""
        ...

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """The parts that were left out."""
        ...


def messages(request: Explained) -> Sequence[Any]:
    """Return a body's messages; the turns of a plain prompt."""
    return turns(conversation(request.body, request.messages_key))


def part_text(request: Explained, part: RequestPart, alone: bool) -> str:
    """Return the part's text in the body. `alone`: it is the only part of its message.

    "" for a part without a text of its own that shares its message.
    """
    if part.text:
        return part.text
    if part.role == "tools":
        return ", ".join(tool_names(request.body.get("tools", ())))
    if part.message < 0:
        return text_of(next((request.body[key] for key in SYSTEM if key in request.body), ""))
    return text_of(messages(request)[part.message]) if alone else ""
