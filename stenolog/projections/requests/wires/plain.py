"""Plain text, for agents that take a prompt: `User: …`, `Assistant (Name): …`, `Tool (name): …`.

The law: a line begins with such a marker only where stenolog put it. A forged one is written with a
backslash before it. In what a tool or another agent says, no delimiter of a quotation can begin or end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stenolog.domain.parts import Part, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.projections.requests.pipeline.attribution import call_in_prose
from stenolog.projections.requests.pipeline.prompt import Prefix
from stenolog.projections.requests.pipeline.quoting import escape, label, placeholder, unforged
from stenolog.projections.requests.request import Body, Message
from stenolog.projections.tool_pairs import CallKey

from .body_builder import BodyBuilder, media
from .writer import Writer

NAME = "plain"
VERSION = 1


class PlainWriter(Writer):
    """Writes the body `{"model": …, "prompt": …}`; a blank line stands between two turns."""

    def begin(self) -> None:
        self.turns: list[str] = []
        self.names: dict[CallKey, str] = {}
        if self.prefix.persona:
            self.turns.append(f"System: {unforged(self.prefix.persona)}")
            self.sheet.explain_persona(self.prefix, message=0, written=unforged)

    def write(self, pieces: Sequence[Message]) -> None:
        for piece in pieces:
            calls = [part.name for part in piece.parts if isinstance(part, ToolCall)]
            self.names.update(zip(piece.calls, calls, strict=False))
            words = "\n".join(word for part in piece.parts if (word := _part_text(self.sheet, piece, part)))
            # The words of a tool or of another author must not begin or end a quotation.
            if piece.role == "tool" or piece.speaker:
                words = escape(words)
            words = "\n".join(
                [*([words] if words else []), *(placeholder(part, "not shown") for part in media(piece))]
            )
            # A tool that gave nothing back is said to have answered.
            if words or piece.role == "tool":
                self.turns.append(f"{_label(piece, self.names, self.prefix)}: {unforged(words)}")
                self.sheet.explain(piece, self.turns[-1], message=len(self.turns) - 1)

    def close(self, pieces: Sequence[Message]) -> Body:
        self.write(pieces)
        return {"model": self.prefix.model, "prompt": "\n\n".join(self.turns)}

    def body(self, pieces: Sequence[Message]) -> Body:
        written = len(self.turns)
        made = self.close(pieces)
        del self.turns[written:]
        return made


def _label(piece: Message, names: Mapping[CallKey, str], prefix: Prefix) -> str:
    """Return the speaker's label; a tool has one also if its result is shown as text."""
    if piece.role == "assistant":
        role, name = "Assistant", prefix.speaker
    elif piece.by == "tool" or piece.role == "tool":
        role, name = "Tool", piece.tool or (names.get(piece.call, "") if piece.call else "")
    else:
        role, name = "Assistant" if piece.by == "agent" else piece.role.capitalize(), piece.speaker
    return f"{role} ({label(name)})" if name else role


def _part_text(sheet: BodyBuilder, piece: Message, part: Part) -> str:
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return call_in_prose(name, arguments)
        case ReasoningPart() | ProviderPart() if piece.role == "assistant":
            sheet.omit(piece, part)
        case _:
            pass
    return ""
