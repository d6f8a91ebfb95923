"""Plain text, for agents that take a prompt: `User: …`, `Assistant (Name): …`, `Tool (name): …`.

The law: a line begins with such a marker only where stenolog put it. A forged one is written with a
backslash before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stenolog.domain.parts import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from stenolog.projections.pairing import CallKey
from stenolog.projections.requests.model import Piece, Rendered
from stenolog.projections.requests.prefix import Prefix
from stenolog.projections.requests.quoting import label, unforged
from stenolog.projections.requests.voice import call_in_prose

from .sheet import Sheet, media, placeholder

NAME = "plain"
VERSION = 1


def render(pieces: Sequence[Piece], prefix: Prefix, blobs: Mapping[str, bytes]) -> Rendered:
    """The body `{"model": …, "prompt": …}`; a blank line stands between two turns."""
    sheet = Sheet(blobs, prefix.counter)
    turns: list[str] = []
    if prefix.persona:
        turns.append(f"System: {unforged(prefix.persona)}")
        sheet.explain_persona(prefix, message=0)
    names: dict[CallKey, str] = {}
    for piece in pieces:
        calls = [part.name for part in piece.parts if isinstance(part, ToolCall)]
        names.update(zip(piece.calls, calls, strict=False))
        words = "\n".join(word for part in piece.parts if (word := _words(sheet, piece, part)))
        words = "\n".join(
            [*([words] if words else []), *(placeholder(part, "not shown") for part in media(piece))]
        )
        if words or piece.role == "tool":
            turns.append(f"{_label(piece, names, prefix)}: {unforged(words)}")
            sheet.explain(piece, turns[-1], message=len(turns) - 1)
    return sheet.rendered({"model": prefix.model, "prompt": "\n\n".join(turns)})


def _label(piece: Piece, names: Mapping[CallKey, str], prefix: Prefix) -> str:
    """Who speaks: a tool also where its result is shown as text."""
    if piece.role == "assistant":
        role, name = "Assistant", prefix.speaker
    elif piece.by == "tool" or piece.role == "tool":
        role, name = "Tool", piece.tool or (names.get(piece.call, "") if piece.call else "")
    else:
        role, name = "Assistant" if piece.by == "agent" else piece.role.capitalize(), piece.speaker
    return f"{role} ({label(name)})" if name else role


def _words(sheet: Sheet, piece: Piece, part: Part) -> str:
    match part:
        case Text(text=text) | Refusal(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return call_in_prose(name, arguments)
        case Reasoning() | Opaque() if piece.role == "assistant":
            sheet.omit(piece, part)
        case _:
            pass
    return ""
