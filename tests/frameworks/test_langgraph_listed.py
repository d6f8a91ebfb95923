"""What commands say of LangGraph's threads: who waits for a person, what calls cost, who has requests."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from tests.cli.conftest import Ran, cli
from tests.frameworks.langgraph_graphs import ASKED, MAY, ONE, ask, look, talking

__all__ = ["cli"]
Run = Any


class Inner(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Outer(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]


def nested(saver: Any) -> Any:
    """Return a graph whose node runs a graph with messages of its own, which asks a person."""
    inner = StateGraph(Inner)
    inner.add_node("think", lambda state: {"messages": [AIMessage("Hm.", id="think")]})
    inner.add_node("ask", lambda state: {"messages": [AIMessage(interrupt("Sure?"), id="ask")]})
    inner.add_edge(START, "think")
    inner.add_edge("think", "ask")
    researcher = inner.compile(checkpointer=True)

    def research(state: Outer) -> dict[str, Any]:
        found = researcher.invoke({"messages": [HumanMessage("Find it.", id="brief")]})
        return {"messages": [AIMessage("Found.", id="found")], "notes": [found["messages"][-1].content]}

    graph = StateGraph(Outer)
    graph.add_node("researcher", research)
    graph.add_edge(START, "researcher")
    return graph.compile(checkpointer=saver)


@pytest.fixture
def run(cli: Any, tmp_path: Path) -> Any:
    def ran(*arguments: str) -> Ran:
        found: Ran = cli(*arguments, "--db", str(tmp_path / "graph.db"))
        return found

    return ran


@pytest.mark.parametrize("graph", [talking, nested])
def test_a_thread_that_waits_at_an_interrupt_waits_for_a_person_until_it_is_resumed(
    log: Log, run: Run, graph: Any
) -> None:
    app = graph(LangGraphSaver(log))
    app.invoke(MAY, ONE)
    waiting, state = run("ls").out, run("state", "one").out
    app.invoke(Command(resume="yes"), ONE)

    assert " approval " in waiting
    assert "waits for a person's answer" in state
    assert " approval " not in run("ls").out
    assert "waits for" not in run("state", "one").out


def test_messages_that_a_graph_writes_again_are_no_calls(log: Log, run: Run) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(ASKED, ONE)
    before = run("cost", "one", "--json").envelope["data"]["total"]
    at_tools = next(state for state in app.get_state_history(ONE) if state.next == ("tools",))

    app.invoke(None, at_tools.config)  # the scripted model gives the same answer, with the same id

    written = [entry for entry in log["one"] if entry.event.kind == "assistant_message"]
    after = run("cost", "one", "--json").envelope["data"]["total"]
    assert len(written) > before["answers"] == after["answers"]
    assert after["answers_without_usage"] == before["answers_without_usage"]
    assert run("ls", "--json").envelope["data"][0]["turns"] == 1


def test_the_cost_of_all_conversations_counts_entries_that_forks_share_once(log: Log, run: Run) -> None:
    talking(LangGraphSaver(log)).invoke(ASKED, ONE)
    before = run("cost", "--json").envelope["data"]["total"]
    log["one"].fork(name="two", pending="keep").fork(name="three", pending="keep")

    assert run("cost", "--json").envelope["data"]["total"] == before
    assert run("cost", "three", "--json").envelope["data"]["total"] == before


def test_a_subgraph_with_messages_of_its_own_has_no_request_and_is_not_chosen(log: Log, run: Run) -> None:
    nested(LangGraphSaver(log)).invoke(ASKED, ONE)
    alone = run("request", "one")
    talking(LangGraphSaver(log, agent="main")).invoke(ASKED, {"configurable": {"thread_id": "two"}})

    named = run("request", "one", "--agent", "researcher")

    assert "researcher has no request: its messages are for the timeline alone" in named.err
    assert "researcher" not in alone.out


def test_tools_of_langchain_can_be_joined_and_the_note_no_longer_names_them(log: Log) -> None:
    log["one"].join("assistant", model="gpt-5.2", tools=[look, ask])
    talking(LangGraphSaver(log)).invoke(ASKED, ONE)

    request = log["one"].request("assistant", api="openai-chat")

    assert [tool["function"] for tool in request.body["tools"]] == [
        convert_to_openai_tool(tool)["function"] for tool in (look, ask)
    ]
    assert "besides (system prompt) or left out is not recorded" in log["one"].bill("assistant").note


def test_what_a_graph_wrote_live_was_recorded_and_not_imported(log: Log, run: Run) -> None:
    saver = LangGraphSaver(log)
    saver.setup()  # as programs do with a SqliteSaver
    talking(saver).invoke(ASKED, ONE)
    caller = next(entry for entry in log["one"] if getattr(entry.event, "tool_calls", ()))

    shown = run("explain", "call", "one", str(caller.position)).out

    assert "was recorded without a cause" in shown
    assert "imported" not in shown
