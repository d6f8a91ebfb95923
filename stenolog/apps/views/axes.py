"""Axes: points in order, at which recorded calls are built: entries, commits of a team file, releases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, InvalidEventError
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.drift import RoleDrift
from stenolog.projections.analysis.retry import NO_CHANGE, Case, Change, Here, cases, retried
from stenolog.projections.analysis.retry.cases import rank
from stenolog.projections.analysis.retry.releases import under_release
from stenolog.projections.requests import Request
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import describe

from .lanes import lane, means, own_api

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.adapters.engine.team_file.commits import TeamHistory


class Variant(NamedTuple):
    """A point of an axis: its name, such as an entry's position, and what a reader knows it by."""

    name: str
    title: str = ""


class Axis(NamedTuple):
    """Points in order, and the requests of recorded calls at each; None: none can be built there.

    `what` is one point, such as "entry".
    """

    what: str
    variants: Sequence[Variant]
    cases: Sequence[Case]
    request: Callable[[int, int], Request | None]


def of_entries(conversation: Conversation, case: Case, first: int, last: int) -> Axis:
    """Return a call's request as if the entries after each of `first` to `last` had not been.

    Raises `InvalidEventError` if the entries are not before the request.
    """
    if not 1 <= first < last <= case.view:
        found = f"found {first} and {last}"
        raise InvalidEventError(f"expected two entries from 1 to {case.view}, the first one first; {found}")
    entries = list(conversation.entries(at=min(case.position, conversation.position)))
    release = Here(**means(conversation))

    @cache
    def request(variant: int, _case: int) -> Request | None:
        begin = first + variant + 1
        change = Change(unwritten=PositionRange(first=begin, last=last)) if begin <= last else NO_CHANGE
        (found,) = retried([case], entries, change, release)
        return found.now

    described = (describe(entry) for entry in entries[first - 1 : last])
    variants = [
        Variant(str(at), one_line(f"{each.who}  {each.what}")) for at, each in enumerate(described, first)
    ]
    return Axis("entry", variants, [case], request)


def case_at(conversation: Conversation, address: str, at: int | None) -> Case:
    """Return a lane's call whose request was at a position; its last call if None.

    Without a call there, as of the next request, the answer is empty.
    """
    where, head = lane(address), at or conversation.position
    own = [case for case in cases(conversation.entries()) if case.lane == where]
    if asked := [case for case in own if at in (None, case.view)]:
        return asked[-1]
    empty = AssistantMessage(agent=where.agent, task=where.task)
    return Case(conversation.name, where, head + 1, own_api(conversation, address), empty)


def default_ends(conversation: Conversation, case: Case) -> tuple[int, int]:
    """Return the first entry, and the last before the message that began the turn of a call.

    Without the entries of a turn, which follow one from the other, nothing could be sent.
    """
    agent = case.lane.agent
    for entry in backwards(conversation, min(case.view, conversation.position)):
        match entry.event:
            case UserMessage(to=to) if not to or agent in to:
                break
            case AssistantMessage(agent=author, to=to) if author != agent and agent in to:
                break
            case _:
                pass
    else:
        return 1, case.view - 1
    return 1, entry.position - 1 if entry.position > 2 else case.view - 1


def is_answered(case: Case) -> bool:
    """Return whether a call has an answer, with which another can be compared."""
    return isinstance(case.answer, AssistantMessage) and bool(case.answer.parts)


def of_releases(log: Log, role: RoleDrift, calls: Sequence[Case]) -> Axis:
    """Return recorded calls with the prompt and the tools of each release of their program."""

    def change(variant: int, case: Case, entries: Sequence[Entry], card: AgentCard) -> Change:
        return under_release(entries, case.lane.agent, card, role.versions[variant].sample)

    variants = [Variant(each.digest, ", ".join(each.programs)) for each in role.versions]
    return _of_changes("release", variants, log, calls, change)


def of_commits(log: Log, history: TeamHistory, calls: Sequence[Case]) -> Axis:
    """Return recorded calls under the cards of a team file as of each commit.

    Tools of MCP servers stay as recorded. A commit whose file cannot be loaded is passed over; raises
    `CallerError` if it is the first or the last.
    """
    ends = [history.team(end) for end in (0, len(history.commits) - 1)]
    own = {
        (name, tool.name) for team in ends for name, card in team.cards.items() for tool in card.tools or ()
    }

    def change(variant: int, case: Case, _entries: Sequence[Entry], card: AgentCard) -> Change:
        agent, team = case.lane.agent, history.team(variant)
        now = team.cards.get(agent)
        if now is None:
            raise CallerError(f"{history.file}: no agent {agent!r}")
        if agent in team.with_servers:
            known = {tool.name for tool in now.tools or ()}
            served = [
                tool for tool in card.tools or () if tool.name not in known and (agent, tool.name) not in own
            ]
            now = replace(now, tools=[*(now.tools or ()), *served])
        return Change(cards={agent: now})

    variants = [Variant(each.digest[:12], f"{each.day}  {each.subject}") for each in history.commits]
    return _of_changes("commit", variants, log, calls, change)


Changing: TypeAlias = "Callable[[int, Case, Sequence[Entry], AgentCard], Change]"
"""The change to a case at a variant, by its conversation's entries and the card that it had."""


def _of_changes(
    what: str, variants: Sequence[Variant], log: Log, calls: Sequence[Case], change: Changing
) -> Axis:
    """Return an axis; the calls of a conversation are built in one pass for each point."""
    made: dict[tuple[int, str], dict[int, Request | None]] = {}

    def request(variant: int, number: int) -> Request | None:
        case = calls[number]
        key = variant, case.conversation
        if key not in made:
            made[key] = _all_built(variant, log[case.conversation], calls, change)
        return made[key].get(case.position)

    return Axis(what, variants, calls, request)


def _all_built(
    variant: int, conversation: Conversation, calls: Iterable[Case], change: Changing
) -> dict[int, Request | None]:
    from stenolog.adapters.engine.replay.agents import RecordedCards  # late: a page needs no engine

    entries = list(conversation.entries())
    cards, release = RecordedCards(entries), Here(**means(conversation))
    groups: dict[tuple[str, int], list[Case]] = defaultdict(list)
    own = [case for case in calls if case.conversation == conversation.name]
    for case in own:
        groups[case.lane.agent, id(cards.at(case.lane.agent, case.view))].append(case)
    found: dict[int, Request | None] = {}
    for group in groups.values():
        card = cards.at(group[0].lane.agent, group[0].view)
        try:
            under = change(variant, group[0], entries, card)
        except CallerError:
            continue
        found |= {each.case.position: each.now for each in retried(group, entries, under, release)}
    return found


def recorded_calls(
    conversations: Iterable[Conversation],
    agents: Collection[tuple[str, str]] | None,
    answered: bool = False,
) -> list[Case]:
    """Return the calls of these agents, each with its conversation (None: of all), in an order by chance.

    The first of them are then no worse a sample than any others.
    """
    found = [
        case
        for conversation in conversations
        for case in cases(conversation.entries())
        if agents is None or (conversation.name, case.lane.agent) in agents
        if not answered or is_answered(case)
    ]
    return sorted(found, key=rank)
