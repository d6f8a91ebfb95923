"""Which stores are compared, and what each needs."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A store: its name on the page, its module and class, its environment ("" is the project's own)."""

    title: str
    module: str
    kind: str
    environment: str = ""


KNOWN = {
    "floor": Known("floor: sqlite3, list read anew", "by_hand", "Floor"),
    "floor_cached": Known("floor_cached: sqlite3, list held", "by_hand", "FloorCached"),
    "stenolog": Known("**stenolog**, whole history", "ours", "Stenolog"),
    "stenolog_32k": Known("**stenolog**, 32,000 tokens", "ours", "Stenolog32k"),
    "langgraph": Known("LangGraph, SqliteSaver", "langgraph", "LangGraph", "langgraph"),
    "langgraph_delta": Known("LangGraph, DeltaChannel (beta)", "langgraph", "LangGraphDelta", "langgraph"),
    "openai_agents": Known("OpenAI Agents, SQLiteSession", "openai_agents", "OpenAIAgents", "openai_agents"),
    "pydantic_ai": Known("pydantic-ai, messages as rows", "pydantic_ai", "PydanticAI", "pydantic_ai"),
    "google_adk": Known("Google ADK, SqliteSessionService", "google_adk", "GoogleADK", "google_adk"),
    "burr": Known("Burr, SQLitePersister", "burr", "Burr", "burr"),
    "langchain": Known("LangChain, SQLChatMessageHistory", "langchain", "LangChain", "langchain"),
    "eventsourcing": Known("eventsourcing, an aggregate", "es", "EventSourcing", "eventsourcing"),
    "eventsourcing_held": Known("eventsourcing, held (unsafe)", "es", "EventSourcingHeld", "eventsourcing"),
}
OURS = ("stenolog", "stenolog_32k")
FLOORS = ("floor", "floor_cached")
