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


def atif() -> None:
    """Register the importer of ATIF trajectories."""
    IMPORTERS.add_reference("atif", "stenolog.contrib.atif.files:ATIF")


def burr() -> None:
    """Register the importer of Burr's tracking logs."""
    IMPORTERS.add_reference("burr", "stenolog.contrib.burr.files:BURR")


def copilot_cli() -> None:
    """Register the importer of GitHub Copilot CLI's sessions."""
    IMPORTERS.add_reference("copilot-cli", "stenolog.contrib.copilot_cli.sessions:COPILOT_CLI")


def crewagent() -> None:
    """Register the importer and the exporter of CrewAgent's folders."""
    IMPORTERS.add_reference("crewagent", "stenolog.contrib.crewagent.export:CREWAGENT")
    EXPORTERS.add_reference("crewagent", "stenolog.contrib.crewagent.export:TO_CREWAGENT")


def deepseek_harness() -> None:
    """Register the importers of deepseek-harness sessions, and of its database of them."""
    IMPORTERS.add_reference("deepseek-harness", "stenolog.contrib.deepseek_harness.files:DEEPSEEK_HARNESS")
    IMPORTERS.add_reference("deepseek-harness-db", "stenolog.contrib.deepseek_harness.database:DATABASE")


def goose() -> None:
    """Register the importers of goose's session files, exports and database."""
    IMPORTERS.add_reference("goose", "stenolog.contrib.goose.files:GOOSE")
    IMPORTERS.add_reference("goose-db", "stenolog.contrib.goose.files:GOOSE_DB")
    IMPORTERS.add_reference("goose-json", "stenolog.contrib.goose.files:GOOSE_JSON")


def langgraph() -> None:
    """Register the importer of LangGraph's SQLite databases."""
    IMPORTERS.add_reference("langgraph", "stenolog.contrib.langgraph.database:LANGGRAPH")


def mapping() -> None:
    """Register the importer of files that a mapping describes."""
    IMPORTERS.add_reference("mapping", "stenolog.contrib.mapping.files:MAPPING")


def neurocrew() -> None:
    """Register the importer and the exporter of NeuroCrew Lab's chats."""
    IMPORTERS.add_reference("neurocrew", "stenolog.contrib.neurocrew.roles:NEUROCREW")
    EXPORTERS.add_reference("neurocrew", "stenolog.contrib.neurocrew.export:TO_NEUROCREW")


def nostr() -> None:
    """Register the importer and the exporter of Nostr events, and the chat channel of a relay."""
    IMPORTERS.add_reference("nostr", "stenolog.contrib.nostr.files:NOSTR")
    EXPORTERS.add_reference("nostr", "stenolog.contrib.nostr.outgoing:TO_NOSTR")
    CHANNELS.add_reference("nostr", "stenolog.contrib.nostr.service:channel")


def openai_agents() -> None:
    """Register the importer of the OpenAI Agents SDK's session databases."""
    IMPORTERS.add_reference("openai-agents", "stenolog.contrib.openai_agents.database:OPENAI_AGENTS")


def opencode() -> None:
    """Register the importers of opencode's storage folder, and of its database."""
    IMPORTERS.add_reference("opencode", "stenolog.contrib.opencode.folder:OPENCODE")
    IMPORTERS.add_reference("opencode-db", "stenolog.contrib.opencode.database:OPENCODE_DB")


def openhands() -> None:
    """Register the importer of OpenHands' runs and conversations."""
    IMPORTERS.add_reference("openhands", "stenolog.contrib.openhands.files:OPENHANDS")


def pi() -> None:
    """Register the importer of pi's sessions, which are OpenClaw's too."""
    IMPORTERS.add_reference("pi", "stenolog.contrib.pi.sessions:PI")


def pydantic_ai() -> None:
    """Register the importer of pydantic-ai's message histories."""
    IMPORTERS.add_reference("pydantic-ai", "stenolog.contrib.pydantic_ai.files:PYDANTIC_AI")


def swe_agent() -> None:
    """Register the importer of trajectories of SWE-agent and mini-SWE-agent."""
    IMPORTERS.add_reference("swe-agent", "stenolog.contrib.swe_agent.files:SWE_AGENT")


def telegram() -> None:
    """Register the chat channel of Telegram."""
    CHANNELS.add_reference("telegram", "stenolog.contrib.telegram.service:channel")


def workflow() -> None:
    """Register the importer of workflow tables, and the table that keeps a conversation's messages."""
    TABLES.add_reference("conversation_messages", "stenolog.contrib.workflow:conversation_messages")
    IMPORTERS.add_reference("conversation-messages", "stenolog.contrib.workflow.files:WORKFLOW")
