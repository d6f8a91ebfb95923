"""Timeline of a conversation for people: messages, tool cards with results, errors, mode changes, cuts.

A window that moves at every answer is noted once, where it began to move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from pydantic_core import from_json

from stenolog.domain import events
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import ERASED, LOST, WORDLESS, erasure_of, is_effects
from stenolog.domain.lanes.handoffs import is_of_handoff
from stenolog.domain.lanes.state import State, address, cut_runs, runs_in_words
from stenolog.domain.lanes.state import in_words as spans_in_words
from stenolog.domain.lanes.step import fold
from stenolog.domain.parts import Part, TextPart, ToolCall, text_of
from stenolog.domain.policy_text import LIMITS
from stenolog.domain.values import ConversationRef, Receipt, Tool, TurnPolicy, WorkflowRun
from stenolog.projections.questions import words_of

from .acts import acts, without_acts
from .calls import CallStatus, of_result, open_calls, without_result
from .context import Context, context
from .tool_pairs import CallKey, ToolCallIndex

ItemKind: TypeAlias = Literal[
    "message", "tool", "error", "mode", "cut", "running", "unknown", "erased", "damaged"
]
OUT_OF_TOKENS = frozenset(("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"))
"""The finish reasons, in small letters, of an answer that was cut at a limit of tokens."""
HANDED_ON = "handed on"
"""The detail of the message by which an agent hands on."""
CUT_OFF = "cut off at its limit of tokens"
STOPPED = "stopped here"
ItemStatus: TypeAlias = Literal[CallStatus, "", "retried"]
Cards: TypeAlias = dict[str, AgentCard | None]
NO_CARDS: Mapping[str, AgentCard | None] = {}


class TimelineItem(NamedTuple):
    """One item of the timeline.

    `position` is that of its first entry, `result` that of a tool card's result. `author` said or did it,
    `text` is what was said, `detail` the other words. `status` "no result": the lane went on without one;
    "retried": an error after which the same call is made again. `note` says what is unusual about a call or
    its result. `hidden`: a rewind or a reset took it out of context, or an edit or a summary replaced it for
    all whom it concerns.
    """

    kind: ItemKind
    position: int
    time: datetime
    author: str
    text: str = ""
    detail: str = ""
    status: ItemStatus = ""
    to: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    call: ToolCall | None = None
    result: int = 0
    output: tuple[Part, ...] = ()
    hidden: bool = False
    note: str = ""


class Timeline(list[TimelineItem]):
    """The items of a timeline: a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from stenolog.projections.html_table import table  # late: few programs show one

        return table(
            f"{len(self):,} items",
            ("", "time", "kind", "who", "status", "words"),
            len(self),
            lambda first, end: (
                (
                    item.position,
                    f"{item.time:%Y-%m-%d %H:%M:%S}",
                    item.kind,
                    item.author,
                    item.status,
                    _item_words(item),
                )
                for item in self[first:end]
            ),
        )


def _item_words(item: TimelineItem) -> str:
    called = f"{item.call.name}({item.call.arguments})" if item.call else ""
    return " ".join(filter(None, (called, item.text, text_of(item.output), item.detail)))


class _Calls(NamedTuple):
    """State of the tool calls: how results are paired, their entries, and which are open."""

    pairing: ToolCallIndex
    results: dict[CallKey, Entry]
    open: dict[CallKey, CallStatus]


def timeline(entries: Iterable[Entry]) -> Timeline:
    """Return the whole timeline, in the order of the log; unfinished items come last.

    It has every entry once, except for mode switches that change nothing.
    """
    log = list(entries)
    now, state = context(log), fold(log)
    at = {entry.position: entry for entry in log}
    results = {key: at[position] for key, position in now.pairing.results.items()}
    calls = _Calls(now.pairing, results, open_calls(state))
    attached = set(now.pairing.results.values())
    cards: Cards = {}
    items = [item for entry in log if entry.position not in attached for item in _items(entry, calls, cards)]
    items = _with_cuts(_with_reasons(items, erasures(log)), cuts(log))
    shown = (item._replace(hidden=True) if _is_out(now, item.position) else item for item in items)
    return Timeline([*shown, *_awaited(log, state)])


def erasures(entries: Iterable[Entry]) -> dict[int, str]:
    """Return each erasure in words, with its reason and day, by the position of the erased entry."""
    found: dict[int, str] = {}
    for entry in entries:
        erasure = erasure_of(entry.event)
        for position in erasure.positions if erasure else ():
            why = f"{erasure.reason}, " if erasure and erasure.reason else ""
            found.setdefault(position, f"{ERASED} ({why}{entry.time:%Y-%m-%d})")
    return found


def _with_reasons(items: list[TimelineItem], erased: dict[int, str]) -> list[TimelineItem]:
    return [
        item._replace(detail=erased.get(item.position, item.detail)) if item.detail == ERASED else item
        for item in items
    ]


def _with_cuts(items: list[TimelineItem], cut: dict[int, str]) -> list[TimelineItem]:
    """Return the items, and one before each answer from which on its agent was shown less."""
    shown: list[TimelineItem] = []
    for item in items:
        if item.position in cut and (not shown or shown[-1].position != item.position):
            lost = f"is no longer sent {cut[item.position]}"
            shown.append(TimelineItem("cut", item.position, item.time, item.author, detail=lost))
        shown.append(item)
    return shown


def _items(entry: Entry, calls: _Calls, cards: Cards) -> Iterator[TimelineItem]:
    """Yield an entry's items; `cards` are those before it, and get its own."""
    item = partial(TimelineItem, position=entry.position, time=entry.time)
    match entry.event:
        case events.UserMessage() as message:
            author = message.author or ("user" if message.author_kind == "person" else message.author_kind)
            action = (
                message.control.action if message.control else HANDED_ON if is_of_handoff(message) else ""
            )
            to, parts = tuple(message.to), tuple(message.parts)
            text = message.text or words_of(message.control)
            yield item("message", author=author, text=text, detail=action, to=to, parts=parts)
        case events.AssistantMessage() as message:
            yield from _answer(entry, message)
            yield from (_card(entry, message, nth, calls) for nth in range(len(message.tool_calls)))
            yield from _acts(entry, address(message.agent, message.task), message.parts)
        case events.ToolResult() as result:
            card = _with_result(item("tool", author="", text=result.text), entry, calls.pairing)
            yield card._replace(detail=f"{result.name or 'tool'}: {card.note} ({result.call_id})")
        case events.LlmError() as error if events.was_stopped(error):
            where, received = address(error.agent, error.task), without_acts(error.parts)
            yield item("message", author=where, text=error.text, detail=STOPPED, parts=received)
            yield from _acts(entry, where, error.parts)
        case events.LlmError() as error:
            why = f"{error.category}: {error.message}" if error.message else error.category
            where, received = address(error.agent, error.task), without_acts(error.parts)
            status: ItemStatus = "retried" if error.retry_at else ""
            yield item("error", author=where, text=error.text, detail=why, status=status, parts=received)
            yield from _acts(entry, where, error.parts)
        case events.ModeSwitch() as switch:
            cut = switch.context_from is not events.UNCHANGED or switch.hides is not events.UNCHANGED
            if changed := changes(switch, cards):
                yield item("cut" if cut else "mode", author="system", detail=changed)
            cards |= switch.cards
        case events.Unknown(topic=topic) if topic in WORDLESS:
            yield item("erased", author="", detail=topic)
        case events.Damaged(reason=reason):
            yield item("damaged", author="", detail=reason)
        case events.Unknown(topic=topic, payload=payload) if topic == LOST:
            yield item("damaged", author="", detail=lost_words(payload))
        case events.Unknown(topic=topic):
            yield item("unknown", author="", detail=topic)


def _answer(entry: Entry, answer: events.AssistantMessage) -> Iterator[TimelineItem]:
    parts = tuple(part for part in without_acts(answer.parts) if not isinstance(part, ToolCall))
    cut = cut_words(answer)
    if parts or not (answer.tool_calls or answer.parts) or cut:
        detail = ", ".join(filter(None, ("" if answer.purpose == "answer" else answer.purpose, cut)))
        yield TimelineItem(
            "cut" if answer.covers else "message",
            entry.position,
            entry.time,
            author=address(answer.agent, answer.task),
            text=answer.text,
            detail=f"{detail} of {spans_in_words(answer.covers)}" if answer.covers else detail,
            to=tuple(answer.to),
            parts=parts,
        )


def _acts(entry: Entry, author: str, parts: Iterable[Part]) -> Iterator[TimelineItem]:
    for nth, act in enumerate(acts(parts)):
        output = (TextPart(text=act.output),) if act.output else ()
        yield TimelineItem(
            "tool",
            entry.position,
            entry.time,
            author,
            text=act.arguments,
            detail=act.name,
            status=act.status,
            call=ToolCall(id=act.id or f"act-{nth}", name=act.name, arguments=act.arguments),
            output=output,
        )


def lost_words(payload: bytes) -> str:
    """Return the reason in a salvage's mark of a lost entry."""
    try:
        fields = from_json(payload)
    except ValueError:
        fields = None
    reason = fields.get("reason") if isinstance(fields, dict) else None
    return f"lost before a salvage: {reason}" if isinstance(reason, str) else "lost before a salvage"


def cut_words(answer: events.AssistantMessage) -> str:
    """Say that an answer was cut at a limit of tokens; empty if it was not."""
    if answer.finish_reason.lower() not in OUT_OF_TOKENS:
        return ""
    what = "this call may be incomplete" if answer.tool_calls else "the rest is missing"
    return f"{CUT_OFF} ({answer.finish_reason}): {what}"


def _card(entry: Entry, answer: events.AssistantMessage, nth: int, calls: _Calls) -> TimelineItem:
    call, key, author = (
        answer.tool_calls[nth],
        CallKey(entry.position, nth),
        address(answer.agent, answer.task),
    )
    card = TimelineItem(
        "tool", entry.position, entry.time, author, text=call.arguments, detail=call.name, call=call
    )
    if key in calls.results:
        return _with_result(card, calls.results[key], calls.pairing)
    return card._replace(**without_result(key, calls.open)._asdict())


def _with_result(card: TimelineItem, entry: Entry, pairing: ToolCallIndex) -> TimelineItem:
    assert isinstance(entry.event, events.ToolResult)
    found = of_result(entry.event, pairing.pairs.get(entry.position))
    return card._replace(**found._asdict(), result=entry.position, output=tuple(entry.event.parts))


def changes(switch: events.ModeSwitch, cards: Mapping[str, AgentCard | None] = NO_CARDS) -> str:
    """Describe the changes of a mode switch; empty if it only carries an application's own data.

    `cards` are those before it: of an agent's new card only what differs is said.
    """
    whose = f" for {', '.join(switch.agents)}" if switch.agents else ""
    settings = {
        "mode": (switch.mode, whose),
        "scope": (switch.scope, whose),
        "title": (switch.title, ""),
        "handoff": (switch.handoff, ""),
        "hides": (switch.hides, ""),
        "turns": (switch.turns, ""),
        "run": (switch.active_run, ""),
    }
    changed = [
        f"{name} {_preview(now)}{to}" for name, (now, to) in settings.items() if now is not events.UNCHANGED
    ]
    if switch.context_from is not events.UNCHANGED:
        which = f"only entries from {switch.context_from} on" if switch.context_from else "entries from 1 on"
        changed.append(f"{which} are sent{whose.replace(' for ', ' to ', 1)}")
    changed += [f"{agent} joins" for agent in switch.joins] + [f"{agent} leaves" for agent in switch.leaves]
    changed += [f"{agent}: {_card_words(card, cards.get(agent))}" for agent, card in switch.cards.items()]
    if isinstance(switch.parent, ConversationRef):
        how = "fork of" if switch.fork else "child of"
        changed.append(f"{how} {switch.parent.conversation}@{switch.parent.position}")
    if is_effects(switch):
        changed.append("words erased")
    return "; ".join(changed)


def _card_words(card: AgentCard | None, before: AgentCard | None) -> str:
    if card is None:
        return "settings removed"
    facts, known = _facts(card), _facts(before or AgentCard())
    words = [fact or f"no {name}" for name, fact in facts.items() if fact != known[name]]
    if before is not None:
        words += ["new instructions"] if card.persona != before.persona else []
        words += _tool_changes(card.tools or (), before.tools or ())
    return ", ".join(words) or card.model or "no settings"


def _facts(card: AgentCard) -> dict[str, str]:
    """Return what a card says of the model and of the size of its requests, in words."""
    history, budget = card.policy.get("history") or {}, card.policy.get("budget") or {}
    recent = history.get("recent") or history.get("n")
    sizes = " and ".join(f"{budget[unit]:,} {unit}" for unit in LIMITS if budget.get(unit))
    return {
        "model": card.model,
        "budget": sizes and f"budget {sizes}",
        "limit on messages": f"{recent} recent messages" if recent else "",
        "known limit": f"takes {card.context_limit:,} tokens at most" if card.context_limit else "",
    }


def _tool_changes(tools: Iterable[Tool], before: Iterable[Tool]) -> Iterator[str]:
    now, then = ({tool.name: tool for tool in each} for each in (tools, before))
    if changed := [name for name in now if now[name] != then.get(name)]:
        yield f"tools {', '.join(changed)}"
    if gone := [name for name in then if name not in now]:
        yield f"without tools {', '.join(gone)}"


def _preview(value: object) -> str:
    match value:
        case None:
            return "cleared"
        case tuple():
            return spans_in_words(value) or "nothing"
        case WorkflowRun(id=id):
            return id
        case TurnPolicy(rule=rule):
            return rule
        case _:
            return str(value)


def _is_out(now: Context, position: int) -> bool:
    return position in now.out or position in now.covered


def _awaited(log: list[Entry], state: State) -> Iterator[TimelineItem]:
    for where, lane in state.lanes.items():
        if lane.status == "awaiting_llm":
            end = log[-1]
            yield TimelineItem(
                "running", end.position, end.time, where, detail="awaiting its model", status="running"
            )


def cuts(entries: Iterable[Entry]) -> dict[int, str]:
    """Return the cut spans, as `2-51, 60-71`, by the position of the first answer made without them."""
    found: dict[int, str] = {}
    lanes: dict[str, tuple[str, bool]] = {}
    for entry in entries:
        match entry.event:
            case (
                events.AssistantMessage(agent=agent, task=task, receipt=Receipt() as receipt)
                | events.LlmError(agent=agent, task=task, receipt=Receipt() as receipt)
            ):
                before, moving = lanes.get(address(agent, task), ("", False))
                cut = cut_of(receipt)
                moved = bool(cut) and cut != before
                if moved and not moving:
                    found[entry.position] = cut
                lanes[address(agent, task)] = cut, moved
            case _:
                pass
    return found


def cut_of(receipt: Receipt) -> str:
    """Return the spans cut from a request, as `2-51, 60`."""
    return runs_in_words(cut_runs(receipt))
