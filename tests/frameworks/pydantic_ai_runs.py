"""Runs of pydantic-ai, and their messages as JSON."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, AgentRunResult, ModelMessage, ModelMessagesTypeAdapter


def run(agent: Agent[None, Any], *prompt: Any, **options: Any) -> AgentRunResult[Any]:
    return asyncio.run(agent.run(*prompt, **options))


def as_json(messages: list[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")
