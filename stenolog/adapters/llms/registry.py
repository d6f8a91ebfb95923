"""The kinds of models by the names that a command line or a team file gives them: `openai:gpt-5.2`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stenolog.adapters.plugins.lazy_registry import LazyRegistry

if TYPE_CHECKING:
    from .base import Model

MODELS: LazyRegistry[Callable[..., Model]] = LazyRegistry("a kind of model")
"""Classes and functions that make a model, by kind: called with what is written behind the colon.

Their keyword-only parameters are the options that a team file may give.
"""
for _kind, _reference in {
    "openai": "llms.openai_chat:OpenAIChat",
    "openai-responses": "llms.openai_responses:OpenAIResponses",
    "anthropic": "llms.anthropic:Anthropic",
    "gemini": "llms.gemini:Gemini",
    "cli": "agents.command_line:CommandLine",
    "acp": "agents.acp:ACP",
    "scripted": "llms.script_file:scripted",
}.items():
    MODELS.add_reference(_kind, f"stenolog.adapters.{_reference}")
