"""Stage 2, voice: who seems to say it. Own words are the assistant's, the user's are the user's, and
everybody else's are quoted, with their tool calls as prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import File, Image, Part, Refusal, Text, ToolCall
from stenolog.domain.state import address
from stenolog.projections.pairing import CallKey, Pairing

from .model import Piece
from .quoting import escape, note, quote
from .tokens import count_parts
from .visible import INTERRUPTIONS, Lane, Visible


def voice(seen: Visible, lane: Lane, pairing: Pairing) -> list[Piece]:
    """What the lane is shown, piece by piece, in the order it is shown in."""
    said = [piece for entry in seen.shown for piece in _pieces(entry, lane, pairing, seen.owners)]
    return list(_merge_notes(said))


def _pieces(entry: Entry, lane: Lane, pairing: Pairing, owners: dict[int, Event]) -> Iterator[Piece]:
    match entry.event:
        case UserMessage() as message:
            yield _user(entry.position, message)
        case AssistantMessage() as message if message.covers or message.purpose == "summary":
            text = Text(text=quote("summary", message.text))
            tokens = count_parts(message.parts)
            yield Piece("user", (text,), (entry.position,), "summary", "reworded", tokens_in=tokens)
        case AssistantMessage() as message if lane.owns(message):
            yield _own(entry.position, message)
        case AssistantMessage() as message:
            yield _others(entry.position, message)
        case ToolResult() as result:
            yield _result(entry.position, result, lane, pairing, owners)
        case LlmError() as error:
            yield from _error(entry.position, error, lane.owns(error))
        case _:
            pass


def _user(position: int, message: UserMessage) -> Piece:
    parts = said_aloud(message.parts)
    if message.author_kind == "system":
        return Piece("system", parts, (position,), "system-note")
    if message.author_kind == "person" and not message.author:
        return Piece("user", parts, (position,), "user")
    return Piece(
        "user",
        parts,
        (position,),
        "attributed",
        "reworded",
        speaker=message.author or message.author_kind,
        by_agent=message.author_kind == "agent",
    )


def _own(position: int, message: AssistantMessage) -> Piece:
    source = message.source
    return Piece(
        "assistant",
        said_aloud(message.parts),
        (position,),
        "own" if message.purpose == "answer" else message.purpose,
        calls=tuple(CallKey(position, nth) for nth in range(len(message.tool_calls))),
        joins=f"{source.system}:{source.id}" if source is not None and source.id else "",
        model=message.model,
    )


def _others(position: int, message: AssistantMessage | LlmError, ending: str = "") -> Piece:
    text = "\n".join([in_prose(message.parts), *([ending] if ending else [])])
    said = (Text(text=text),) if text.strip() else ()
    speaker = address(message.agent, message.task)
    return Piece("user", said, (position,), "attributed", "reworded", speaker=speaker, by_agent=True)


def _result(
    position: int, result: ToolResult, lane: Lane, pairing: Pairing, owners: dict[int, Event]
) -> Piece:
    key, owner = pairing.calls.get(position), owners.get(position)
    if key is not None and owner is not None and lane.owns(owner):
        name = owner.tool_calls[key.nth].name if isinstance(owner, AssistantMessage) else result.name
        return _tool(position, result, "result", name)._replace(call=key)
    rule = "attributed" if key else "second-result" if position in pairing.second else "orphan-result"
    return in_prose_result(_tool(position, result, rule, result.name))


def _tool(position: int, result: ToolResult, rule: str, name: str) -> Piece:
    return Piece(
        "tool",
        tuple(result.parts),
        (position,),
        rule,
        failed=result.is_error,
        tool=name,
        raw_id=result.call_id,
    )


def in_prose_result(piece: Piece) -> Piece:
    """A result that cannot stand as one, as quoted text that names its call."""
    said = "\n".join(part.text for part in piece.parts if isinstance(part, Text))
    text = quote(
        "tool-result", said, call=piece.raw_id, tool=piece.tool, failed="yes" if piece.failed else ""
    )
    shown = (Text(text=text), *(part for part in piece.parts if isinstance(part, Image | File)))
    return piece._replace(
        role="user", parts=shown, disposition="reworded", call=None, tokens_in=count_parts(piece.parts)
    )


def _error(position: int, error: LlmError, own: bool) -> Iterator[Piece]:
    """The partial text for good, so that "continue" has an anchor; and what went wrong."""
    partial = in_prose(error.parts)
    if not own:
        if partial.strip():
            yield _others(position, error, note("cut off"))
        return
    if partial.strip():
        yield Piece("assistant", (Text(text=partial),), (position,), "partial")
    rule = "interrupted-note" if error.category in INTERRUPTIONS else "error-note"
    if partial.strip():
        rule = f"cut-off-{rule}"
    yield Piece("user", (Text(text=note(_what_happened(error, partial))),), (position,), rule, "added")


def _what_happened(error: LlmError, partial: str) -> str:
    message = escape(" ".join(error.message.split()))
    reason = f"{error.category}: {message}" if message else error.category
    if error.category == "cancelled":
        return "your answer was interrupted by the user" if partial.strip() else "interrupted by the user"
    return f"your answer was cut off ({reason})" if partial.strip() else f"your answer failed ({reason})"


def said_aloud(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts without texts that hold nothing but blanks; no provider takes those."""
    return tuple(part for part in parts if not (isinstance(part, Text | Refusal) and not part.text.strip()))


def in_prose(parts: Iterable[Part]) -> str:
    """What was said as one text, tool calls written out."""
    lines = []
    for part in parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                lines.append(text)
            case ToolCall(name=name, arguments=arguments):
                lines.append(call_in_prose(name, arguments))
            case _:
                pass
    return "\n".join(lines)


def call_in_prose(name: str, arguments: str) -> str:
    """A tool call as a line of text."""
    return f"[calls {name} {arguments}]"


def _merge_notes(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Errors that follow each other become one note; those that cut a text off stay with it."""
    held: Piece | None = None
    for piece in pieces:
        if held is not None and piece.rule == held.rule == "error-note":
            held = held._replace(parts=held.parts + piece.parts, positions=held.positions + piece.positions)
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held
