"""Families of models by name: members understand each other's reasoning and opaque parts."""

from __future__ import annotations

import re
from collections.abc import Set

from stenolog.domain.parts import ProviderPart, ReasoningPart, TextPart, ToolCall
from stenolog.projections.messages.message import Message, Preamble

GENERATION = re.compile(r"gpt-\d+|o\d+")
"""The name that OpenAI's models of one generation begin with."""
# They say how finished a model is, and not which one it is.
STAGES = frozenset({"preview", "exp", "latest"})
SYSTEM_TURNS = re.compile(r"claude-(?:opus-4-[89]|opus-[5-9]|fable-5|mythos-5)[\w.-]*")
NARROW = re.compile(r"claude-(?:3|instant|2|haiku|(?:opus|sonnet)-4(?:-[0-5]\b|-\d{8}|$|@))")
SCHEMALESS = re.compile(r"claude-(?:[0-3]|instant|(?:opus|sonnet)-4(?:-0|-\d{8}|$|@))")
SELF_PACED = re.compile(r"claude-opus-(?:4-[7-9]|[5-9])")

REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|[1-9]\d))")
"""The models that count their reasoning in the limit of the answer, and have another name for it."""
ASKS_FOR_REASONING = re.compile(r"deepseek|kimi|moonshot|mimo", re.IGNORECASE)
"""Models whose servers answer 400 if an assistant message of a tool loop lacks `reasoning_content`."""


def family(model: str) -> str:
    """Return a model's name without numbers: `claude-opus-4-5-20251101` is `claude-opus`.

    OpenAI's generations are families of their own: `gpt-5.5-codex` is `gpt-5-codex`.
    """
    name = model.rpartition("/")[2]
    generation = GENERATION.match(name)
    rest = name[generation.end() :] if generation else name
    words = [word for word in rest.split("-") if word.isalpha() and word not in STAGES]
    return "-".join([generation[0], *words] if generation else words)


def goes_back(
    part: ReasoningPart | ProviderPart | TextPart | ToolCall,
    message: Message,
    preamble: Preamble,
    providers: Set[str],
) -> bool:
    """Return whether one of these providers, and a model of the current model's family, made the part."""
    maker = part.model if isinstance(part, ProviderPart) and part.model else message.model
    return part.provider in providers and same_family(maker, preamble.model)


def same_family(maker: str, model: str) -> bool:
    """Return whether two models are of one family; a name without words equals only itself."""
    return maker == model or family(maker) == family(model) != ""


def asks_for_reasoning(model: str) -> bool:
    """Return whether a model's servers refuse its answers without their reasoning."""
    return ASKS_FOR_REASONING.search(model) is not None


def encrypts_reasoning(model: str) -> bool:
    """Return whether a model of OpenAI has reasoning to encrypt; others refuse to be asked."""
    # The chat variants of these models do not reason.
    return REASONING_MODELS.search(model) is not None and "-chat" not in model


def takes_system_turns(model: str) -> bool:
    """Return whether a model accepts system turns in mid-conversation, by Anthropic's name of it."""
    return SYSTEM_TURNS.fullmatch(model) is not None


def paces_itself(model: str) -> bool:
    """Return whether it refuses sampling parameters and thinking budgets (migration guide for Opus 4.7)."""
    return SELF_PACED.match(model) is not None


def has_a_narrow_context(model: str) -> bool:
    """Return whether a model of Anthropic has a context of 200k tokens, and not of a million."""
    return NARROW.match(model) is not None


def takes_schemas(model: str) -> bool:
    """Return whether a model of Anthropic is held to the schema of its answer (its page on the feature)."""
    return SCHEMALESS.match(model) is None


def since_gemini_3(model: str) -> bool:
    """Return whether the model is Gemini 3 or later."""
    # A name that does not say counts as a new model's.
    named = re.search(r"gemini-(\d+)", model)
    return named is None or int(named[1]) >= 3
