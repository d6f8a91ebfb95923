"""Texts of the parts of a request in its body, on any API, and the request as a table for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from stenolog.domain.lanes.state import runs_in_words
from stenolog.projections.formats.readable import text_of, tool_names
from stenolog.projections.html_table import Cells, table
from stenolog.projections.messages.body_digest import SYSTEM, conversation, turns
from stenolog.projections.messages.explanation import Omission, RequestPart
from stenolog.projections.messages.rules import HAD


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


COLUMNS = ("", "entries", "role", "what", "rule", "tokens", "text")


def request_table(request: Explained, caption: str) -> str:
    """Return a request as HTML."""
    lines = list(_in_place(request.parts, request.omissions))
    alone = Counter(part.message for part in request.parts)

    def cells(line: RequestPart | Omission) -> Cells:
        if isinstance(line, Omission):
            where = runs_in_words([(line.first, line.last)])
            if line.rule in HAD:
                return "", where, "", "held", line.rule, line.tokens, line.what
            return "", where, "", "left out", line.rule, f"{line.tokens:,} → 0", line.what
        number = line.message + 1 if line.message >= 0 else ""
        size = (
            f"{line.tokens_in:,} → {line.tokens_out:,}"
            if line.tokens_in != line.tokens_out
            else line.tokens_out
        )
        text = part_text(request, line, alone[line.message] == 1)
        where = ", ".join(map(str, line.positions))
        return number, where, line.role, line.disposition, line.rule, size, text

    return table(caption, COLUMNS, len(lines), lambda first, end: map(cells, lines[first:end]))


def _in_place(parts: Sequence[RequestPart], gone: Sequence[Omission]) -> Iterator[RequestPart | Omission]:
    waiting = sorted(gone)
    for part in parts:
        first = 0 if part.message < 0 or part.role == "system" else min(part.positions, default=0)
        while waiting and waiting[0].first < first:
            yield waiting.pop(0)
        yield part
    yield from waiting
