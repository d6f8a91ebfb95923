"""The laws of each wire. `breaches` says where a body breaks one; a request built here breaks none.

They judge bodies of our own making: what another program sent may not even have the keys they look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from . import anthropic, gemini, openai_chat, openai_responses, plain
from .law import Body, Breach, Law

LAWS: Mapping[str, tuple[Law, ...]] = MappingProxyType(
    {
        "openai-chat": openai_chat.LAWS,
        "openai-responses": openai_responses.LAWS,
        "anthropic": anthropic.LAWS,
        "gemini": gemini.LAWS,
        "plain": plain.LAWS,
    }
)


def breaches(wire: str, body: Body) -> Iterator[Breach]:
    """Every place where a body breaks a law of its wire (given with or without its version)."""
    for each in LAWS[wire.partition("@")[0]]:
        yield from each.breaches(body)


__all__ = ["LAWS", "Breach", "Law", "breaches"]
