"""Stage 6, prompt: texts and tools around the conversation, and messages that the agent missed.

What never changes comes first. What depends on the mode, the run or the moment comes after the conversation,
or first, by policy. Missed messages keep their places, between two notes.

A lane without a card has one made by rule: the model of its last answer, and a stub for each called tool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

from stenolog.domain.base.model import construct
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.parts import TextPart, ToolCall, text_of
from stenolog.domain.policy import History, MissedMessages, Prompt, Reminder
from stenolog.domain.values import Tool, WorkflowRun
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.identifiers import called, renamed_tools, tool_name
from stenolog.projections.messages.message import (
    DEFAULT_MODEL,
    PIPELINE,
    PIPELINES,
    Message,
    Preamble,
    Section,
)
from stenolog.projections.messages.quoting import END_OF, note, quote, without_delimiters
from stenolog.projections.messages.sizes import ESTIMATE, Counter, Size, total

from .lane import LaneId, author_of, pinned
from .measure import WITHHELD, parameters_size
from .view import Contents, View

RUN_MODE = "run"
# Reserved in every request, with or without these notes.
_NOTES = Size(0, 200, 50, 400)
"""The note on what was cut, and the one that closes a preview."""
LIMITS = ("tokens", "messages", "characters", "bytes")
"""The units of a budget."""
REMINDING = note("a reminder of what you were told")


class Surroundings(NamedTuple):
    """The note before the conversation, system text and tools, and the note after it.

    `renamed` are the sent names of tools that no provider takes, each with the card's.
    """

    first: tuple[Message, ...]
    preamble: Preamble
    behind: tuple[Message, ...]
    renamed: Mapping[str, str]


def surround(view: View, tools: Iterable[str], shown: Iterable[Entry]) -> Surroundings:
    """Return a conversation's surroundings; `tools` were called, entries `shown`."""
    card = view.settings.card_of(view.lane.agent)
    note, sections = cut_note(view), system_prompt(view, card)
    # The backend has read the sections that were set before its last answer.
    if view.continues_session:
        seen, card_set = view.state.lane(view.lane.address).seen, view.memory.set_at.get("card", 0)
        sections = tuple(each for each in sections if max((card_set, *each.positions)) > seen)
    offered = _offered(view)
    preamble = preamble_of(
        view.lane.address,
        card,
        sections,
        tools,
        model=view.memory.model,
        set_at=_set_at(view, "card") + (() if offered is None else _set_at(view, "mode")),
        counter=view.counter,
        offered=offered,
        version=view.version,
    )
    # The persona stands in this very request, so a reminder need not say it again.
    stands = view.policy.history.delta and any(each.rule == "persona" for each in sections)
    behind = trailing_note(view, replace(card, persona="") if stands else card, shown)
    renamed = renamed_tools(card.tools or ())
    return Surroundings((note,) if note else (), preamble, (behind,) if behind else (), renamed)


def tools_called(messages: Iterable[Message]) -> dict[str, None]:
    """Return the called tools' names, each once, in order."""
    found: dict[str, None] = {}
    for message in messages:
        for part in message.parts if message.calls else ():
            if isinstance(part, ToolCall):
                found[called(part)] = None
    return found


def system_prompt(view: View, card: AgentCard) -> tuple[Section, ...]:
    """Return the sections before the conversation."""
    ruled = _instructions(view)
    sections = [
        Section("base-rules", ruled.base),
        Section("tool-policy", ruled.tools),
        *_persona(view, card),
        Section("scope-note", _scope(view), _set_at(view, "card")),
    ]
    # Otherwise it stands behind the conversation, where a change costs the prompt cache nothing.
    if ruled.place == "first":
        sections += _of_the_moment(view)
    return _non_empty(sections)


def trailing_note(view: View, card: AgentCard, shown: Iterable[Entry]) -> Message | None:
    """Return the sections after the conversation as one note of the system; None if empty."""
    sections = [] if _instructions(view).place == "first" else [*_of_the_moment(view)]
    if view.policy.reminder is not None:
        sections += _reminder(view, view.policy.reminder, card, shown)
    return _note(_non_empty(sections))


def reserved_size(view: View, shown: Contents) -> Size:
    """Return the maximum size of a request's sections, notes and tools."""
    card = view.settings.card_of(view.lane.agent)
    before, behind = system_prompt(view, card), [*_of_the_moment(view)]
    if view.policy.reminder is not None:
        behind += _reminding(view, view.policy.reminder, card, shown.entries)
    # The note that it is the agent's turn, behind another's word that is shown as its own.
    count = bool(before) + bool(_non_empty(behind)) + _instructions(view).cut_note + view.voice.shared
    texts = [section.text for section in (*before, *behind) if section.text]
    if view.version < 6:
        texts += [compact([tool.name, tool.description, tool.parameters]) for tool in card.tools or ()]
    messages = (Message("system", (TextPart(text=text),), (), "") for text in texts)
    units, _ = with_away(view, shown.units, shown.entries)
    notes = [message for unit in units for message in unit if message.rule == "away-note"]
    around = total(view.measure.of(message) for message in messages)
    around = around.plus(Size(tokens=parameters_size(card, view.counter)))
    tools = map(view.measure.tool, card.tools or ()) if view.version > 5 else ()
    beside = total(chain(tools, map(view.measure.of, notes)))
    return _NOTES.plus(around._replace(messages=count)).plus(beside)


def stubs(view: View, tools: Iterable[str]) -> list[str]:
    """Return the called tools that the agent no longer has."""
    declared = declared_tools(view.settings.card_of(view.lane.agent), _offered(view))
    return [name for name in tools if tool_name(name) not in declared]


def _offered(view: View) -> Collection[str] | None:
    return _instructions(view).tools_in.get(view.settings.mode_of(view.lane.agent))


def cut_note(view: View) -> Message | None:
    """Return a note that messages were cut, if the policy asks for it."""
    if not (_instructions(view).cut_note and (view.cuts or view.summarised)):
        return None
    return _note((Section("cut-note", note("earlier messages were left out of what you are shown")),))


def _scope(view: View) -> str:
    if not _instructions(view).scope_note:
        return ""
    chosen = view.policy
    limits = (f"{size:,} {unit}" for unit in LIMITS if (size := getattr(chosen.budget, unit, None)))
    shown = [_history_in_words(chosen.history), *(f"at most {limit}" for limit in limits)]
    shown += ["summaries in the place of earlier messages"] * view.summarised
    return note("what you are shown: " + "; ".join(shown + ["pinned messages"] * (chosen.pins is not None)))


def _history_in_words(history: History) -> str:
    messages, _ = history.window
    new = "what is new since your last turn"
    if history.delta and not messages:
        return f"{new}; what was before is in your session"
    last = f"the last {messages} messages" if messages else "this conversation"
    kept = " and ".join([*(f"each {purpose}" for purpose in history.keeps), last])
    return f"where your session begins, {kept}; then {new}" if history.delta else kept


def _note(sections: tuple[Section, ...]) -> Message | None:
    if not sections:
        return None
    text = "\n\n".join(section.text for section in sections)
    positions = tuple(dict.fromkeys(p for section in sections for p in section.positions))
    return Message("system", (TextPart(text=text),), positions, sections[0].rule, "added", sections=sections)


def _non_empty(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.text.strip())


def _instructions(view: View) -> Prompt:
    return view.policy.instructions or _none()


@cache
def _none() -> Prompt:
    return construct(Prompt)


def _persona(view: View, card: AgentCard) -> Iterator[Section]:
    wanted = _instructions(view).persona_in
    if not wanted or view.settings.mode_of(view.lane.agent) in wanted:
        yield Section("persona", card.persona, _set_at(view, "card"))


def _of_the_moment(view: View) -> Iterator[Section]:
    ruled, mode = _instructions(view), view.settings.mode_of(view.lane.agent)
    yield Section("mode-rules", ruled.modes.get(mode, ""), _set_at(view, "mode"))
    yield Section("mode-banner", ruled.banner.replace("{mode}", mode), _set_at(view, "mode"))
    yield Section("handoff", view.memory.handoff, _set_at(view, "handoff"))
    if mode == RUN_MODE and view.settings.active_run is not None:
        yield from _run(view.settings.active_run, _set_at(view, "run"))


def _run(run: WorkflowRun, set_at: tuple[int, ...]) -> Iterator[Section]:
    yield Section("run-directive", run.directive, set_at)
    yield Section("node-brief", run.brief, set_at)
    yield Section("step-context", run.context, set_at)


def _reminder(view: View, rule: Reminder, card: AgentCard, shown: Iterable[Entry]) -> Iterator[Section]:
    if view.memory.turns and view.memory.turns % rule.every == 0:
        yield from _reminding(view, rule, card, shown)


def _reminding(view: View, rule: Reminder, card: AgentCard, shown: Iterable[Entry]) -> Iterator[Section]:
    pins = [entry for entry in shown if rule.pins and pinned(entry, view.policy.pins)]
    sections = [
        Section("reminder", card.persona if rule.persona else "", _set_at(view, "card")),
        *(Section("reminder", _quoted(view, entry), (entry.position,)) for entry in pins),
        Section("reminder", rule.text),
    ]
    if _non_empty(sections):
        yield Section("reminder", REMINDING)
    yield from sections


def _quoted(view: View, entry: Entry) -> str:
    # Quoted, since pinned words are the system's nowhere else.
    text = "\n".join(text_of(message.parts) for message in view.messages_of(entry))
    text = without_delimiters(text) if view.version > 5 else text
    author = author_of(entry.event)
    return quote("message", text, sender="user" if author == "person" else author) if text.strip() else ""


def _set_at(view: View, name: str) -> tuple[int, ...]:
    return (view.memory.set_at[name],) if name in view.memory.set_at else ()


Unit = tuple[Message, ...]


class Away(NamedTuple):
    """State after some units: `now` is in a run of missed messages, `been_here` after an own answer."""

    now: bool = False
    been_here: bool = False


AT_FIRST = Away()


def with_away(
    view: View, units: Sequence[Unit], entries: Iterable[Entry], before: Away = AT_FIRST
) -> tuple[Sequence[Unit], Away]:
    """Return the units with a note before and after each run of missed messages, and the state after them.

    `entries` are those shown in the units, `before` is the state after earlier units.
    """
    lane, away = view.lane, view.policy.away
    if away is None:
        return units, before
    missed = {entry.position for entry in entries if _is_missed(entry, lane)}
    titled: list[Unit] = []
    away_now, been_here = before
    # Where the first answer was asked for, perhaps out of the window.
    began = view.memory.began
    for unit in units:
        others_tool = unit[0].rule == "attributed" and unit[0].by == "tool"
        # By the receipts of its answers, which tell where its turns lie: so the notes never move.
        been_away = been_here or 0 < began < unit[0].positions[0]
        gone = been_away and (others_tool or not missed.isdisjoint(unit[0].positions))
        if gone is not away_now:
            title = away.title if gone else f"{END_OF} {away.title}"
            titled.append((_missed_note(title, unit[0].positions[:1]),))
            away_now = gone
        titled.append(unit)
        been_here = been_here or unit[0].role == "assistant"
    return titled, Away(away_now, been_here)


def titles(away: MissedMessages) -> tuple[Message, Message]:
    """Return the notes around a run of missed messages."""
    return _missed_note(away.title, ()), _missed_note(f"{END_OF} {away.title}", ())


def _missed_note(title: str, positions: tuple[int, ...]) -> Message:
    return Message("user", (TextPart(text=note(title)),), positions, "away-note", "added")


def _is_missed(entry: Entry, lane: LaneId) -> bool:
    """Return whether the entry was for others: another agent's answer, or addressed to others."""
    match entry.event:
        case UserMessage(author_kind="system"):
            return False
        case UserMessage(to=to):
            return bool(to) and lane.address not in to
        case AssistantMessage(purpose="answer", to=to) as said:
            return not lane.owns(said) and lane.address not in to
        case _:
            return False


def declared_tools(card: AgentCard, offered: Collection[str] | None) -> dict[str, Tool]:
    """Return a card's offered tools by the sent name: two may have the same."""
    declared: dict[str, Tool] = {}
    for tool in card.tools or ():
        if offered is None or tool.name in offered:
            declared.setdefault(tool_name(tool.name), tool)
    return declared


def preamble_of(
    speaker: str,
    card: AgentCard,
    sections: tuple[Section, ...],
    called: Iterable[str],
    *,
    model: str = "",
    set_at: tuple[int, ...] = (),
    counter: Counter = ESTIMATE,
    offered: Collection[str] | None = None,
    version: int = PIPELINES[PIPELINE],
) -> Preamble:
    """Return the preamble of a lane, from its card and its history.

    `called` are the names of the tools that it called, each once, and `model` is the one it last answered
    with. `offered` are the names of the card's tools that the mode has; None: all.
    """
    declared = declared_tools(card, offered)
    tools = tuple(declared.values())
    note = "" if offered is None else WITHHELD
    # Whatever was called is declared, since Anthropic refuses tool blocks without tools.
    stubs = tuple(
        construct(Tool, name=name, description=note) for name in called if tool_name(name) not in declared
    )
    return Preamble(
        speaker=speaker,
        model=card.model or model or DEFAULT_MODEL,
        persona="\n\n".join(section.text for section in sections),
        tools=tools + stubs,
        stubs=frozenset(tool.name for tool in stubs),
        card=card,
        set_at=set_at,
        sections=sections,
        counter=counter,
        version=version,
    )
