"""The default serializer: LangGraph's msgpack, restricted to types that LangGraph trusts or the owner allows.

LangGraph's own default imports and calls whatever a stored value names, so a foreign value could run code.
Here every value is scanned for the classes that it names before any of them is built: on reading, and on
writing too, so that no state is stored that could not be read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stenolog.errors import CallerError, CorruptLogError

Allowed: TypeAlias = Iterable[type | tuple[str, ...]]
"""Classes, or their modules and names."""

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
    """Revives data and LangGraph's own messages and types; no other class that is not in `allow`.

    Raises `CallerError`, naming the class, for a value of another one.
    """

    def __init__(self, allow: Allowed = ()) -> None:
        self._allowed = frozenset(_name(each) for each in allow)
        super().__init__(allowed_msgpack_modules=tuple(self._allowed) or None)

    def with_msgpack_allowlist(self, extra_allowlist: Allowed) -> SafeSerializer:
        """Return a copy that also allows these classes: LangGraph names those of a graph's own schema."""
        return SafeSerializer([*self._allowed, *extra_allowlist])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, content = super().dumps_typed(obj)
        if kind == "msgpack":
            self._check(content)
        return kind, content

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, content = data
        if kind not in KINDS:
            raise CorruptLogError(
                f"a value in meta.langgraph: expected one of {', '.join(KINDS)}, found {kind!r}"
            )
        if kind == "msgpack":
            self._check(content)
        return super().loads_typed(data)

    def _check(self, content: bytes) -> None:
        """Refuse a value that names a class which is not allowed, at any depth."""
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
        refused = named - SAFE_MSGPACK_TYPES - SAFE_MSGPACK_METHODS - self._allowed
        for name in sorted(refused, key=repr):
            dotted = ".".join(map(str, name))
            raise CallerError(
                f"the state holds a {dotted}, and no class of it is revived that is not allowed: pass "
                f"LangGraphSaver(log, allow=[({', '.join(map(repr, name))})]), or the class itself, or keep "
                "plain data in the state"
            )


def _name(allowed: type | tuple[str, ...]) -> tuple[str, ...]:
    return (allowed.__module__, allowed.__name__) if isinstance(allowed, type) else tuple(allowed)
