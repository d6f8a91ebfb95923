"""For programs that use an agent framework: its conversations kept in the log, or read out of it.

Each name needs an extra of its own, and imports its packages at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adapters.frameworks.ag_ui import ag_ui_events, ag_ui_live, ag_ui_messages, ag_ui_runs
    from .adapters.frameworks.claude_agent_sdk import ClaudeSessionStore, claude_session_store
    from .adapters.frameworks.openai_agents import OpenAIAgentsSession, openai_agents_events
    from .adapters.frameworks.opentelemetry import conversation_spans, export_spans, measure_requests
    from .adapters.frameworks.pydantic_ai import append_pydantic_ai, pydantic_ai_entries, to_pydantic_ai
    from .adapters.frameworks.pydantic_ai_recorder import PydanticAIRecorder

_WHERE: dict[str, str] = {
    "ClaudeSessionStore": "claude_agent_sdk",
    "OpenAIAgentsSession": "openai_agents",
    "PydanticAIRecorder": "pydantic_ai_recorder",
    "ag_ui_events": "ag_ui",
    "ag_ui_live": "ag_ui",
    "ag_ui_messages": "ag_ui",
    "ag_ui_runs": "ag_ui",
    "append_pydantic_ai": "pydantic_ai",
    "claude_session_store": "claude_agent_sdk",
    "conversation_spans": "opentelemetry",
    "export_spans": "opentelemetry",
    "measure_requests": "opentelemetry",
    "openai_agents_events": "openai_agents",
    "pydantic_ai_entries": "pydantic_ai",
    "to_pydantic_ai": "pydantic_ai",
}
"""The names, and the rooms of `adapters.frameworks` that they come from."""

__all__: list[str] = [
    "ClaudeSessionStore",
    "OpenAIAgentsSession",
    "PydanticAIRecorder",
    "ag_ui_events",
    "ag_ui_live",
    "ag_ui_messages",
    "ag_ui_runs",
    "append_pydantic_ai",
    "claude_session_store",
    "conversation_spans",
    "export_spans",
    "measure_requests",
    "openai_agents_events",
    "pydantic_ai_entries",
    "to_pydantic_ai",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".adapters.frameworks.{_WHERE[name]}", __package__), name)
