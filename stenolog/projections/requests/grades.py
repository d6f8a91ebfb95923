"""Grades of a recorded request that was built again: how much of it the log explains.

    bytes       the bytes are the ones that were sent, and nothing says where they come from
    attributed  each value is from an entry or a card, or is a constant of the client that the receipt names
    derived     each value is from an entry or a card

A value that stands under the same key in what stenolog builds is from there, however short it is. The fields
that say only how a body is written, such as `type`, are nobody's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from .as_sent import RAW, Patch
from .body_digest import compact
from .recipe import REFERENCE, Recipe, escape

Grade: TypeAlias = Literal["bytes", "attributed", "derived"]
GRADES: tuple[Grade, ...] = ("bytes", "attributed", "derived")
FORM = frozenset(("type", "role"))


def grade_of(plan: Mapping[str, Any], patch: Patch, built: Mapping[str, Any]) -> Grade:
    """Return the grade of a request, by the patch in its receipt and the body that stenolog builds.

    `plan` is the patch as the receipt has it, `patch` the same one with what it rests on.
    """
    if RAW in plan:
        return "bytes"
    return "attributed" if any(True for _ in constants(patch, built)) else "derived"


def constants(patch: Patch, built: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the client's own constants, by JSON pointer: the value, or the name of its blob."""
    there = {*_leaves(built, "")}
    given = [("", patch.front), *((f"/{n}", recipe) for n, recipe in enumerate(patch.messages))]
    for pointer, recipe in given:
        yield from _literals(recipe, pointer, "", there)


def _literals(
    recipe: Recipe, pointer: str, key: str, there: set[tuple[str, str]]
) -> Iterator[tuple[str, Any]]:
    match recipe:
        case {"text": list(texts)} if REFERENCE in recipe:
            yield from ((pointer, text) for text in texts if isinstance(text, str) and text)
        case {"blob": str(name)} | {"recipe": str(name)} if REFERENCE in recipe:
            yield pointer, name
        case {"as-is": value} if REFERENCE in recipe:
            yield pointer, value
        case dict() if REFERENCE in recipe:
            return
        case dict():
            for name, inner in recipe.items():
                yield from _literals(inner, f"{pointer}/{escape(name)}", name, there)
        case list():
            for n, inner in enumerate(recipe):
                yield from _literals(inner, f"{pointer}/{n}", key, there)
        case _:
            if key not in FORM and (key, compact(recipe)) not in there:
                yield pointer, recipe


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _leaves(inner, name)
        case list():
            for inner in value:
                yield from _leaves(inner, key)
        case _:
            yield key, compact(value)
