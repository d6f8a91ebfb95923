"""LangGraph's checkpoints, kept in the log: `graph.compile(checkpointer=LangGraphSaver(log))`.

saver.py             what LangGraph asks for: put, get, list, delete …
bringing.py          the checkpoints of a thread in another saver
checkpoint_entries.py the entries of a checkpoint and of a task's writes; interrupts, answers, errors
thread_store.py      the threads of a log, each a conversation, and the checkpoint that a config names
thread_fold.py       a thread as the log tells it: a fold of its conversation, with its open calls
stored_values.py     the values of channels, each long one kept once; which classes a value may name
message_sync.py      which messages of a state become events, and which of those in the log are out of it now
messages.py          the messages in the channels of a state, and each as an event
database.py          the importer of a `SqliteSaver`'s database
thread_messages.py   the messages in such a database, as conversations
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stenolog.errors import MissingExtraError

if TYPE_CHECKING:
    from .saver import LangGraphSaver

__all__ = ["LangGraphSaver"]


def __getattr__(name: str) -> Any:
    """Import the saver at first use: the importer recognises files without LangGraph."""
    if name != "LangGraphSaver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .saver import LangGraphSaver
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
            raise
        raise MissingExtraError("langgraph", "langgraph-checkpoint") from None
    return LangGraphSaver
