"""JSON values in Python's syntax, with a line for each item and each line of a text."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 88
DEEPEST = 40
"""Python takes some hundred brackets in each other; what lies deeper is written as JSON."""


def literal(value: Any, depth: int = 0) -> str:
    """Return a JSON value as a Python literal; invisible characters are escaped."""
    if isinstance(value, str):
        return _text(str(value), depth)
    if not isinstance(value, dict | list | tuple) or not value:
        return repr(value)
    if depth >= DEEPEST:
        return f'__import__("json").loads({_quoted(json.dumps(value))})'
    indent = "    " * depth
    if isinstance(value, dict):
        items = [f"{_quoted(str(key))}: {literal(inner, depth + 1)}" for key, inner in value.items()]
        first, last = "{", "}"
    else:
        items, first, last = [literal(inner, depth + 1) for inner in value], "[", "]"
    line = first + ", ".join(items) + last
    if len(line) + len(indent) <= WIDTH and "\n" not in line:
        return line
    rows = "".join(f"{indent}    {item},\n" for item in items)
    return f"{first}\n{rows}{indent}{last}"


def docstring(*paragraphs: str) -> str:
    """Return paragraphs as the docstring of a module."""
    words = "\n\n".join(
        _quoted(text)[1:-1].replace("\\'", "'").replace('"', "'") for text in paragraphs if text
    )
    return f'"""{words}\n"""' if "\n" in words else f'"""{words}"""'


def _text(text: str, depth: int) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or len(text) <= WIDTH - 4 * depth:
        return _quoted(text)
    indent = "    " * (depth + 1)
    rows = "".join(f"{indent}{_quoted(line)}\n" for line in lines)
    return f"(\n{rows}{indent[4:]})"


def _quoted(text: str) -> str:
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted
