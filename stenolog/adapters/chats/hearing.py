"""What is heard from outside: whom it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stenolog.adapters.engine.mentions import MENTION


def mentioned(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that a text names by `@name`, in the order of their first mention; `names` has the agent of
    each name that it may be called by, in lower case."""
    found = (names.get(word.rstrip(".-/").casefold()) for word in MENTION.findall(text))
    return tuple(dict.fromkeys(name for name in found if name))


def called(agents: Iterable[str]) -> dict[str, str]:
    """The agents by what they may be called: their names, in lower case, with `_` for each blank."""
    return {"_".join(name.casefold().split()): name for name in agents}
