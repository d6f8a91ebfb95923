"""Rules that give the turn: small values, pure functions of the state of a conversation.

    ModeSwitch(turns=RoundRobin(pass_token="....."))

The log has a rule by its name and its options. A message that names lanes asks those, under every rule; a
rule says who is asked by other messages, and who after that. One of your own is a subclass of `TurnRule` with
a name, registered by `register_turn_rule`; it may look only at the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from stenolog.domain.base.model import Many, Natural, non_default_fields, rule
from stenolog.domain.base.registry import Registry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.values import TurnPolicy

from .state import State

NOBODY = "nobody is there to take a turn"
SPOKEN = "a person has spoken"
CANCELLED = "cancelled"
# Rounds end by default, since agents could talk among themselves without end.
ROUNDS = 10
"""The number of rounds that agents talk among themselves by default."""
How: TypeAlias = Literal["answered", "passed", "failed", "cancelled", "left"]


class NextTurn(NamedTuple):
    """The lanes that have the turn now, and why; no lanes: the turns are over, and why."""

    lanes: tuple[str, ...] = ()
    reason: str = ""


class TurnView(NamedTuple):
    """A turn that is over: whose it was, how it ended, and whether it saw the person's last words."""

    lane: str
    how: How
    saw: bool = True


class TurnRule:
    """A rule that decides which lanes take turns, and in which order.

    `name` is its name in the log. `tracks_turns`: it hands the turn on when all lanes that have it are at
    rest, and says when the turns are over. `one_at_a_time`: messages that come in a turn wait for its end.
    Change `version` whenever the rule decides otherwise: cached states are then rebuilt.
    """

    __slots__ = ()
    name: ClassVar[str]
    version: ClassVar[int] = 1
    tracks_turns: ClassVar[bool] = True
    one_at_a_time: ClassVar[bool] = True

    def fault(self) -> str:
        """Return an error message if the fields contradict each other, or ""."""
        return ""

    @property
    def turns(self) -> TurnPolicy:
        """The rule as it stands in the log: defaults left out."""
        return TurnPolicy(rule=self.name, options=non_default_fields(self))

    def line(self, state: State) -> tuple[str, ...]:
        """Return the agents that take turns, in order, present or not; the members, in order of joining."""
        return state.members

    def opens(self, to: Sequence[str]) -> bool:
        """Return whether a message to these lanes (none: no addressee) gives the turn by this rule."""
        return not to

    def hands_on(self, lane: str) -> bool:
        """Return whether `after` finds the lanes that an answer of `lane` names in `turn_state.handed_to`."""
        return False

    def begin(self, state: State) -> NextTurn:
        """Return the lanes that have the turn after a person's message."""
        raise NotImplementedError

    def after(self, state: State, turn: TurnView) -> NextTurn:
        """Return the lanes that have the turn once no lane has it any more; `turn` is the last that ended."""
        return NextTurn(reason="all have had their turn")


R = TypeVar("R", bound=type[TurnRule])
TURN_RULES: Registry[type[TurnRule]] = Registry("a turn rule")
"""Every turn rule by its name; an application's own are added by `register_turn_rule`."""


def register_turn_rule(cls: R) -> R:
    """Register a turn rule by its name, once, before reading a log that names it.

    Raises `CallerError` if another rule has the name.
    """
    TURN_RULES.add(cls.name, cls)
    return cls


@register_turn_rule
@rule
class ByAddress(TurnRule):
    """Turns by address: the named agents, else `default`, else all. Answers hand on to agents they name."""

    name: ClassVar[str] = "addressed"
    tracks_turns: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False
    default: Many[str] = ()

    def begin(self, state: State) -> NextTurn:
        """Return the default agents; else the members; if nobody has joined, everyone who has spoken."""
        if self.default and (chosen := present(state, self.default)):
            return NextTurn(chosen)
        if state.members:
            return NextTurn(state.members)
        agents = [where for where, lane in state.lanes.items() if not lane.task and lane.status != "closed"]
        return NextTurn(tuple(agents))


@register_turn_rule
@rule
class RoundRobin(TurnRule):
    """One after the other, in `order` (else that of joining), until none has anything new to say.

    A person's words go to the one after who had the turn last. An answer that is just `pass_token` is a pass.
    The turns end when all pass or fail in a row, when a `moderator` passes, and after `max_rounds` since a
    person's last words (0: without end). A lane that has heard nothing new since its last answer is skipped.
    """

    name: ClassVar[str] = "round_robin"
    order: Many[str] = ()
    pass_token: str = ""
    moderator: str | Many[str] = ""
    max_rounds: Natural = ROUNDS

    def fault(self) -> str:
        """Return the fault of an order with repetitions, or of a passing moderator without a pass."""
        if self.moderator and not self.pass_token:
            return "expected a pass_token for the moderator to pass with, found none"
        return _repeated(self.order)

    def line(self, state: State) -> tuple[str, ...]:
        """Return the order, else the members."""
        return tuple(self.order) or state.members

    def begin(self, state: State) -> NextTurn:
        """Return the agent after the last holder of the turn."""
        line = present(state, around(self.line(state), state.turn_state.last_holder))
        return NextTurn(line[:1], SPOKEN if line else NOBODY)

    def after(self, state: State, turn: TurnView) -> NextTurn:
        """Return the next agent that has a new message; none when all are done."""
        line = present(state, around(self.line(state), state.turn_state.last_holder))
        if over := self._over(state, turn, len(line)):
            return NextTurn(reason=over)
        done = state.turn_state.passes_in_row + state.turn_state.failures_in_row
        # The last of the line have just passed or failed, and each is asked once in a round.
        for where in line[: max(0, len(line) - done)]:
            if has_news(state, where):
                return NextTurn((where,), f"after {turn.lane}")
        return NextTurn(reason=_all_done(state, len(line)))

    def _over(self, state: State, turn: TurnView, number: int) -> str:
        """Return why the turns are over, though an agent may have something to say; else ""."""
        if not number:
            return NOBODY
        if turn.how == "cancelled":
            return CANCELLED
        moderators = (self.moderator,) if isinstance(self.moderator, str) else self.moderator
        if turn.how == "passed" and turn.saw and turn.lane in moderators:
            return f"{turn.lane}, who moderates, passed"
        if self.max_rounds and state.turn_state.turns_since >= self.max_rounds * number:
            return f"max_rounds: {self.max_rounds}"
        return ""


@register_turn_rule
@rule
class Sequential(TurnRule):
    """Each once, in `order`; agents that left are skipped. The turns end with the last, or at a failure.

    A person's message in between begins it again after the turn.
    """

    name: ClassVar[str] = "pipeline"
    order: Many[str]

    def fault(self) -> str:
        """Return the fault of a missing order, or of one with repetitions."""
        return _repeated(self.order) if self.order else "expected an order of at least one, found none"

    def line(self, state: State) -> tuple[str, ...]:
        """Return the order."""
        return tuple(self.order)

    def begin(self, state: State) -> NextTurn:
        """Return the first."""
        line = present(state, self.order)
        return NextTurn(line[:1], SPOKEN if line else NOBODY)

    def after(self, state: State, turn: TurnView) -> NextTurn:
        """Return the next in order, or the first again if a person has spoken during the turn."""
        if turn.how == "cancelled":
            return NextTurn(reason=CANCELLED)
        first, failed = present(state, self.order)[:1], turn.how == "failed"
        spoken = state.turn_state.granted_at < state.turn_state.last_person_at
        if spoken and (failed or not turn.saw or first != (turn.lane,)):
            return self.begin(state)
        if failed:
            return NextTurn(reason=f"{turn.lane} failed")
        # After an agent outside the order, to whom one has handed on, it goes on after that one.
        last = turn.lane if turn.lane in self.order else state.turn_state.last_holder
        at = self.order.index(last) + 1 if last in self.order else len(self.order)
        line = present(state, self.order[at:])
        return NextTurn(line[:1], f"after {turn.lane}" if line else "each has had its turn")


@register_turn_rule
@rule
class Orchestrator(TurnRule):
    """`agent` is asked, and hands on to those that its answer names.

    When they have answered, failed or left, it is asked again. The turns end with an answer of its own that
    names no agent.
    """

    name: ClassVar[str] = "orchestrator"
    one_at_a_time: ClassVar[bool] = False
    agent: str

    def line(self, state: State) -> tuple[str, ...]:
        """Return the agent, and all that it may hand on to."""
        return tuple(dict.fromkeys((self.agent, *state.members, *state.lanes)))

    def opens(self, to: Sequence[str]) -> bool:
        """Return whether a message opens a turn: also one that names no agent."""
        return not to or set(to) == {self.agent}

    def hands_on(self, lane: str) -> bool:
        """Return whether the lane is the agent's: only the agent hands on."""
        return lane == self.agent

    def begin(self, state: State) -> NextTurn:
        """Return the agent."""
        line = present(state, (self.agent,))
        return NextTurn(line, SPOKEN if line else f"{self.agent} is not there")

    def after(self, state: State, turn: TurnView) -> NextTurn:
        """Return the named agents; else the agent, if it has not seen all answers."""
        if turn.lane == self.agent and turn.how in ("failed", "cancelled"):
            return NextTurn(reason=f"{self.agent} failed" if turn.how == "failed" else CANCELLED)
        if named := present(state, state.turn_state.handed_to):
            return NextTurn(named, f"{self.agent} handed on")
        if not present(state, (self.agent,)):
            return NextTurn(reason=f"{self.agent} is not there")
        if has_news(state, self.agent):
            return NextTurn((self.agent,), "all that were asked have come to rest")
        if turn.lane == self.agent:
            return NextTurn(reason=f"{self.agent} handed on to nobody")
        return NextTurn(reason=f"nothing new for {self.agent}: {turn.lane} {turn.how}")


@register_turn_rule
@rule
class ByHandoff(TurnRule):
    """A person's words go to the agent that was handed to last, else to `first`.

    The turn goes on by calls that hand on. With `returns`, it goes back to the agent that handed on, once the
    other has answered, failed or left; so a person's words begin with `first` again.
    """

    name: ClassVar[str] = "handoff"
    one_at_a_time: ClassVar[bool] = False
    first: str
    returns: bool = False

    def line(self, state: State) -> tuple[str, ...]:
        """Return the first, and all that may be handed to."""
        return tuple(dict.fromkeys((self.first, *state.members, *state.lanes)))

    def begin(self, state: State) -> NextTurn:
        """Return the agent that the person talks with."""
        turn_state = state.turn_state
        last = () if self.returns and not turn_state.holders else (turn_state.last_holder,)
        line = present(state, (*filter(None, last), self.first))
        return NextTurn(line[:1], SPOKEN if line else f"{self.first} is not there")

    def after(self, state: State, turn: TurnView) -> NextTurn:
        """Return the agent that handed on, if the turn returns."""
        if turn.how == "cancelled":
            return NextTurn(reason=CANCELLED)
        if self.returns and (back := present(state, reversed(state.turn_state.handed_by))):
            return NextTurn(back[:1], f"back from {turn.lane}")
        return NextTurn(reason=f"{turn.lane} {turn.how}")


@register_turn_rule
@rule
class Parallel(TurnRule):
    """All at once: those of `order`, which may name tasks (`writer/1`), else the members."""

    name: ClassVar[str] = "parallel"
    one_at_a_time: ClassVar[bool] = False
    order: Many[str] = ()

    def fault(self) -> str:
        """Return the fault of an order with repetitions."""
        return _repeated(self.order)

    def line(self, state: State) -> tuple[str, ...]:
        """Return the order, else the members."""
        return tuple(self.order) or state.members

    def begin(self, state: State) -> NextTurn:
        """Return all of them."""
        line = present(state, self.line(state))
        return NextTurn(line, SPOKEN if line else NOBODY)


def is_known(turns: object) -> bool:
    """Return whether the turn rule that a mode switch sets, if any, is registered here."""
    return not isinstance(turns, TurnPolicy) or turns.rule in TURN_RULES


def load(turns: TurnPolicy) -> TurnRule:
    """Return the rule that a log names. Raises `InvalidPolicyError` for an unknown name or options."""
    if turns.rule not in TURN_RULES:
        raise InvalidPolicyError(TURN_RULES.missing(turns.rule))
    known: Any = TURN_RULES[turns.rule]
    return _rule_from_json(known, json.dumps(turns.options))


@lru_cache(maxsize=64)
def _rule_from_json(known: Any, options: str) -> TurnRule:
    # Cached, because it is asked for at each turn and takes long to make.
    rule: TurnRule = known(**json.loads(options))
    return rule


def rule_of(turns: TurnPolicy | None) -> TurnRule:
    """Return the rule in force: by address if none is set, or none of that name and options is known."""
    if turns is not None:
        try:
            return load(turns)
        # A fold cannot refuse an entry; `decide` refuses the switch before it is written.
        except InvalidPolicyError:
            pass
    return _addressed()


@cache
def _addressed() -> TurnRule:
    return ByAddress()


def present(state: State, line: Iterable[str]) -> tuple[str, ...]:
    """Return the lanes of a line that take part, each once; if no agent has joined, all."""
    is_present = state.is_open if not state.members else state.takes_part
    return tuple(filter(is_present, dict.fromkeys(line)))


def around(line: Sequence[str], last: str) -> Iterator[str]:
    """Yield the line once around, from the one after `last`; from its start if `last` is not in it."""
    begin = line.index(last) + 1 if last in line else 0
    yield from line[begin:]
    yield from line[:begin]


def has_news(state: State, where: str) -> bool:
    """Return whether a person's message, or another lane's answer in turn, is new to the lane."""
    seen, turn_state = state.lane(where).seen, state.turn_state
    return seen < max(
        turn_state.last_person_at,
        turn_state.last_answer_at if turn_state.last_answer_by != where else turn_state.previous_answer_at,
    )


def _all_done(state: State, number: int) -> str:
    """Return why a round is over without anything new."""
    passes, fails = state.turn_state.passes_in_row, state.turn_state.failures_in_row
    if not passes and not fails:
        return "nobody else is there to answer"
    if not fails:
        return "all passed in a row" if passes >= number else "all others passed"
    if fails >= number:
        return "all failed in a row"
    return f"nobody said anything new: {passes} passed, {fails} failed"


def _repeated(order: Sequence[str]) -> str:
    twice = next((where for where in order if list(order).count(where) > 1), None)
    return "" if twice is None else f"expected each once, found {twice!r} twice"
