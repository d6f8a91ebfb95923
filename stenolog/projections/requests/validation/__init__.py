"""The laws of each API. `breaches` says where a body breaks one; a request built here breaks none.

They judge bodies of our own making. A body of another shape raises nothing: what a law cannot read breaks it.
"""

from __future__ import annotations

from stenolog.domain.registry import Registry

from . import anthropic, gemini, openai_chat, openai_responses, plain
from .checks import Body, Check, Violation
from .incremental_validator import IncrementalValidator

LAWS: Registry[tuple[Check, ...]] = Registry(
    "an API",
    {
        "openai-chat": openai_chat.LAWS,
        "openai-responses": openai_responses.LAWS,
        "anthropic": anthropic.LAWS,
        "gemini": gemini.LAWS,
        "plain": plain.LAWS,
    },
)
"""The laws of each API by its name; an API of a plugin may have none."""


def validate(api: str, body: Body) -> list[Violation]:
    """Every place where a body breaks a law of its API (given with or without its version).

    Raises `NotRegisteredError` for an API that is not known.
    """
    return reading(api).breaches(body)


def reading(api: str) -> IncrementalValidator:
    """Return a validator for consecutive bodies; it does not read unchanged messages again."""
    return IncrementalValidator(LAWS[api.partition("@")[0]])


__all__ = ["LAWS", "Check", "IncrementalValidator", "Violation", "reading", "validate"]
