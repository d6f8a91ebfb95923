"""Registration of what is in `contrib`, by references: nothing of it is imported before it is used.

Each function is an entry point of the group `stenolog.plugins` (see `pyproject.toml`).
"""

from __future__ import annotations

from stenolog.plugins import CHANNELS, EXPORTERS, PROGRAMS, TABLES, Reference

_VALUES = f"{__package__}.programs"


def adk() -> None:
    """Register the importer of the Agent Development Kit's sessions and evaluation sets."""
    PROGRAMS.add_late("adk", Reference(_VALUES, "ADK"))


def ai_sdk() -> None:
    """Register the importer of the AI SDK's UI messages."""
    PROGRAMS.add_late("ai-sdk", Reference(_VALUES, "AI_SDK"))


def atif() -> None:
    """Register the importer of ATIF trajectories."""
    PROGRAMS.add_late("atif", Reference(_VALUES, "ATIF"))


def burr() -> None:
    """Register the importer of Burr's tracking logs."""
    PROGRAMS.add_late("burr", Reference(_VALUES, "BURR"))


def copilot_cli() -> None:
    """Register the importer of GitHub Copilot CLI's sessions."""
    PROGRAMS.add_late("copilot-cli", Reference(_VALUES, "COPILOT_CLI"))


def crewagent() -> None:
    """Register the importer and the exporter of CrewAgent's folders."""
    PROGRAMS.add_late("crewagent", Reference(_VALUES, "CREWAGENT"))
    EXPORTERS.add_reference("crewagent", "stenolog.contrib.crewagent.export:TO_CREWAGENT")


def deepseek_harness() -> None:
    """Register the importers of deepseek-harness sessions, and of its database of them."""
    PROGRAMS.add_late("deepseek-harness", Reference(_VALUES, "DEEPSEEK_HARNESS"))


def goose() -> None:
    """Register the importers of goose's session files, exports and database."""
    PROGRAMS.add_late("goose", Reference(_VALUES, "GOOSE"))


def langgraph() -> None:
    """Register the importer of LangGraph's SQLite databases."""
    PROGRAMS.add_late("langgraph", Reference(_VALUES, "LANGGRAPH"))


def mapping() -> None:
    """Register the importer of files that a mapping describes."""
    PROGRAMS.add_late("mapping", Reference(_VALUES, "MAPPING"))


def neurocrew() -> None:
    """Register the importer and the exporter of NeuroCrew Lab's chats."""
    PROGRAMS.add_late("neurocrew", Reference(_VALUES, "NEUROCREW"))
    EXPORTERS.add_reference("neurocrew", "stenolog.contrib.neurocrew.export:TO_NEUROCREW")


def nostr() -> None:
    """Register the importer and the exporter of Nostr events, and the chat channel of a relay."""
    PROGRAMS.add_late("nostr", Reference(_VALUES, "NOSTR"))
    EXPORTERS.add_reference("nostr", "stenolog.contrib.nostr.outgoing:TO_NOSTR")
    CHANNELS.add_reference("nostr", "stenolog.contrib.nostr.service:channel")


def openai_agents() -> None:
    """Register the importer of the OpenAI Agents SDK's session databases."""
    PROGRAMS.add_late("openai-agents", Reference(_VALUES, "OPENAI_AGENTS"))


def opencode() -> None:
    """Register the importers of opencode's storage folder, and of its database."""
    PROGRAMS.add_late("opencode", Reference(_VALUES, "OPENCODE"))


def openhands() -> None:
    """Register the importer of OpenHands' runs and conversations."""
    PROGRAMS.add_late("openhands", Reference(_VALUES, "OPENHANDS"))


def pi() -> None:
    """Register the importer of pi's sessions, which are OpenClaw's too."""
    PROGRAMS.add_late("pi", Reference(_VALUES, "PI"))


def pydantic_ai() -> None:
    """Register the importer of pydantic-ai's message histories."""
    PROGRAMS.add_late("pydantic-ai", Reference(_VALUES, "PYDANTIC_AI"))


def swe_agent() -> None:
    """Register the importer of trajectories of SWE-agent and mini-SWE-agent."""
    PROGRAMS.add_late("swe-agent", Reference(_VALUES, "SWE_AGENT"))


def telegram() -> None:
    """Register the chat channel of Telegram."""
    CHANNELS.add_reference("telegram", "stenolog.contrib.telegram.service:channel")


def workflow() -> None:
    """Register the importer of workflow tables, and the table that keeps a conversation's messages."""
    PROGRAMS.add_late("conversation-messages", Reference(_VALUES, "WORKFLOW"))
    TABLES.add_reference("conversation_messages", "stenolog.contrib.workflow:conversation_messages")
