"""The known name that a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Collection


def closest(name: str, known: Collection[str], likeness: float = 0.7, *, begins: bool = True) -> str:
    """Return the known name that `name` may be a slip for, else "". Case and underscores do not count.

    `likeness` is the least one of `difflib`, from 0 to 1. With `begins`, either may begin the other.
    """
    from difflib import get_close_matches  # late: only a mistake needs it

    # Of names that are the same without case, the first one is meant.
    folded = {_folded(other): other for other in reversed([*known])}
    asked = _folded(name)
    if found := get_close_matches(asked, folded, 1, likeness):
        return folded[found[0]]
    # Any name may begin with a name of two letters.
    begun = [
        other
        for other in folded
        if asked and (other.startswith(asked) or (len(other) > 2 and asked.startswith(other)))
    ]
    return folded[min(begun, key=len)] if begins and begun else ""


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()
