"""What is heard from outside: whom it is for."""

from __future__ import annotations

from collections.abc import Iterable

from stenolog.adapters.engine.mentions import MENTION


def mentioned(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """The agents that a text names by `@name`, in the order of their first mention."""
    known = {name.casefold(): name for name in names}
    found = (known.get(word.rstrip(".-/").casefold()) for word in MENTION.findall(text))
    return tuple(dict.fromkeys(name for name in found if name))
