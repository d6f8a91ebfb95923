"""Threads of LangGraph in a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stenolog
from tests.postgres.server import NEWEST, Server


def test_a_thread_goes_on_in_another_process_that_has_the_log_open(
    postgres: Callable[[str], Server],
) -> None:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    from stenolog.contrib.langgraph import LangGraphSaver

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"I heard {state['messages'][-1].content!r}.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    thread: Any = {"configurable": {"thread_id": "42"}}
    with postgres(NEWEST).schema() as address, stenolog.open(address) as one, stenolog.open(address) as two:
        for log, text in ((one, "Hello"), (two, "Again"), (one, "More")):
            graph.compile(checkpointer=LangGraphSaver(log)).invoke({"messages": [HumanMessage(text)]}, thread)
        said = [item.text for item in two["42"].timeline() if item.kind == "message"]

    assert said == ["Hello", "I heard 'Hello'.", "Again", "I heard 'Again'.", "More", "I heard 'More'."]
