"""Events in a few words, unescaped (print them through `safety`), and the colours that go with them."""

from __future__ import annotations

from stenolog.projections.words import Words as Words
from stenolog.projections.words import describe as describe
from stenolog.projections.words import in_words as in_words


def counted(number: int, what: str, many: str = "") -> str:
    """So many of it: 1 request, 12 requests; `many` where that is no mere `s`."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


STYLES = {
    "user_message": "green",
    "assistant_message": "cyan",
    "tool_result": "blue",
    "llm_error": "red",
    "mode_switch": "magenta",
    "unknown": "yellow",
}
