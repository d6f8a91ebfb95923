"""Hand-offs under every rule of turns, after any history."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from stenolog import AssistantMessage, Event, ModeSwitch, State, ToolCall, ToolResult, UserMessage, evolve
from stenolog.domain.lanes.handoffs import message_mark, result_mark
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.limits import UsageByLane, track_usage
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.lanes.step import INITIAL
from stenolog.engine import ByAddress, ByHandoff, Orchestrator, Parallel, RoundRobin, Sequential, TurnRule
from stenolog.events import AgentCard, CallRef, Control, Tool
from stenolog.testing import entries
from tests.random_cases import seeds

NAMES = ("a", "b", "c")
RULES: tuple[TurnRule | None, ...] = (
    None,
    ByAddress(("a",)),
    RoundRobin(),
    RoundRobin(("a", "b"), max_rounds=2),
    Sequential(("a", "b")),
    Orchestrator("a"),
    Parallel(),
    ByHandoff("a"),
    ByHandoff("a", returns=True),
)


class Talk:
    """A conversation in which lanes do what they have to, and hand on by chance."""

    def __init__(self, chance: Random, rule: TurnRule | None) -> None:
        self.chance = chance
        self.events: list[Event] = []
        self.state: State = INITIAL
        self.accounts = UsageByLane()
        self.owed: set[str] = set()
        """The agents that were handed to, and have not answered since."""
        tools = [Tool(name="hand", ends_run=True), Tool(name="look")]
        cards = dict.fromkeys(NAMES, AgentCard(tools=tools))
        turns = {} if rule is None else {"turns": rule.turns}
        self.add(ModeSwitch(joins=NAMES, cards=cards, **turns))  # type: ignore[arg-type]

    def add(self, *events: Event) -> None:
        """Append events together."""
        for event in events:
            self.events.append(event)
            [first] = entries(event)
            entry = first._replace(position=len(self.events), id=f"e{len(self.events)}")
            self.state = evolve(self.state, entry)
            self.accounts = track_usage(self.accounts, entry)

    def step(self) -> bool:
        """Let one lane do what is due; return whether one had something to do."""
        due = [lane for lane in self.state.lanes.values() if lane.status in BUSY]
        if not due:
            return False
        lane = self.chance.choice(due)
        if lane.status == "awaiting_llm":
            self.add(AssistantMessage(agent=lane.agent, text="", tool_calls=[*self._calls()]))
            self.owed.discard(lane.agent)
        else:
            self.add(*self._result(lane))
        return True

    def _calls(self) -> Iterator[ToolCall]:
        names = self.chance.choice(([], [], ["hand"], ["hand", "look"], ["look"]))
        yield from (ToolCall(id=f"{len(self.events)}-{name}", name=name, arguments="{}") for name in names)

    def _result(self, lane: LaneState) -> Iterator[Event]:
        call = self.chance.choice(lane.calls)
        ref = CallRef(entry=call.entry, index=call.nth)
        others = [name for name in NAMES if name != lane.agent and self.state.takes_part(name)]
        hands = call.name == "hand" and others
        to = self.chance.choice(others) if hands else ""
        meta = result_mark(to) if to else {}
        yield ToolResult(call_id=call.id, call=ref, name=call.name, meta=meta, is_error=not meta)
        if to:
            self.owed.add(to)
            yield UserMessage(
                text="Go on.",
                author=lane.agent,
                author_kind="agent",
                to=[to],
                cause=call.position,
                meta=message_mark(call.nth),
            )

    def disturb(self) -> None:
        """Have a person speak or cancel, or an agent leave or come back."""
        match self.chance.randrange(5):
            case 0 | 1:
                self.add(UserMessage(text="And?"))
            case 2:
                self.add(UserMessage(text="You?", to=[self.chance.choice(self.state.members)]))
            case 3 if any(lane.status in BUSY for lane in self.state.lanes.values()):
                self.add(UserMessage(control=Control(action="cancel")))
                self.owed.clear()
            case _:
                gone = [name for name in NAMES if name not in self.state.members]
                self.add(ModeSwitch(joins=gone) if gone else ModeSwitch(leaves=["c"]))
                self.owed.discard("c")


@seeds(40, slow=2_000)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_who_is_handed_to_has_the_turn_and_the_turns_end(seeds: range, rule: TurnRule | None) -> None:
    for seed in seeds:
        _check(Talk(Random(seed), rule))


def _check(talk: Talk) -> None:
    talk.add(UserMessage(text="Go."))
    for _ in range(30):
        if talk.chance.random() < 0.15:
            talk.disturb()
        talk.step()
    # From here on nobody hands on any more.
    talk._calls = lambda: iter(())  # type: ignore[method-assign]
    while talk.step():
        assert len(talk.events) < 500

    turn = talk.state.turn_state
    assert (talk.state.anomalies, talk.owed) == (0, set())
    assert (turn.holders, turn.transfers, talk.state.waiting) == ((), (), 0)
    assert len(set(turn.handed_by)) == len(turn.handed_by)
    handed = sum(isinstance(event, ToolResult) and bool(event.meta) for event in talk.events)
    assert max((lane.handoffs for lane in talk.accounts.lanes.values()), default=0) <= handed
