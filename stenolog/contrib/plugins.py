"""Registration of what is in `contrib`, by references: nothing of it is imported before it is used.

Each function is an entry point of the group `stenolog.plugins` (see `pyproject.toml`).
"""

from __future__ import annotations

from stenolog.plugins import CHANNELS, EXPORTERS, IMPORTERS, TABLES


def atif() -> None:
    """Register the importer of ATIF trajectories."""
    IMPORTERS.add_reference("atif", "stenolog.contrib.atif.files:ATIF")


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


def openhands() -> None:
    """Register the importer of OpenHands' runs and conversations."""
    IMPORTERS.add_reference("openhands", "stenolog.contrib.openhands.files:OPENHANDS")


def swe_agent() -> None:
    """Register the importer of trajectories of SWE-agent and mini-SWE-agent."""
    IMPORTERS.add_reference("swe-agent", "stenolog.contrib.swe_agent.files:SWE_AGENT")


def workflow() -> None:
    """Register the importer of workflow tables, and the table that keeps a conversation's messages."""
    TABLES.add_reference("conversation_messages", "stenolog.contrib.workflow:conversation_messages")
    IMPORTERS.add_reference("conversation-messages", "stenolog.contrib.workflow.files:WORKFLOW")


def telegram() -> None:
    """Register the chat channel of Telegram."""
    CHANNELS.add_reference("telegram", "stenolog.contrib.telegram.service:channel")
