"""Registration of what is in `contrib`, by references: nothing of it is imported before it is used.

Each function is an entry point of the group `stenolog.plugins` (see `pyproject.toml`).
"""

from __future__ import annotations

from stenolog.plugins import CHANNELS, EXPORTERS, IMPORTERS, TABLES


def adk() -> None:
    """Register the importer of the Agent Development Kit's sessions and evaluation sets."""
    IMPORTERS.add_reference("adk", "stenolog.contrib.adk.files:ADK")


def ai_sdk() -> None:
    """Register the importer of the AI SDK's UI messages."""
    IMPORTERS.add_reference("ai-sdk", "stenolog.contrib.ai_sdk.files:AI_SDK")


def crewagent() -> None:
    """Register the importer and the exporter of CrewAgent's folders."""
    IMPORTERS.add_reference("crewagent", "stenolog.contrib.crewagent.export:CREWAGENT")
    EXPORTERS.add_reference("crewagent", "stenolog.contrib.crewagent.export:TO_CREWAGENT")


def langgraph() -> None:
    """Register the importer of LangGraph's SQLite databases."""
    IMPORTERS.add_reference("langgraph", "stenolog.contrib.langgraph.database:LANGGRAPH")


def neurocrew() -> None:
    """Register the importer and the exporter of NeuroCrew Lab's chats."""
    IMPORTERS.add_reference("neurocrew", "stenolog.contrib.neurocrew.files:NEUROCREW")
    EXPORTERS.add_reference("neurocrew", "stenolog.contrib.neurocrew.export:TO_NEUROCREW")


def nostr() -> None:
    """Register the importer and the exporter of Nostr events, and the chat channel of a relay."""
    IMPORTERS.add_reference("nostr", "stenolog.contrib.nostr.files:NOSTR")
    EXPORTERS.add_reference("nostr", "stenolog.contrib.nostr.outgoing:TO_NOSTR")
    CHANNELS.add_reference("nostr", "stenolog.contrib.nostr.service:channel")


def openai_agents() -> None:
    """Register the importer of the OpenAI Agents SDK's session databases."""
    IMPORTERS.add_reference("openai-agents", "stenolog.contrib.openai_agents.database:OPENAI_AGENTS")


def pydantic_ai() -> None:
    """Register the importer of pydantic-ai's message histories."""
    IMPORTERS.add_reference("pydantic-ai", "stenolog.contrib.pydantic_ai.files:PYDANTIC_AI")


def workflow() -> None:
    """Register the importer of workflow tables, and the table that keeps a conversation's messages."""
    TABLES.add_reference("conversation_messages", "stenolog.contrib.workflow:conversation_messages")
    IMPORTERS.add_reference("conversation-messages", "stenolog.contrib.workflow.files:WORKFLOW")


def telegram() -> None:
    """Register the chat channel of Telegram."""
    CHANNELS.add_reference("telegram", "stenolog.contrib.telegram.service:channel")
