"""Calls that the engine would not make today, or that a team of today would make otherwise."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import NotRegisteredError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.lanes.state import State, decision
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.lanes.turns import TURN_RULES, is_known
from stenolog.domain.values import TurnPolicy
from stenolog.projections.json_checks import JsonDifference

from .cases import Case
from .changes import is_foreign


class Team(NamedTuple):
    """A whole team as it is now: the cards of its agents, and its rule of turns, if any."""

    cards: Mapping[str, AgentCard]
    turns: TurnPolicy | None = None


NOT_COMPARED: Final = ("limits", "retries", "timeouts", "on_unknown", "what tools do")
"""Parts of a team that leave no trace in a log, and are not compared."""


def decided_otherwise(
    recorded: Sequence[Entry], changed: Sequence[Entry], cases: Iterable[Case], team: Team | None = None
) -> dict[int, JsonDifference]:
    """Return the calls that would not be made so, by the position of their answer.

    A team must have every agent that was called and none that never took part, the same rule of turns, and
    ask a person about the same tools. Raises `NotRegisteredError` for an unknown rule of turns.
    """
    _check_turn_rules(recorded)
    sent = [case for case in cases if case.receipt is not None]
    members, asking = (_members(recorded, sent, team), _asking(recorded, sent, team)) if team else ({}, {})
    return asking | _undue(changed, sent) | members


def _check_turn_rules(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if isinstance(entry.event, ModeSwitch) and not is_known(turns := entry.event.turns):
            rule = turns.rule if isinstance(turns, TurnPolicy) else turns
            raise NotRegisteredError(f"position {entry.position}: {TURN_RULES.missing(rule)}")


def _undue(log: Iterable[Entry], cases: Sequence[Case]) -> dict[int, JsonDifference]:
    odd: dict[int, JsonDifference] = {}
    for case, state in _states(log, cases):
        if is_foreign(case):
            continue  # another program made the call, by rules of its own
        then, now = case.answer.cause, decision(state, state.lane(case.lane.address))
        if now.do != "call_model" or then not in (None, now.cause):
            expected = f"a model call for position {then}"
            odd[case.position] = JsonDifference("", expected, f"{now.do} for position {now.cause}")
    return odd


def _members(log: Sequence[Entry], cases: Sequence[Case], team: Team) -> dict[int, JsonDifference]:
    """Return the calls before which the team or its turn rule differs. Lanes of tasks belong to workers."""
    switches = (entry.event for entry in log if isinstance(entry.event, ModeSwitch))
    joined = {name for switch in switches for name in switch.joins} | {case.lane.agent for case in cases}
    strangers = ", ".join(name for name in team.cards if name not in joined)
    odd: dict[int, JsonDifference] = {}
    for case, state in _states(log, cases):
        agent = case.lane.agent
        if not case.lane.task and agent not in team.cards:
            pair = f"agent {agent!r}", f"only {', '.join(team.cards)}"
        elif strangers:
            pair = f"only {', '.join(sorted(joined))}", f"{strangers} besides"
        elif state.turns != team.turns:
            pair = f"turns: {_rule(state.turns)}", f"turns: {_rule(team.turns)}"
        else:
            continue
        odd[case.position] = JsonDifference("", *pair)
    return odd


def _asking(log: Iterable[Entry], cases: Sequence[Case], team: Team) -> dict[int, JsonDifference]:
    odd: dict[int, JsonDifference] = {}
    for case, state in _states(log, cases):
        then = sorted(state.approvals.get(case.lane.agent, ()))
        card = team.cards.get(case.lane.agent)
        now = sorted(tool.name for tool in (card and card.tools) or () if tool.approval)
        if card is not None and then != now:
            words = (f"approval of: {', '.join(names) or '-'}" for names in (then, now))
            odd[case.position] = JsonDifference("", *words)
    return odd


def _states(log: Iterable[Entry], cases: Iterable[Case]) -> Iterator[tuple[Case, State]]:
    views: dict[int, list[Case]] = defaultdict(list)
    for case in cases:
        views[case.view].append(case)
    state = INITIAL
    for entry in log:
        state = evolve(state, entry)
        for case in views.get(entry.position, ()):
            yield case, state


def _rule(turns: TurnPolicy | None) -> str:
    if turns is None:
        return "no rule"
    return f"{turns.rule} {json.dumps(turns.options)}" if turns.options else turns.rule
