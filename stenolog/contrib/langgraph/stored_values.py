"""Values of channels as they stand in the log, and the serializer, restricted to trusted types.

A value is named by a *reference*, which is JSON:

    null, true, 7, "short"     itself
    {"d": {"key": …}}          a dict, with a reference for each of its values
    {"l": [ … ]}               a short list
    {"s": "3f0a…"}             a list whose items stand in the log as links, each behind the one before it
    {"send": [node, …]}        LangGraph's `Send`
    {"delta": …}               its snapshot of a delta channel
    {"i": ["msgpack", "…"]}    anything else, as the serializer writes it: a few bytes, in base64
    {"b": ["msgpack", "9c1b…"]} the same, by the sha256 of a blob

A list that begins as a known list does names where it leaves it, so a list that grows takes as many bytes
as what is added to it. A serializer of one's own, which may encrypt, is given each value whole.

LangGraph's own default imports and calls whatever a stored value names, so a foreign value could run code.
Here every value is scanned for the classes that it names before any of them is built.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, Self, TypeAlias, get_args, get_type_hints

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from stenolog.errors import CallerError, CorruptLogError
from stenolog.importers import compact_json

LOGGER = logging.getLogger("stenolog.langgraph")
Ref: TypeAlias = Any
SHORT_TEXT = 200
"""Characters: a longer text is a blob, which is kept once."""
SHORT_LIST = 200
"""Characters of JSON: a longer list is kept as links."""
SHORT_BYTES = 48
DEEPEST = 8
"""Levels that are taken apart: an event holds JSON of at most a hundred levels."""


class ValueLink(NamedTuple):
    """An item of a list, and the link before it; empty for the first."""

    before: str
    item: Ref


Links: TypeAlias = dict[str, ValueLink]


def link(before: str, item: Ref) -> str:
    """Return the name of the link with this item after that one."""
    match item:
        case {"b": [kind, sha]}:  # as nearly all are: without writing JSON
            written = f"{kind} {sha}"
        case _:
            written = json.dumps(item, sort_keys=True)
    return sha256(f"{before}\n{written}".encode()).hexdigest()[:32]


def joined(links: Links, before: str, items: Iterable[Ref]) -> str:
    """Return the last item's name, all of them linked after `before`."""
    for item in items:
        name = link(before, item)
        links[name] = ValueLink(before, item)
        before = name
    return before


def items_of(ref: Ref, links: Mapping[str, ValueLink]) -> list[Ref]:
    """Return the items of a split list; none for any other value. Raises `CorruptLogError` for a gap."""
    match ref:
        case {"l": [*items]}:
            return items
        case {"s": str(name)}:
            found = []
            while name:
                if name not in links:
                    raise CorruptLogError(
                        f"a list in meta.langgraph goes on from {name!r}, which no record holds"
                    )
                name, item = links[name]
                found.append(item)
            return found[::-1]
        case _:
            return []


def sha_of(ref: Ref) -> str:
    """Return the sha256 of an unsplit value; empty for a split one."""
    match ref:
        case {"b": [_, str(sha)]}:
            return sha
        case {"i": [_, str(text)]}:
            return sha256(b64decode(text)).hexdigest()
        case _:
            return ""


def shas_in(ref: Ref) -> Iterator[str]:
    """Yield the blobs that a reference, or JSON that holds some, names."""
    match ref:
        case {"b": [_, str(sha)]}:
            yield sha
        case dict():
            for inner in ref.values():
                yield from shas_in(inner)
        case list():
            for inner in ref:
                yield from shas_in(inner)
        case _:
            pass


def in_the_clear(serde: SerializerProtocol) -> bool:
    """Return whether the serializer is ours or LangGraph's; any other may encrypt."""
    return type(serde) in (SafeSerializer, JsonPlusSerializer)


class ValueWriter:
    """Writer of values; `links` are those it added."""

    def __init__(self, serde: SerializerProtocol, known: Mapping[str, ValueLink]) -> None:
        self.links: Links = {}
        self._contents: dict[str, bytes] = {}
        self._lists: list[Ref] = []
        self._serde = serde
        self._known = known
        self._apart = in_the_clear(serde)

    def ref(self, value: object, depth: int = 0) -> Ref:
        """Return the reference of a value."""
        if not self._apart or depth > DEEPEST:
            return self._store_value(value)
        if _is_plain(value):
            return value
        if type(value) is list and not all(isinstance(item, int | float | None) for item in value):
            return self._list([self.ref(item, depth + 1) for item in value])
        if type(value) is dict and all(type(key) is str and _is_plain(key) for key in value):
            return {"d": {key: self.ref(inner, depth + 1) for key, inner in value.items()}}
        if _is_send(value):
            return {"send": [value.node, self.ref(value.arg, depth + 1)]}  # type: ignore[attr-defined]
        if type(value) is _DeltaSnapshot:
            return {"delta": self.ref(value.value, depth + 1)}
        return self._store_value(value)

    def finish(self, record: dict[str, Ref]) -> dict[str, bytes]:
        """Add the new links to a record; return the blobs that it needs."""
        if self._lists:
            record["lists"] = self._lists
        return {sha: self._contents[sha] for sha in shas_in(record) if sha in self._contents}

    def _list(self, items: list[Ref]) -> Ref:
        before, known = "", 0
        for item in items:
            name = link(before, item)
            if name not in self._known and name not in self.links:
                break
            before, known = name, known + 1
        if not known and len(compact_json(items)) <= SHORT_LIST:
            return {"l": items}
        if known < len(items):
            self._lists.append([before, items[known:]])
        return {"s": joined(self.links, before, items[known:])}

    def _store_value(self, value: object) -> Ref:
        kind, written = self._serde.dumps_typed(value)
        content = bytes(written)
        if len(content) <= SHORT_BYTES:
            return {"i": [kind, b64encode(content).decode()]}
        sha = sha256(content).hexdigest()
        self._contents[sha] = content
        return {"b": [kind, sha]}


class ValueReader:
    """Reader of values. Raises `BlobNotFoundError`."""

    def __init__(
        self, serde: SerializerProtocol, links: Mapping[str, ValueLink], blobs: Mapping[str, bytes]
    ) -> None:
        self._serde = serde
        self._links = links
        self._blobs = blobs

    def value(self, ref: Ref) -> Any:
        """Return the value of a reference."""
        match ref:
            case {"d": dict(values)}:
                return {key: self.value(inner) for key, inner in values.items()}
            case {"l": _} | {"s": _}:
                return [self.value(item) for item in items_of(ref, self._links)]
            case {"send": [node, arg]}:
                from langgraph.types import Send  # late: a checkpoint alone does not need LangGraph itself

                return Send(node, self.value(arg))
            case {"delta": inner}:
                return _DeltaSnapshot(self.value(inner))
            case {"i": [kind, text]}:
                return self._serde.loads_typed((kind, b64decode(text)))
            case {"b": [kind, sha]}:
                return self._serde.loads_typed((kind, self._blobs[sha]))
            case _:
                return ref

    def each(self, refs: Mapping[str, Ref]) -> dict[str, Any]:
        """Return the values by their names."""
        return {name: self.value(ref) for name, ref in refs.items()}


def _is_plain(value: object) -> bool:
    """Return whether JSON stores the value unchanged, in a few bytes."""
    if type(value) is str:
        return len(value) <= SHORT_TEXT and value.isprintable()
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) is bool or (type(value) is float and isfinite(value))


def _is_send(value: object) -> bool:
    kind = type(value)
    is_send = kind.__name__ == "Send" and kind.__module__ == "langgraph.types"
    return is_send and getattr(value, "timeout", None) is None


Name: TypeAlias = tuple[str, ...]
"""The module and the name of a class; of one that is made by a method, that too."""
AGENTS = frozenset(
    ("langchain_core.agents", name)
    for name in ("AgentAction", "AgentActionMessageLog", "AgentFinish", "AgentStep")
)
"""Values of LangChain's own agents, which LangGraph's list of safe types leaves out."""
Allowed: TypeAlias = type | str | Iterable[type | str | Name]
"""Classes, or their names: `Invoice`, "agent.Invoice", ("agent", "Invoice")."""

KINDS = ("null", "bytes", "bytearray", "msgpack")
"""The kinds that are written. LangGraph's others revive objects in other ways: "json", "pickle"."""
WITHOUT_A_CLASS = (jsonplus.EXT_NUMPY_ARRAY,)
CONSTRUCTORS = (
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG,
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS,
    jsonplus.EXT_PYDANTIC_V1,
    jsonplus.EXT_PYDANTIC_V2,
)


class SafeSerializer(JsonPlusSerializer):
    """Serializer that revives data, LangGraph's own types, and allowed classes.

    Allowed are the classes in `allow`, those that a graph's schema names, and those of objects that it wrote
    itself. Raises `CallerError`, naming the class, for others.
    """

    def __init__(self, allow: Allowed = ()) -> None:
        self._allowed: frozenset[Name] = frozenset()
        self._allow(_names(allow))

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[type | str | Name]) -> Self:
        """Allow these classes too, which a graph's schema names; return this serializer."""
        extra = _names(extra_allowlist)
        if not extra <= self._allowed:
            self._allow(extra)
        return self

    def _allow(self, names: frozenset[Name]) -> None:
        self._allowed |= names
        super().__init__(allowed_msgpack_modules=tuple(self._allowed | AGENTS))

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, content = super().dumps_typed(obj)
        if kind == "msgpack" and (own := self._unknown(content)):
            self._allow(own)  # objects of the program itself; only a log from elsewhere names others
            for dotted in sorted(".".join(name) for name in own):
                LOGGER.warning(
                    "the state holds an object of the class %s, which no schema of the graph names: "
                    "a later process needs allow=[%r] to read it",
                    dotted,
                    dotted,
                )
        return kind, content

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, content = data
        if kind not in KINDS:
            raise CorruptLogError(
                f"a value in meta.langgraph: expected one of {', '.join(KINDS)}, found {kind!r}"
            )
        for name in sorted(self._unknown(content) if kind == "msgpack" else ()):
            dotted = ".".join(map(str, name))
            written = f"[{dotted!r}]" if len(name) == 2 else f"[{name!r}]"
            raise CallerError(
                f"the state holds an object of the class {dotted}, which is not allowed: where the saver is "
                f"made, pass allow={written} or allow=[State], the schema of the state, too, or keep plain "
                "data in the state"
            )
        return super().loads_typed(data)

    def _unknown(self, content: bytes) -> frozenset[Name]:
        """Return the classes that a value names at any depth and that are not allowed."""
        named: set[tuple[str, ...]] = set()

        def scan(code: int, data: bytes) -> Any:
            inner = ormsgpack.unpackb(data, ext_hook=scan, option=ormsgpack.OPT_NON_STR_KEYS)
            if code in CONSTRUCTORS:
                named.add((inner[0], inner[1]))
            elif code == jsonplus.EXT_METHOD_SINGLE_ARG:
                named.add((inner[0], inner[1], inner[3]))
            elif code == jsonplus.EXT_DELTA_SNAPSHOT:
                return inner
            elif code not in WITHOUT_A_CLASS:
                raise ValueError(f"an extension of an unknown kind: {code}")
            return None

        try:
            ormsgpack.unpackb(content, ext_hook=scan, option=ormsgpack.OPT_NON_STR_KEYS)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise CorruptLogError(
                f"a value in meta.langgraph is not one that LangGraph writes: {error}"
            ) from None
        return frozenset(named - SAFE_MSGPACK_TYPES - SAFE_MSGPACK_METHODS - AGENTS - self._allowed)


def _names(allow: Allowed) -> frozenset[Name]:
    """Return the names of allowed classes and of those that their fields name. Raises `CallerError`."""
    given = [allow] if isinstance(allow, type | str) else allow
    names, left = set(), [*given]
    while left:
        each = left.pop()
        if (name := _name(each)) not in names:
            names.add(name)
            left += _classes_of_fields(each) if isinstance(each, type) else ()
    return frozenset(names)


def _classes_of_fields(schema: type) -> list[type]:
    """Return the classes in a schema's annotations, also inside lists and unions."""
    try:
        left: list[Any] = [*get_type_hints(schema).values()]
    except (NameError, TypeError):  # an annotation that only a type checker resolves
        return []
    found = []
    while left:
        annotation = left.pop()
        left += get_args(annotation)
        if isinstance(annotation, type) and annotation.__module__ != "builtins":
            found.append(annotation)
    return found


def _name(allowed: type | str | Name) -> Name:
    match allowed:
        case type():
            return allowed.__module__, allowed.__name__
        case str() if all(parts := allowed.rpartition(".")):
            return parts[0], parts[2]
        case tuple() if len(allowed) in (2, 3) and all(isinstance(part, str) for part in allowed):
            return allowed
        case _:
            raise CallerError(
                "allow: expected classes or their names, as in allow=[Invoice, 'agent.Status'], "
                f"found {allowed!r:.80}"
            )
