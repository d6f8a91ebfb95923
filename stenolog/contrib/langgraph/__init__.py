"""LangGraph's checkpoints, kept in the log: `graph.compile(checkpointer=LangGraphSaver(log))`.

saver.py     what LangGraph asks for: put, get, list, delete …
threads.py   a thread as the log tells it: a fold of its conversation
values.py    the values of channels, each long one kept once
serializer.py  which classes a stored value may name
telling.py   which messages of a state are told as events, and which of those told are out of it now
finding.py   the messages in the channels of a state
calls.py     the calls that wait for their results
messages.py  a LangChain message as an event
"""

from __future__ import annotations

from stenolog.errors import MissingExtraError

try:
    from .saver import LangGraphSaver
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise MissingExtraError("langgraph", "langgraph-checkpoint") from None

__all__ = ["LangGraphSaver"]
