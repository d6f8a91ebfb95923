"""What a person is shown: messages, tool cards with their results, errors, mode changes, cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import (
    UNCHANGED,
    AssistantMessage,
    LlmError,
    ModeSwitch,
    ToolResult,
    Unknown,
    UserMessage,
)
from stenolog.domain.parts import Part, ToolCall
from stenolog.domain.state import address
from stenolog.domain.step import fold
from stenolog.domain.values import Link, Run, Span

from .context import Context, context
from .pairing import CallKey

ItemKind: TypeAlias = Literal["message", "tool", "error", "mode", "cut", "running", "unknown"]
ItemStatus: TypeAlias = Literal["", "running", "ok", "failed", "not run"]


class Item(NamedTuple):
    """One item of the timeline.

    `position` is that of the entry it begins with, `result` that of the result attached to a tool card.
    `author` is who said or did it, `text` what was said, `detail` the rest in words. `hidden`: a rewind
    or a reset took it out of context, an edit replaced it, or a summary stands in its place.
    """

    kind: ItemKind
    position: int
    at: datetime
    author: str
    text: str = ""
    detail: str = ""
    status: ItemStatus = ""
    to: Sequence[str] = ()
    parts: Sequence[Part] = ()
    call: ToolCall | None = None
    result: int = 0
    output: Sequence[Part] = ()
    hidden: bool = False


def timeline(entries: Iterable[Entry]) -> list[Item]:
    """The whole timeline, in the order of the log; what still runs comes last."""
    log = list(entries)
    now = context(log)
    pairing = now.pairing
    items: list[Item] = []
    cards: dict[CallKey, int] = {}
    for entry in log:
        if isinstance(entry.event, ToolResult):
            key = pairing.calls[entry.position]
            if key is not None:
                items[cards[key]] = _answered(items[cards[key]], entry, entry.event)
                continue
        for item in _items(entry):
            if item.call is not None and item.kind == "tool":
                nth = sum(1 for key in cards if key.position == entry.position)
                cards[CallKey(entry.position, nth)] = len(items)
            items.append(item)
    shown = [item._replace(hidden=True) if _is_out(now, item.position) else item for item in items]
    return [*shown, *_still_running(log)]


def _items(entry: Entry) -> Iterator[Item]:
    """The items that an entry begins."""
    match entry.event:
        case UserMessage() as said:
            author = said.author or ("user" if said.author_kind == "person" else said.author_kind)
            detail = f"{said.control.action}" if said.control else ""
            yield Item(
                "message",
                entry.position,
                entry.at,
                author,
                said.text,
                detail,
                to=said.to,
                parts=said.parts,
            )
        case AssistantMessage() as said:
            yield from _answer(entry, said)
        case ToolResult() as result:
            yield _orphan(entry, result)
        case LlmError() as error:
            detail = f"{error.category}: {error.message}" if error.message else error.category
            yield Item(
                "error",
                entry.position,
                entry.at,
                address(error.agent, error.task),
                error.text,
                detail,
                parts=error.parts,
            )
        case ModeSwitch() as switch:
            cut = switch.context_from is not UNCHANGED or switch.hides is not UNCHANGED
            yield Item("cut" if cut else "mode", entry.position, entry.at, "system", detail=_changes(switch))
        case Unknown() as unknown:
            yield Item("unknown", entry.position, entry.at, "", detail=unknown.topic)


def _answer(entry: Entry, said: AssistantMessage) -> Iterator[Item]:
    author = address(said.agent, said.task)
    kind: ItemKind = "cut" if said.covers else "message"
    detail: str = "" if said.purpose == "answer" else said.purpose
    if said.covers:
        detail += f" of {spans_in_words(said.covers)}"
    if said.text or not said.tool_calls:
        yield Item(kind, entry.position, entry.at, author, said.text, detail, to=said.to, parts=said.parts)
    for call in said.tool_calls:
        yield Item("tool", entry.position, entry.at, author, call.arguments, call.name, "running", call=call)


def _answered(card: Item, entry: Entry, result: ToolResult) -> Item:
    status: ItemStatus = "failed" if result.is_error else "ok"
    return card._replace(status=status, result=entry.position, output=result.parts)


def _orphan(entry: Entry, result: ToolResult) -> Item:
    detail = f"{result.name or 'tool'}: a result for {result.call_id}, which is no open call"
    status: ItemStatus = "failed" if result.is_error else "ok"
    return Item(
        "tool",
        entry.position,
        entry.at,
        "",
        result.text,
        detail,
        status,
        result=entry.position,
        output=result.parts,
    )


def _changes(switch: ModeSwitch) -> str:
    """What a mode switch changed, in words."""
    changed = [
        f"{name} {'cleared' if now is None else now}"
        for name in ("mode", "scope", "title", "handoff", "context_from")
        if (now := getattr(switch, name)) is not UNCHANGED
    ]
    if switch.hides is not UNCHANGED:
        spans = spans_in_words(switch.hides or ())
        changed.append(f"hides {spans or 'nothing'}")
    changed += [f"{agent} joins" for agent in switch.joins] + [f"{agent} leaves" for agent in switch.leaves]
    changed += [
        f"{agent}: {card.model or 'card' if card else 'no card'}" for agent, card in switch.cards.items()
    ]
    if isinstance(switch.parent, Link):
        how = "fork of" if switch.fork else "child of"
        changed.append(f"{how} {switch.parent.conversation}@{switch.parent.position}")
    if isinstance(switch.active_run, Run):
        changed.append(f"run {switch.active_run.id}")
    return "; ".join(changed)


def spans_in_words(spans: Sequence[Span]) -> str:
    """The spans as `1-4, 7-9`."""
    return ", ".join(f"{span.first}-{span.last}" for span in spans)


def _is_out(now: Context, position: int) -> bool:
    return position in now.out or any(summary.covers(position) for summary in now.summaries)


def _still_running(log: list[Entry]) -> Iterator[Item]:
    """One item for each lane that waits for its model."""
    if not log:
        return
    for where, lane in fold(log).lanes.items():
        if lane.status == "awaiting_llm":
            yield Item(
                "running", log[-1].position, log[-1].at, where, detail="awaiting its model", status="running"
            )
