"""Stage 5, prefix: the texts that stand around the conversation, each by a rule of its own.

What never changes stands first. What depends on the mode, the run or the moment stands last, behind the
conversation, so that a change of it costs a provider's prompt cache nothing; or first, by policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.model import construct
from stenolog.domain.parts import TextPart, text_of
from stenolog.domain.policy import Prompt, Reminder
from stenolog.domain.values import WorkflowRun
from stenolog.projections.requests.request import Message, Section, Size, compact, total

from .lane import author_of, pinned
from .measure import parameters_size
from .missed_messages import with_away
from .quoting import note, quote
from .view import View, WindowContents

RUN_MODE = "run"
_NOTES = Size(0, 200, 50, 400)
"""The note on what was cut, and the one that closes a preview."""
REMINDING = note("a reminder of what you were told")


def system_prompt(view: View, card: AgentCard) -> tuple[Section, ...]:
    """Return the sections before the conversation."""
    ruled = _instructions(view)
    sections = [
        Section("base-rules", ruled.base),
        Section("tool-policy", ruled.tools),
        *_persona(view, card),
    ]
    if ruled.place == "first":
        sections += _of_the_moment(view)
    return _non_empty(sections)


def trailing_note(view: View, card: AgentCard, shown: Iterable[Entry]) -> Message | None:
    """Return the sections behind the conversation as one note of the system, or None if there are none."""
    sections = [] if _instructions(view).place == "first" else [*_of_the_moment(view)]
    if view.policy.reminder is not None:
        sections += _reminder(view, view.policy.reminder, card, shown)
    return _note(_non_empty(sections))


def reserved_size(view: View, shown: WindowContents) -> Size:
    """Return the maximum size of the sections, notes and tools that a request has beside its messages."""
    card = view.settings.card_of(view.lane.agent)
    before, behind = system_prompt(view, card), [*_of_the_moment(view)]
    if view.policy.reminder is not None:
        behind += _reminding(view, view.policy.reminder, card, shown.entries)
    messages = bool(before) + bool(_non_empty(behind)) + _instructions(view).cut_note
    texts = [section.text for section in (*before, *behind) if section.text]
    texts += [compact([tool.name, tool.description, tool.parameters]) for tool in card.tools or ()]
    pieces = (Message("system", (TextPart(text=text),), (), "") for text in texts)
    told = with_away(shown.units, shown.entries, view.lane, view.policy.away, view.memory.began)
    notes = [piece for unit in told for piece in unit if piece.rule == "away-note"]
    around = total(view.measure.of(piece) for piece in pieces)
    around = around.plus(Size(tokens=parameters_size(card, view.counter)))
    return _NOTES.plus(around._replace(messages=messages)).plus(total(map(view.measure.of, notes)))


def cut_note(view: View) -> Message | None:
    """Return a note that earlier messages were left out, if some were cut and the policy asks for it."""
    if not (view.cuts and _instructions(view).cut_note):
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


def _instructions(view: View) -> Prompt:
    return view.policy.instructions or _none()


@cache
def _none() -> Prompt:
    """The rule of a policy that has none."""
    return construct(Prompt)


def _persona(view: View, card: AgentCard) -> Iterator[Section]:
    """The persona, in the modes that it is for."""
    wanted = _instructions(view).persona_in
    if not wanted or view.settings.mode_of(view.lane.agent) in wanted:
        yield Section("persona", card.persona, _set_at(view, "card"))


def _of_the_moment(view: View) -> Iterator[Section]:
    """Yield the sections that depend on the mode and the run, and the text of a hand-off."""
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
    """After every so many answers, under a line that says so: the persona, the pinned words, quoted, since
    they are the system's nowhere else, and the text of the policy.
    """
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
    """Quote an entry as the agent was shown it (compacted and rewritten), with its author."""
    said = "\n".join(text_of(piece.parts) for piece in view.messages_of(entry.position))
    author = author_of(entry.event)
    return quote("message", said, sender="user" if author == "person" else author) if said.strip() else ""


def _set_at(view: View, name: str) -> tuple[int, ...]:
    return (view.memory.set_at[name],) if name in view.memory.set_at else ()
