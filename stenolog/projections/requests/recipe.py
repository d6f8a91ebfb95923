"""Recipes: how a JSON value is made of another one, so that only the difference is stored.

    >>> text = "How many loaves are in the oven, and when will the last of them be done?"
    >>> built = {"system": "You are a baker.", "messages": [{"role": "user", "content": text}]}
    >>> sent = {"content": [{"type": "text", "text": text}], "role": "user"}
    >>> recipe = recipe_of(sent, Source(built))
    >>> recipe
    {'content': [{'type': 'text', 'text': {'$': '/messages/0/content'}}], 'role': 'user'}
    >>> value_of(recipe, built) == sent
    True

A recipe is JSON. An object with the key `$` refers to the source; all others are written as they are:

    {"$": "/messages/3"}                      the value at a JSON pointer
    {"$": "/system", "cut": [10, 80]}         characters 10 to 79 of the text there
    {"$": "/tools", "all": [0, 12]}           in a list: the items 0 to 11 of the list there
    {"$": "", "text": [recipe, recipe]}       these texts, one after the other
    {"$": "", "blob": "sha256"}               the UTF-8 text of a blob
    {"$": "", "recipe": "sha256"}             a long recipe, which is the JSON of a blob
    {"$": "", "as-is": value}                 a value that has itself a key `$`
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from stenolog.domain.errors import StoredDataError
from stenolog.projections.messages.body_digest import compact, escape, unescape

Json: TypeAlias = Any
Recipe: TypeAlias = Any

REFERENCE = "$"
# A reference is about this long itself.
SHORTEST = 48
"""Characters of JSON from which on a value is worth a reference."""
SHORTEST_CUT = 64
"""Characters that a text must have in common with another one to be cut out of it."""
SAID = frozenset({"text", "content", "output"})
"""The keys of words; those after the name of their author must be erased with these."""
SHORTEST_PART = 4
"""Characters of words that are looked for in a longer text, at its ends or as lines of their own."""
LARGEST_TEXT = 64
"""Characters of a text in a recipe itself; a longer one is a blob, which can be removed."""
LONGEST_RECIPE = 512
"""Characters of a recipe in a receipt; the same longer one is a blob, and so is kept once."""
LARGEST = 128 << 20
"""Characters that a body may be made of."""
NODE, BLOB = 16, 1024
"""Characters that a value, and a blob, count for beside those of their text."""
UNREAD = frozenset(
    {
        "model", "role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "name", "status", "mimeType",
        "media_type", "object", "phase", "effort", "ttl",
    }
)  # fmt: skip
"""The keys of texts that are no words; short ones are in a recipe themselves."""


class Source:
    """The values and texts that recipes may refer to, in the source's order.

    `under` and `first` limit them to the messages from an index on: those new since the previous request.
    """

    def __init__(self, value: Json, under: str = "", first: int = 0) -> None:
        self.pointers: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.texts: list[tuple[str, str]] = []
        for pointer, each in _top_values(value, under, first):
            self._add(pointer, each)

    def _add(self, pointer: str, value: Json) -> str:
        match value:
            case dict():
                inner = [
                    f"{compact(key)}:{self._add(f'{pointer}/{escape(key)}', v)}" for key, v in value.items()
                ]
                written = "{" + ",".join(inner) + "}"
            case list():
                written = "[" + ",".join(self._add(f"{pointer}/{n}", v) for n, v in enumerate(value)) + "]"
            case str():
                written = compact(value)
                self.words.setdefault(value, pointer)
                if len(value) >= SHORTEST_CUT:
                    self.texts.append((pointer, value))
            case _:
                return compact(value)
        if len(written) >= SHORTEST:
            # The first one counts: an equal value that comes later is the same bytes.
            self.pointers.setdefault(written, pointer)
        return written


def _top_values(value: Json, under: str, first: int) -> Iterator[tuple[str, Json]]:
    if not under:
        yield "", value
        return
    for n, message in enumerate(value[under][first:], first):
        yield f"/{escape(under)}/{n}", message


def recipe_of(value: Json, source: Source, blobs: dict[str, bytes] | None = None, key: str = "") -> Recipe:
    """Return a recipe that makes the value; long texts that the source lacks are put in `blobs`.

    `key` is the value's.
    """
    # However short: words of people must stand in their own entries alone, where they can be erased.
    if isinstance(value, str) and key not in UNREAD and value in source.words:
        return {REFERENCE: source.words[value]}
    written = compact(value)
    if len(written) >= SHORTEST and (pointer := source.pointers.get(written)) is not None:
        return {REFERENCE: pointer}
    match value:
        case dict():
            recipes = {name: recipe_of(inner, source, blobs, name) for name, inner in value.items()}
            return {REFERENCE: "", "as-is": value} if REFERENCE in value else recipes
        case list():
            return _merged([recipe_of(inner, source, blobs, key) for inner in value])
        case str() if len(value) >= SHORTEST_CUT:
            return _text_recipe(value, source, blobs)
        case str() if key in SAID and len(value) >= SHORTEST_PART:
            return _lines_of(value, source) or value
        case _:
            return value


def _merged(items: list[Recipe]) -> list[Recipe]:
    """Return a list's items; neighbours in the source are one reference."""
    merged: list[Recipe] = []
    for item in items:
        run = _item_run(item)
        last = merged[-1] if merged else None
        if run and isinstance(last, dict) and last.get(REFERENCE) == run[0] and "all" in last:
            first, end = last["all"]
            if end == run[1]:
                merged[-1] = {REFERENCE: run[0], "all": [first, end + 1]}
                continue
        merged.append({REFERENCE: run[0], "all": [run[1], run[1] + 1]} if run else item)
    return merged


def _item_run(item: Recipe) -> tuple[str, int] | None:
    if not (isinstance(item, dict) and item.keys() == {REFERENCE}):
        return None
    above, _, index = item[REFERENCE].rpartition("/")
    return (above, int(index)) if index.isdigit() and above else None


def _text_recipe(text: str, source: Source, blobs: dict[str, bytes] | None) -> Recipe:
    """Return a text as part of another one, or around one, if the source has one."""
    for pointer, other in source.texts:
        if (at := other.find(text)) >= 0:
            return {REFERENCE: pointer, "cut": [at, at + len(text)]}
    for pointer, other in source.texts:
        if (at := text.find(other)) >= 0:
            around = (text[:at], {REFERENCE: pointer}, text[at + len(other) :])
            return _joined(around, source, blobs)
    for pointer, other in source.texts:
        same = _common(text, other)
        if same >= SHORTEST_CUT:
            return _joined(({REFERENCE: pointer, "cut": [0, same]}, text[same:]), source, blobs)
    return _literal(text, blobs)


def _lines_of(text: str, source: Source) -> Recipe | None:
    for other, pointer in source.words.items():
        for at in (0, len(other) - len(text), other.find(f"\n{text}\n") + 1):
            if at >= 0 and other.startswith(text, at):
                return {REFERENCE: pointer, "cut": [at, at + len(text)]}
    return None


def _joined(texts: Sequence[Recipe], source: Source, blobs: dict[str, bytes] | None) -> Recipe:
    inner = [recipe_of(each, source, blobs) if isinstance(each, str) else each for each in texts if each]
    return {REFERENCE: "", "text": inner}


def _common(text: str, other: str) -> int:
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _literal(text: str, blobs: dict[str, bytes] | None) -> Recipe:
    if blobs is None or len(text) <= LARGEST_TEXT:
        return text
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return text
    name = sha256(content).hexdigest()
    blobs[name] = content
    return {REFERENCE: "", "blob": name}


def folded(recipe: Recipe, blobs: dict[str, bytes]) -> Recipe:
    """Return a reference to a blob for a long recipe, such as a program's tools."""
    written = compact(recipe)
    if len(written) < LONGEST_RECIPE:
        return recipe
    content = written.encode()
    name = sha256(content).hexdigest()
    blobs[name] = content
    return {REFERENCE: "", "recipe": name}


class Making:
    """The making of values of a source, at most `LARGEST` in all.

    A foreign recipe of a few lines that refer to each other could fill the memory.
    """

    def __init__(self, source: Json, blobs: Mapping[str, bytes] | None = None) -> None:
        self._source, self._blobs = source, {} if blobs is None else blobs
        self._room = LARGEST

    def value_of(self, recipe: Recipe) -> Json:
        """Return the value that a recipe makes. Raises `StoredDataError` if it does not fit the source."""
        self._spend(NODE)
        match recipe:
            case dict() if REFERENCE in recipe:
                return self._referred(recipe)
            case dict():
                return {key: self.value_of(inner) for key, inner in recipe.items()}
            case list():
                return [each for item in recipe for each in self._items(item)]
            case _:
                return recipe

    def _items(self, item: Recipe) -> Sequence[Json]:
        if isinstance(item, dict) and REFERENCE in item and "all" in item:
            first, end = item["all"]
            found = at_pointer(self._source, item[REFERENCE])
            if not isinstance(found, list) or end > len(found):
                raise StoredDataError(f"recipe: expected {end} items at {item[REFERENCE]}, found fewer")
            self._paid_for(found[first:end])
            return found[first:end]
        return [self.value_of(item)]

    def _referred(self, recipe: dict[str, Any]) -> Json:
        match recipe:
            case {"as-is": value}:
                return value
            case {"text": list(texts)}:
                return "".join(str(self.value_of(each)) for each in texts)
            case {"blob": str(name)}:
                return self._blob(name).decode()
            case {"recipe": str(name)}:
                return self.value_of(json.loads(self._blob(name)))
            case {"cut": [int(first), int(end)]}:
                return self._paid_for(at_pointer(self._source, recipe[REFERENCE])[first:end])
            case _:
                return self._paid_for(at_pointer(self._source, recipe[REFERENCE]))

    def _blob(self, name: str) -> bytes:
        if name not in self._blobs:
            raise StoredDataError(f"blob {name[:12]}… is gone")
        content = self._blobs[name]
        self._spend(len(content) + BLOB)
        return content

    def _paid_for(self, value: Any) -> Any:
        """Return a value of the source, which may be taken several times."""
        todo = [value]
        while todo:
            inner = todo.pop()
            if isinstance(inner, str):
                self._spend(len(inner))
            elif isinstance(inner, dict | list):
                self._spend(NODE * len(inner))
                todo += inner.values() if isinstance(inner, dict) else inner
        return value

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise StoredDataError(f"recipe: expected a value of at most {LARGEST:,} characters, found more")


def value_of(recipe: Recipe, source: Json, blobs: Mapping[str, bytes] | None = None) -> Json:
    """Return the value that a recipe makes of a source. Raises `StoredDataError` if it does not fit."""
    return Making(source, blobs).value_of(recipe)


def at_pointer(value: Json, pointer: str) -> Json:
    """Return the value at a JSON pointer (RFC 6901). Raises `StoredDataError` if there is none."""
    found = value
    for step in pointer.split("/")[1:]:
        try:
            found = found[int(step)] if isinstance(found, list) else found[unescape(step)]
        except (LookupError, ValueError, TypeError):
            raise StoredDataError(f"recipe: nothing stands at {pointer} in the request") from None
    return found


def references(recipe: Recipe) -> Iterator[str]:
    """Yield the pointers that a recipe refers to; of a run of items, each one's."""
    match recipe:
        case dict() if REFERENCE in recipe:
            if "all" in recipe:
                yield from (f"{recipe[REFERENCE]}/{n}" for n in range(*recipe["all"]))
            elif "text" in recipe:
                for each in recipe["text"]:
                    yield from references(each)
            elif recipe[REFERENCE]:
                yield recipe[REFERENCE]
        case dict():
            for inner in recipe.values():
                yield from references(inner)
        case list():
            for inner in recipe:
                yield from references(inner)
        case _:
            pass


def literals(recipe: Recipe, pointer: str = "") -> dict[str, int]:
    """Return the number of characters that a recipe holds itself, by pointer in the result."""
    found: dict[str, int] = defaultdict(int)
    match recipe:
        case dict() if REFERENCE in recipe:
            found[pointer] += sum(len(each) for each in recipe.get("text", ()) if isinstance(each, str))
        case dict():
            for key, inner in recipe.items():
                found |= literals(inner, f"{pointer}/{escape(key)}")
        case list():
            for n, inner in enumerate(recipe):
                found |= literals(inner, f"{pointer}/{n}")
        case str():
            found[pointer] += len(recipe)
        case _:
            pass
    return {where: number for where, number in found.items() if number}
