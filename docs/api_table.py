"""Tables of names for the API pages: how each is called, and the first sentence of its documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any

HEAD = "| name | |\n|---|---|"
MARKS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def table(names: Iterable[tuple[str, Any]]) -> str:
    """Return the table of some names and their values, with the public methods of the classes among them."""
    rows = (row for name, value in names for row in _rows(name, value))
    return "\n".join([HEAD, *rows])


def _rows(name: str, value: Any) -> Iterator[str]:
    yield _row(name, value)
    # The fields of a value class stand on the pages of events and parts; an error has none of its own.
    if not inspect.isclass(value) or is_dataclass(value) or issubclass(value, (tuple, BaseException)):
        return
    for method, given in inspect.getmembers(value):
        ours = getattr(given, "__module__", "") or getattr(getattr(given, "fget", None), "__module__", "")
        if not method.startswith("_") and (ours or "").startswith("stenolog"):
            yield _row(f"{name}.{method}", given)


def _row(name: str, value: Any) -> str:
    return f"| `{name}{_arguments(value)}` | {_first_sentence(value)} |"


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
    return (sentence[0] if sentence else first).replace("|", "\\|")
