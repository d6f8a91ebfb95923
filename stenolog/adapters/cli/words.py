"""Events in a few words, unescaped (print them through `safety`), and the colours that go with them."""

from __future__ import annotations

from stenolog.projections.words import Words as Words
from stenolog.projections.words import describe as describe
from stenolog.projections.words import in_words as in_words

STYLES = {
    "user_message": "green",
    "assistant_message": "cyan",
    "tool_result": "blue",
    "llm_error": "red",
    "mode_switch": "magenta",
    "unknown": "yellow",
}
