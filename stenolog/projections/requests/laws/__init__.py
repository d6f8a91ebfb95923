"""The laws of each wire. `breaches` says where a body breaks one; a request built here breaks none.

They judge bodies of our own making. A body of another shape raises nothing: what a law cannot read breaks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import anthropic, gemini, openai_chat, openai_responses, plain
from .law import Body, Breach, Law
from .reading import Reading

LAWS: Mapping[str, tuple[Law, ...]] = MappingProxyType(
    {
        "openai-chat": openai_chat.LAWS,
        "openai-responses": openai_responses.LAWS,
        "anthropic": anthropic.LAWS,
        "gemini": gemini.LAWS,
        "plain": plain.LAWS,
    }
)


def breaches(wire: str, body: Body) -> list[Breach]:
    """Every place where a body breaks a law of its wire (given with or without its version)."""
    return reading(wire).breaches(body)


def reading(wire: str) -> Reading:
    """The same for bodies that follow each other: what has not changed is not read again."""
    return Reading(LAWS[wire.partition("@")[0]])


__all__ = ["LAWS", "Breach", "Law", "Reading", "breaches", "reading"]
