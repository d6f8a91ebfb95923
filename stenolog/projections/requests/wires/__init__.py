"""The wires: one module each, all with `NAME`, `VERSION` and `render(pieces, prefix, blobs)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from stenolog.projections.requests.model import Piece, Rendered
from stenolog.projections.requests.prefix import Prefix

from . import anthropic, gemini, openai_chat, openai_responses, plain

Render: TypeAlias = Callable[[Sequence[Piece], Prefix, Mapping[str, bytes]], Rendered]


class Wire(NamedTuple):
    """How the pieces become a provider's body."""

    name: str
    version: int
    render: Render


WIRES: Mapping[str, Wire] = MappingProxyType(
    {
        module.NAME: Wire(module.NAME, module.VERSION, module.render)
        for module in (openai_chat, openai_responses, anthropic, gemini, plain)
    }
)
