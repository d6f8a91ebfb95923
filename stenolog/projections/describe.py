"""Events in a few words: who, to whom, and what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import (
    ERASED,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolResult,
    Unknown,
    UserMessage,
)
from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.state import address
from stenolog.domain.values import Control

from .timeline import CUT_OFF, changes, cut_words


class Description(NamedTuple):
    """An entry in words, as they were said: nothing in them is escaped."""

    who: str
    what: str


def describe(entry: Entry) -> Description:
    """Return the entry's author and content as one line."""
    event = entry.event
    match event:
        case UserMessage(parts=parts, control=control):
            author = event.author or ("user" if event.author_kind == "person" else event.author_kind)
            return Description(_to(author, event.to), _joined(_control(control), in_words(parts)))
        case AssistantMessage(parts=parts):
            lane = address(event.agent, event.task)
            purpose = "" if event.purpose == "answer" else f"[{event.purpose}{_covers(event)}]"
            # What was said and called comes first: on one line a long thought would hide it.
            said = in_words([part for part in parts if not isinstance(part, ReasoningPart)])
            return Description(_to(lane, event.to), _joined(purpose, _cut(event), said, thoughts(event)))
        case ToolResult(parts=parts):
            return Description(event.name or "tool", _joined("✗" if event.is_error else "✓", in_words(parts)))
        case LlmError(parts=parts):
            said = f"{event.category}: {event.message}" if event.message else event.category
            kept = f"· kept: {in_words(parts)}" if parts else ""
            retry = f"· again at {event.retry_at:%H:%M:%S}" if event.retry_at else ""
            return Description(address(event.agent, event.task), _joined(said, kept, retry))
        case ModeSwitch(meta=meta):
            return Description("system", changes(event) or _joined(*(f"({owner})" for owner in meta)))
        case Unknown(topic=topic) if topic == ERASED:
            return Description("?", "erased")
        case Unknown():
            return Description("?", f"{event.topic}, which this release does not know")


def thoughts(event: Event) -> str:
    """Return what an answer thought, in words: `describe` ends with it."""
    parts = event.parts if isinstance(event, AssistantMessage) else ()
    return in_words([part for part in parts if isinstance(part, ReasoningPart)])


def _cut(event: AssistantMessage) -> str:
    return f"[{CUT_OFF}]" if cut_words(event) else ""


def in_words(parts: Sequence[Part]) -> str:
    """The parts of a message, one after the other."""
    return _joined(*(_part(part) for part in parts))


def call_in_words(call: ToolCall) -> str:
    """A tool call, as one would write it in a program."""
    return f"{call.name}({call.arguments})"


def _part(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ToolCall():
            return f"→ {call_in_words(part)}"
        case ReasoningPart(text=text):
            return f"(thinks: {text})" if text else "(thinks)"
        case RefusalPart(text=text):
            return f"(refuses: {text})"
        case ImagePart(media_type=media, url=url):
            return f"[{media}{_at(url)}]"
        case FilePart(name=name, media_type=media, url=url):
            return f"[{name or media}{_at(url)}]"
        case ProviderPart(provider=provider):
            return f"[opaque part of {provider}]"


def _at(url: str) -> str:
    return f" {url}" if url else ""


def _control(control: Control | None) -> str:
    if control is None:
        return ""
    target = control.call.entry if control.call else address(control.agent, control.task)
    return _joined(f"[{control.action}]", target)


def _covers(message: AssistantMessage) -> str:
    return "".join(f" {span.first}-{span.last}" for span in message.covers)


def _to(who: str, to: Iterable[str]) -> str:
    named = ", ".join(to)
    return f"{who} → {named}" if named else who


def _joined(*pieces: str) -> str:
    return " ".join(piece for piece in pieces if piece)
