"""The part of LangGraph's configs that names a thread and one of its checkpoints."""

from __future__ import annotations

from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_id

from .thread_store import id_of


class Where(NamedTuple):
    """The checkpoint that a config names."""

    thread: str
    ns: str
    id: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> Where:
        named = config["configurable"]
        return cls(
            id_of(named["thread_id"]), named.get("checkpoint_ns") or "", get_checkpoint_id(config) or None
        )


def config_of(thread: str, ns: str, id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
