"""The APIs: one module each, all with `NAME`, `VERSION` and a `Writer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from stenolog.projections.requests.pipeline.prefix import Prefix
from stenolog.projections.requests.request import Message, Rendered

from . import anthropic, gemini, openai_chat, openai_responses, plain
from .writer import Writer

Render: TypeAlias = Callable[[Sequence[Message], Prefix, Mapping[str, bytes]], Rendered]


class Api(NamedTuple):
    """How the pieces become a provider's body: `render` writes all of them down.

    An API with a `writer` writes what is new alone where it has written the rest before.
    """

    name: str
    version: int
    render: Render
    writer: type[Writer] | None = None


def written_by(name: str, version: int, writer: type[Writer]) -> Api:
    """The API of a writer."""
    return Api(name, version, partial(_written, writer), writer)


def _written(
    writer: type[Writer], pieces: Sequence[Message], prefix: Prefix, blobs: Mapping[str, bytes]
) -> Rendered:
    return writer(prefix, blobs).rendered(pieces)


APIS: Mapping[str, Api] = MappingProxyType(
    {
        module.NAME: written_by(module.NAME, module.VERSION, module.Writer)
        for module in (openai_chat, openai_responses, anthropic, gemini, plain)
    }
)
