"""Grades of a recorded request that was built again: how much of it the log explains.

    bytes       the bytes are the ones that were sent, and nothing says where they come from
    attributed  each value is from an entry or a card, or is a constant of the client that the receipt names
    derived     each value that the model is given is from an entry or a card

A value under the same key in what stenolog builds is from there, however short, and so is a part of a text
under the same key of the body. Fields on how messages are written, such as `type`, or that number them, do
not count. Fields on how and to whom the answer comes are not given to the model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from stenolog.projections.formats.parameters import ABOUT_TOOLS
from stenolog.projections.messages.body_digest import compact, escape

from .as_sent import FOLLOWED, RAW, Patch
from .recipe import REFERENCE, Recipe

Grade: TypeAlias = Literal["bytes", "attributed", "derived"]
GRADES: tuple[Grade, ...] = ("bytes", "attributed", "derived")
FORM = frozenset(("type", "role", "id", "status"))
DEFAULTS = frozenset((("is_error", "false"), ("strict", "false")))
"""Keys with the JSON that is the same as nothing."""
ENVELOPE = frozenset(
    {
        "stream", "stream_options", "store", "metadata", "client_metadata", "prompt_cache_key", "user",
        "safety_identifier", "service_tier", "labels", "generate",
    }
)  # fmt: skip
"""The keys of a body that say how its answer comes, what it costs, and whose it is."""
GIVEN = frozenset(("input", "args", "arguments", "response"))
"""The keys of what a model or a tool has given, in which no field is a form."""
CLIENTS_OWN = frozenset(("internal_chat_message_metadata_passthrough",))
"""The keys of what a client notes beside a message."""


class _Built:
    """The values in the built body by key, and the texts under one key."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._leaves = {*_leaves(body, "")}
        self._texts: dict[str, list[str]] = {}

    def has(self, value: Any, key: str, top: str) -> bool:
        if (key, compact(value)) in self._leaves:
            return True
        if top not in self._texts:
            leaves = (value for _, value in _leaves(self._body.get(top), ""))
            self._texts[top] = [leaf for leaf in leaves if leaf[0] == '"']
        return isinstance(value, str) and any(compact(value)[1:-1] in text for text in self._texts[top])


def grade_of(
    plan: Mapping[str, Any],
    patch: Patch,
    built: Mapping[str, Any],
    blobs: Mapping[str, bytes],
    answers: Collection[str] = (),
) -> Grade:
    """Return a request's grade.

    `plan` is the patch in the receipt, `patch` the resolved one, `built` the body that stenolog builds,
    `answers` the ids of answers in the log.
    """
    if RAW in plan:
        return "bytes"
    return "attributed" if any(True for _ in constants(patch, built, blobs, answers)) else "derived"


def constants(
    patch: Patch, built: Mapping[str, Any], blobs: Mapping[str, bytes], answers: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield the client's own constants, by JSON pointer: the value, or the name of its blob."""
    built_parts = _Built(built)
    # What is said about tools says nothing where none are sent.
    unseen = ENVELOPE if patch.front.get("tools") else ENVELOPE.union(ABOUT_TOOLS)
    for key, recipe in patch.front.items():
        if key == FOLLOWED and recipe in answers:
            continue
        if key not in unseen:
            yield from _literals(recipe, f"/{escape(key)}", (key, key), built_parts, blobs)
    for n, recipe in enumerate(patch.messages):
        yield from _literals(recipe, f"/{n}", ("", ""), built_parts, blobs)


def _literals(
    recipe: Recipe, pointer: str, keys: tuple[str, str], built: _Built, blobs: Mapping[str, bytes]
) -> Iterator[tuple[str, Any]]:
    """Yield what a recipe writes itself; `keys` are the key that holds it and the body's top-level key."""
    key, top = keys
    match recipe:
        case {"text": list(texts)} if REFERENCE in recipe:
            own = (text for text in texts if isinstance(text, str) and text)
            yield from ((pointer, text) for text in own if not built.has(text, key, top))
        case {"recipe": str(name)} if REFERENCE in recipe and name in blobs:
            yield from _literals(json.loads(blobs[name]), pointer, keys, built, blobs)
        case {"blob": str(name)} | {"recipe": str(name)} if REFERENCE in recipe:
            yield pointer, name
        case {"as-is": value} if REFERENCE in recipe:
            yield pointer, value
        case dict() if REFERENCE in recipe:
            return
        case {"type": "item_reference"}:
            yield pointer, recipe
        case dict():
            for name, inner in recipe.items():
                if name not in CLIENTS_OWN:
                    yield from _literals(inner, f"{pointer}/{escape(name)}", (name, top), built, blobs)
        case list():
            for n, inner in enumerate(recipe):
                yield from _literals(inner, f"{pointer}/{n}", keys, built, blobs)
        case _:
            is_form = top != "tools" and GIVEN.isdisjoint(pointer.split("/"))
            is_form = is_form and (key in FORM or (key, compact(recipe)) in DEFAULTS)
            if not is_form and not built.has(recipe, key, top):
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
