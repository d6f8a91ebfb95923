"""Choices that a request begins with: among a log's lanes, and of a policy with its counter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stenolog.domain.card import policy_of_card
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, InvalidPolicyError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.policy import Policy, PolicyLike, policy
from stenolog.domain.settings import Settings
from stenolog.projections.messages.sizes import Counter

from .pipeline.lane import LaneId
from .sendable import unknown_agent


def choose(
    now: Settings, agent: str, given: PolicyLike, counters: Mapping[str, Counter]
) -> tuple[Policy, Counter]:
    """Return the given policy, else the card's, and its counter."""
    chosen = policy_of_card(now.card_of(agent)) if given is None else policy(given)
    try:
        return chosen, counters[chosen.counter]
    except KeyError:
        known = ", ".join(counters)
        raise InvalidPolicyError(
            f"/budget/counter: expected one of {known}, found {chosen.counter!r}"
        ) from None


def lanes(entries: Iterable[Entry]) -> tuple[LaneId, ...]:
    """Return every lane that took part or was addressed, in order of appearance."""
    return tuple(dict.fromkeys(lane for entry in entries for lane in _lanes_of(entry)))


def check_takes_part(entries: Iterable[Entry], agent: str) -> None:
    """Raise `AgentNotFoundError` if only other agents took part or were addressed."""
    known = [*dict.fromkeys(lane.agent for lane in lanes(entries))]
    if known and agent not in known:
        raise AgentNotFoundError(unknown_agent(agent, known))


def _lanes_of(entry: Entry) -> Iterator[LaneId]:
    match entry.event:
        case AssistantMessage(in_context=False):
            pass  # for the timeline alone, such as a subgraph's: it has no requests
        case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
            yield LaneId(agent, task)
        case UserMessage(to=to):
            for where in to:
                agent, _, task = where.partition("/")
                yield LaneId(agent, task)
        case ModeSwitch(joins=joins, cards=cards):
            for agent in (*joins, *cards):
                yield LaneId(agent)
        case _:
            pass
