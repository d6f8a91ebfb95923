"""Lists of names for the API pages: how each is called, and the first sentence of its documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any

MARKS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def listed(names: Iterable[tuple[str, Any]], *, with_methods: bool) -> str:
    """Return the list of some names and their values, with a row for each method of a class if asked."""
    given = dict(names)
    rows, mute = list[str](), list[str]()
    for name, value in given.items():
        row = _row(name, value)
        if row == f"- `{name}`":
            mute.append(f"`{name}`")
            continue
        rows.append(row)
        rows += [f"    {_row(*each)}" for each in _methods(name, value, given) if with_methods]
    return "\n".join([*rows, *([f"\nAlso: {', '.join(mute)}."] if mute else [])])


def _methods(name: str, value: Any, beside: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a class's own public methods; of an asynchronous twin none, for the class beside it has them."""
    # The fields of a value are on the pages of events and parts; an error has none of its own.
    if not inspect.isclass(value) or _is_value(value) or name.startswith("Async"):
        return
    inherited = {each for base in value.__mro__[1:] if base in beside.values() for each in vars(base)}
    for method, given in inspect.getmembers(value):
        ours = getattr(given, "__module__", "") or getattr(getattr(given, "fget", None), "__module__", "")
        is_own = method not in inherited and (ours or "").startswith("stenolog")
        if is_own and not method.startswith("_") and _first_sentence(given):
            yield method, given


def _is_value(value: Any) -> bool:
    return inspect.isclass(value) and (is_dataclass(value) or issubclass(value, (tuple, BaseException)))


def _row(name: str, value: Any) -> str:
    if inspect.isclass(value) and not value.__module__.startswith("stenolog"):
        return f"- `{name}`"  # a name for a type of another package
    says = _first_sentence(value)
    return f"- `{name}{'' if _is_value(value) else _arguments(value)}`" + (f": {says}" if says else "")


def _arguments(value: Any) -> str:
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return ""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):  # a type alias, or a class written in C
        return ""
    words, named = list[str](), False
    for each in (each for each in parameters if each.name != "self"):
        if each.kind is each.KEYWORD_ONLY and not named:
            words.append("*")
        named = named or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        words.append(MARKS.get(each.kind, "") + each.name)
    return f"({', '.join(words)})"


def _first_sentence(value: Any) -> str:
    if not (inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, property)):
        return ""
    first = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", first)
    return sentence[0] if sentence else first
