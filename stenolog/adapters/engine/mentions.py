"""Who is spoken to: `@name` in an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stenolog.domain.values import Turns

MENTION = re.compile(r"(?<![\w@.])@([\w][\w./-]*)")
HANDS_ON = ("addressed", "orchestrator")
"""The turn rules under which an answer chooses who is next."""


def mentioned(text: str, names: Iterable[str], speaker: str, turns: Turns | None) -> tuple[str, ...]:
    """The agents that an answer hands on to, in the order of their first mention, without the speaker."""
    if turns is not None and turns.rule not in HANDS_ON:
        return ()
    known = {name.casefold(): name for name in names}
    words = (match.rstrip(".-/") for match in MENTION.findall(text))
    found = (known.get(word.casefold()) for word in words)
    return tuple(dict.fromkeys(name for name in found if name and name != speaker))
