"""Stage 2, voice: who seems to say it. Own words are the assistant's, the user's are the user's, and
everybody else's are quoted, with their tool calls as prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import File, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from stenolog.domain.state import address
from stenolog.projections.pairing import CallKey, Pairing

from .model import Piece
from .quoting import escape, note, quote
from .tokens import count_parts
from .visible import INTERRUPTIONS, Lane, Visible


def voice(seen: Visible, lane: Lane, pairing: Pairing) -> list[Piece]:
    """What the lane is shown, piece by piece, in the order it is shown in."""
    return [piece for entry in seen.shown for piece in _pieces(entry, lane, pairing, seen.owners)]


def _pieces(entry: Entry, lane: Lane, pairing: Pairing, owners: dict[int, Event]) -> Iterator[Piece]:
    match entry.event:
        case UserMessage() as message:
            yield _user(entry.position, message)
        case AssistantMessage() as message if message.covers or message.purpose == "summary":
            yield _kept_fact(entry.position, message, "summary")
        case AssistantMessage(purpose="memory" | "routing") as message:
            yield _kept_fact(entry.position, message, message.purpose)
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
        by="agent" if message.author_kind == "agent" else "user",
    )


def _kept_fact(position: int, message: AssistantMessage, what: str) -> Piece:
    """A summary, a memory or a routing: no turn of the lane's, but something it is told."""
    said = in_prose(message.parts)
    text = (Text(text=quote(what, said)),) if said.strip() else ()
    tokens = count_parts(message.parts)
    unsaid = unspoken(message.parts)
    return Piece("user", text, (position,), what, "reworded", tokens_in=tokens, unsaid=unsaid)


def _own(position: int, message: AssistantMessage) -> Piece:
    source = message.source
    return Piece(
        "assistant",
        said_aloud(message.parts),
        (position,),
        "own",
        calls=tuple(CallKey(position, nth) for nth in range(len(message.tool_calls))),
        joins=f"{source.system}:{source.id}" if source is not None and source.id else "",
        model=message.model,
    )


def _others(position: int, message: AssistantMessage | LlmError, ending: str = "") -> Piece:
    text = "\n".join([in_prose(message.parts), *([ending] if ending else [])])
    said = (Text(text=text),) if text.strip() else ()
    speaker = address(message.agent, message.task)
    unsaid = unspoken(message.parts)
    return Piece(
        "user", said, (position,), "attributed", "reworded", speaker=speaker, by="agent", unsaid=unsaid
    )


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
        role="user",
        by="tool",
        parts=shown,
        disposition="reworded",
        call=None,
        tokens_in=count_parts(piece.parts),
    )


def _error(position: int, error: LlmError, own: bool) -> Iterator[Piece]:
    """The partial text for good, so that "continue" has an anchor; and what went wrong."""
    partial = in_prose(error.parts)
    stops = error.category in INTERRUPTIONS
    whose = "your" if own else "the"
    what = _what_happened(error, f"{whose} answer", cut_off=bool(partial.strip()))
    if not own:
        yield _others(position, error, note(what))
        return
    unsaid = unspoken(error.parts)
    if partial.strip():
        said = (Text(text=partial),)
        yield Piece("assistant", said, (position,), "partial", interrupts=stops, unsaid=unsaid)
    rule = "interrupted-note" if stops else "error-note"
    rule = f"cut-off-{rule}" if partial.strip() else rule
    text = (Text(text=note(what)),)
    unsaid = () if partial.strip() else unsaid
    yield Piece("user", text, (position,), rule, "added", interrupts=stops, unsaid=unsaid)


def _what_happened(error: LlmError, answer: str, *, cut_off: bool) -> str:
    message = escape(" ".join(error.message.split()))
    if error.category == "cancelled":
        what = f"{answer} was interrupted by the user" if cut_off else "interrupted by the user"
        return f"{what}: {message}" if message else what
    reason = f"{error.category}: {message}" if message else error.category
    return f"{answer} {'was cut off' if cut_off else 'failed'} ({reason})"


def said_aloud(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts without texts that hold nothing but blanks; no provider takes those."""
    return tuple(part for part in parts if not (isinstance(part, Text | Refusal) and not part.text.strip()))


def unspoken(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts that prose cannot say."""
    return tuple(part for part in parts if isinstance(part, Reasoning | Opaque))


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
