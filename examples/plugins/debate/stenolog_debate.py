"""The turn rule `debate`: two sides answer each other, then a judge speaks."""

from typing import ClassVar

from stenolog import State
from stenolog.engine import NextTurn, TurnRule, TurnView, register_turn_rule, rule


@register_turn_rule
@rule
class Debate(TurnRule):
    """Two sides answer each other, each `rounds` times; then the judge speaks."""

    name: ClassVar[str] = "debate"
    first: str
    second: str
    judge: str
    rounds: int = 2

    def begin(self, state: State) -> NextTurn:
        return NextTurn((self.first,), "the first side opens")

    def after(self, state: State, turn: TurnView) -> NextTurn:
        if turn.lane == self.judge or turn.how in ("failed", "cancelled"):
            return NextTurn(reason=f"{turn.lane} {turn.how}")
        if state.turn_state.turns_since >= 2 * self.rounds:
            return NextTurn((self.judge,), "both sides have been heard")
        return NextTurn((self.second if turn.lane == self.first else self.first,), f"after {turn.lane}")
