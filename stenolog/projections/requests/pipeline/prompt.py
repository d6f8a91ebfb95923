"""Stage 5, prefix: the texts that stand around the conversation, each by a rule of its own.

What never changes stands first. What depends on the mode, the run or the moment stands last, behind the
conversation, so that a change of it costs a provider's prompt cache nothing; or first, by policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from stenolog.domain.entry import Entry
from stenolog.domain.parts import TextPart, text_of
from stenolog.domain.policy import Prompt, Reminder
from stenolog.domain.values import AgentCard, WorkflowRun, construct
from stenolog.projections.requests.request import Message, Section, Size, compact, total

from .measure import parameters_size
from .missed_messages import with_away
from .quoting import note, quote
from .retention import author_of, pinned

if TYPE_CHECKING:
    from stenolog.projections.requests.incremental.snapshot import WindowContents
    from stenolog.projections.requests.incremental.window import Window

RUN_MODE = "run"
_NOTES = Size(0, 200, 50, 400)
"""The note on what was cut, and the one that closes a preview."""
REMINDING = note("a reminder of what you were told")


def system_prompt(window: Window, card: AgentCard) -> tuple[Section, ...]:
    """What stands before the conversation."""
    ruled = _instructions(window)
    sections = [
        Section("base-rules", ruled.base),
        Section("tool-policy", ruled.tools),
        *_persona(window, card),
    ]
    if ruled.place == "first":
        sections += _of_the_moment(window)
    return _non_empty(sections)


def trailing_note(window: Window, card: AgentCard, shown: Iterable[Entry]) -> Message | None:
    """What stands behind the conversation, as one note of the system's; None where nothing does."""
    sections = [] if _instructions(window).place == "first" else [*_of_the_moment(window)]
    if window.policy.reminder is not None:
        sections += _reminder(window, window.policy.reminder, card, shown)
    return _note(_non_empty(sections))


def reserved_size(window: Window, shown: WindowContents) -> Size:
    """How large all that may stand around the conversation and in it is at most, with the tools."""
    card = window.settings.card_of(window.lane.agent)
    before, behind = system_prompt(window, card), [*_of_the_moment(window)]
    if window.policy.reminder is not None:
        behind += _reminding(window, window.policy.reminder, card, shown.entries)
    messages = bool(before) + bool(_non_empty(behind)) + _instructions(window).cut_note
    texts = [section.text for section in (*before, *behind) if section.text]
    texts += [compact([tool.name, tool.description, tool.parameters]) for tool in card.tools or ()]
    pieces = (Message("system", (TextPart(text=text),), (), "") for text in texts)
    told = with_away(shown.units, shown.entries, window.lane, window.policy.away, window.own.began)
    notes = [piece for unit in told for piece in unit if piece.rule == "away-note"]
    around = total(window.measure.of(piece) for piece in pieces)
    around = around.plus(Size(tokens=parameters_size(card, window.counter)))
    return _NOTES.plus(around._replace(messages=messages)).plus(total(map(window.measure.of, notes)))


def cut_note(window: Window) -> Message | None:
    """What tells the agent that something was left out before what it is shown, where its policy says so."""
    if not (window.cuts and _instructions(window).cut_note):
        return None
    return _note((Section("cut-note", note("earlier messages were left out of what you are shown")),))


def _note(sections: tuple[Section, ...]) -> Message | None:
    if not sections:
        return None
    text = "\n\n".join(section.text for section in sections)
    positions = tuple(dict.fromkeys(p for section in sections for p in section.positions))
    return Message("system", (TextPart(text=text),), positions, sections[0].rule, "added", sections=sections)


def _non_empty(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.text.strip())


def _instructions(window: Window) -> Prompt:
    return window.policy.instructions or _none()


@cache
def _none() -> Prompt:
    """The rule of a policy that has none."""
    return construct(Prompt)


def _persona(window: Window, card: AgentCard) -> Iterator[Section]:
    """The persona, in the modes that it is for."""
    wanted = _instructions(window).persona_in
    if not wanted or window.settings.mode_of(window.lane.agent) in wanted:
        yield Section("persona", card.persona, _set_at(window, "card"))


def _of_the_moment(window: Window) -> Iterator[Section]:
    """What depends on the mode and the run, and the words of a hand-off."""
    ruled, mode = _instructions(window), window.settings.mode_of(window.lane.agent)
    yield Section("mode-rules", ruled.modes.get(mode, ""), _set_at(window, "mode"))
    yield Section("mode-banner", ruled.banner.replace("{mode}", mode), _set_at(window, "mode"))
    yield Section("handoff", window.own.handoff, _set_at(window, "handoff"))
    if mode == RUN_MODE and window.settings.active_run is not None:
        yield from _run(window.settings.active_run, _set_at(window, "run"))


def _run(run: WorkflowRun, set_at: tuple[int, ...]) -> Iterator[Section]:
    yield Section("run-directive", run.directive, set_at)
    yield Section("node-brief", run.brief, set_at)
    yield Section("step-context", run.context, set_at)


def _reminder(window: Window, rule: Reminder, card: AgentCard, shown: Iterable[Entry]) -> Iterator[Section]:
    """After every so many answers, under a line that says so: the persona, the pinned words, quoted, since
    they are the system's nowhere else, and the text of the policy.
    """
    if window.own.turns and window.own.turns % rule.every == 0:
        yield from _reminding(window, rule, card, shown)


def _reminding(window: Window, rule: Reminder, card: AgentCard, shown: Iterable[Entry]) -> Iterator[Section]:
    pins = [entry for entry in shown if rule.pins and pinned(entry, window.policy.pins)]
    sections = [
        Section("reminder", card.persona if rule.persona else "", _set_at(window, "card")),
        *(Section("reminder", _quoted(window, entry), (entry.position,)) for entry in pins),
        Section("reminder", rule.text),
    ]
    if _non_empty(sections):
        yield Section("reminder", REMINDING)
    yield from sections


def _quoted(window: Window, entry: Entry) -> str:
    """What the agent heard of an entry, compacted and rewritten as it was, with who said it."""
    said = "\n".join(text_of(piece.parts) for piece in window.messages_of(entry.position))
    author = author_of(entry.event)
    return quote("message", said, sender="user" if author == "person" else author) if said.strip() else ""


def _set_at(window: Window, name: str) -> tuple[int, ...]:
    return (window.own.set_at[name],) if name in window.own.set_at else ()
