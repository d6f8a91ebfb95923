"""Events in a few words, unescaped (print them through `safety`), and the colours that go with them."""

from __future__ import annotations

from stenolog.domain.events import AssistantMessage
from stenolog.domain.turn_taking import is_pass
from stenolog.domain.values import TurnPolicy
from stenolog.projections.describe import Description as Description
from stenolog.projections.describe import describe as describe
from stenolog.projections.describe import in_words as in_words
from stenolog.projections.describe import thoughts as thoughts


def counted(number: int, what: str, many: str = "") -> str:
    """So many of it: 1 request, 12 requests; `many` where that is no mere `s`."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def passes(answer: AssistantMessage, turns: TurnPolicy | None) -> bool:
    """Return whether an answer only passes the turn on."""
    token = pass_token(turns)
    return bool(token) and is_pass(answer, token)


def pass_token(turns: TurnPolicy | None) -> str:
    """Return the token by which an agent passes under a turn policy; empty if there is none."""
    token = turns.options.get("pass_token") if turns is not None else None
    return token if isinstance(token, str) else ""


STYLES = {
    "user_message": "green",
    "assistant_message": "cyan",
    "tool_result": "blue",
    "llm_error": "red",
    "mode_switch": "magenta",
    "unknown": "yellow",
}
