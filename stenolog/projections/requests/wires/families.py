"""Which models understand each other's reasoning and opaque parts: those of one family."""

from __future__ import annotations

import re
from collections.abc import Set

from stenolog.domain.parts import Opaque, Reasoning
from stenolog.projections.requests.model import Piece
from stenolog.projections.requests.prefix import Prefix

GENERATION = re.compile(r"gpt-\d+|o\d+")
"""The name that OpenAI's models of one generation begin with."""
STAGES = frozenset({"preview", "exp", "latest"})


def family(model: str) -> str:
    """The words of a model's name without its numbers: `claude-opus-4-5-20251101` is `claude-opus`.

    OpenAI's generations are families of their own: `gpt-5.5-codex` is `gpt-5-codex`.
    """
    name = model.rpartition("/")[2]
    generation = GENERATION.match(name)
    rest = name[generation.end() :] if generation else name
    words = [word for word in rest.split("-") if word.isalpha() and word not in STAGES]
    return "-".join([generation[0], *words] if generation else words)


def goes_back(part: Reasoning | Opaque, piece: Piece, prefix: Prefix, providers: Set[str]) -> bool:
    """Whether one of these providers, and a model of the family that is asked now, made the part."""
    maker = part.model if isinstance(part, Opaque) and part.model else piece.model
    return part.provider in providers and family(maker) == family(prefix.model)
