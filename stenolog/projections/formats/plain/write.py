"""Plain text, for agents that take a prompt: `User: …`, `Assistant (Name): …`, `Tool (name): …`.

Only stenolog begins a line with such a marker. A forged one gets a backslash before it. No delimiter of a
quotation can begin or end in a tool's or another agent's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stenolog.domain.parts import Part, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.projections.formats.body_builder import BodyBuilder, media
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages import quoting
from stenolog.projections.messages.message import Body, Message, Preamble
from stenolog.projections.views.tool_pairs import CallKey

NAME = "plain"
VERSION = 1


class PlainWriter(Writer):
    """Writer of the body `{"model": …, "prompt": …}`, with a blank line between two turns."""

    def begin(self) -> None:
        self.turns: list[str] = []
        self.names: dict[CallKey, str] = {}
        # Until pipeline 6 a sign that only looks like ours passed, and so did a long label.
        before = self.preamble.version < 6
        self.unforged, self.escape = (
            (quoting.unforged, quoting.escape) if before else (quoting.unmarked, quoting.without_delimiters)
        )
        if self.preamble.persona:
            self.turns.append(f"System: {self.unforged(self.preamble.persona)}")
            self.builder.explain_persona(self.preamble, message=0, written=self.unforged)

    @property
    def is_storable(self) -> bool:
        """False: its turns are no messages."""
        return False

    def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
            self.names.update(zip(message.calls, calls, strict=False))
            words = "\n".join(
                word for part in message.parts if (word := _part_text(self.builder, message, part))
            )
            # The words of a tool or of another author must not begin or end a quotation.
            if message.role == "tool" or message.speaker:
                words = self.escape(words)
            words = "\n".join(
                [
                    *([words] if words else []),
                    *(quoting.placeholder(part, "not shown") for part in media(message)),
                ]
            )
            # A tool that gave nothing back is said to have answered.
            if words or message.role == "tool":
                self.turns.append(f"{_label(message, self.names, self.preamble)}: {self.unforged(words)}")
                self.builder.explain(message, self.turns[-1], index=len(self.turns) - 1)

    def close(self, messages: Sequence[Message]) -> Body:
        self.write(messages)
        return {"model": self.preamble.model, "prompt": "\n\n".join(self.turns)}

    def body(self, messages: Sequence[Message]) -> Body:
        written = len(self.turns)
        made = self.close(messages)
        del self.turns[written:]
        return made


def _label(message: Message, names: Mapping[CallKey, str], preamble: Preamble) -> str:
    """Return the speaker's label; a tool has one also if its result is shown as text."""
    if message.role == "assistant":
        role, name = "Assistant", preamble.speaker
    elif message.by == "tool" or message.role == "tool":
        role, name = "Tool", message.tool or (names.get(message.call, "") if message.call else "")
    else:
        role, name = "Assistant" if message.by == "agent" else message.role.capitalize(), message.speaker
    return f"{role} ({quoting.label(name)})" if name else role


def _part_text(builder: BodyBuilder, message: Message, part: Part) -> str:
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return quoting.call_in_prose(name, arguments)
        case ReasoningPart() | ProviderPart() if message.role == "assistant":
            builder.omit(message, part)
        case _:
            pass
    return ""
