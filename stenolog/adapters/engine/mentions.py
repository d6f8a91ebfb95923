"""Who is spoken to: `@name` in an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stenolog.domain.turns import rule_of
from stenolog.domain.values import Turns

MENTION = re.compile(r"(?<![\w@.])@([\w][\w./-]*)")


def mentioned(text: str, names: Iterable[str], speaker: str, turns: Turns | None) -> tuple[str, ...]:
    """The agents that an answer hands on to, in the order of their first mention, without the speaker.

    Nobody, where the turn rule alone says who is next.
    """
    rule = rule_of(turns)
    if rule.keeps_floor and not rule.hands_on(speaker):
        return ()
    known = {name.casefold(): name for name in names}
    words = (match.rstrip(".-/") for match in MENTION.findall(text))
    found = (known.get(word.casefold()) for word in words)
    return tuple(dict.fromkeys(name for name in found if name and name != speaker))
