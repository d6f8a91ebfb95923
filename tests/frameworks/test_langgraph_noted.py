"""The log of a run beside its messages: interrupts, answers, errors, and no entry that changes nothing."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, interrupt

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.errors import StoreError
from tests.cli.conftest import Ran, cli
from tests.frameworks.langgraph_graphs import ASKED, MAY, ONE, ask, look, said, talking
from tests.frameworks.test_langgraph_kept import ONE as HERE
from tests.frameworks.test_langgraph_kept import holding, put


class Form(TypedDict):
    messages: Annotated[list[Any], add_messages]


def asking(saver: Any, *questions: object) -> Any:
    """Return a graph with a node for each question, all of which ask at once."""
    graph = StateGraph(Form)
    for nth, question in enumerate(questions):
        graph.add_node(f"ask{nth}", lambda state, question=question: {"messages": [str(interrupt(question))]})
        graph.add_edge(START, f"ask{nth}")
    return graph.compile(checkpointer=saver)


def notes(log: Log, name: str = "one") -> list[tuple[str, str]]:
    """Return the authors and words of the notes in a thread."""
    shown = [item for item in log[name].timeline() if item.kind == "message"]
    noted = [item for item in shown if log[name].entry(item.position).event.in_context is False]  # type: ignore[union-attr]
    return [(item.author, item.text) for item in noted]


def test_an_interrupt_and_its_answer_are_entries_that_a_person_can_read(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(MAY, ONE)
    assert notes(log) == [("tools", "interrupted: Sure?")]

    state = app.invoke(Command(resume="yes"), ONE)

    assert said(state)[-1] == "I know: yes."
    assert notes(log) == [("tools", "interrupted: Sure?"), ("user", "resumed: yes")]


def test_answers_by_the_ids_of_their_interrupts_are_noted_once_each(log: Log) -> None:
    app = asking(LangGraphSaver(log), "One?", {"sure": True})
    app.invoke({"messages": []}, ONE)
    waiting = app.get_state(ONE).interrupts

    app.invoke(Command(resume={each.id: "yes" for each in waiting}), ONE)

    assert sorted(notes(log)) == [
        ("ask0", "interrupted: One?"),
        ("ask1", 'interrupted: {"sure":true}'),
        ("user", "resumed: yes"),
        ("user", "resumed: yes"),
    ]


def test_a_node_that_asks_twice_is_answered_twice(log: Log) -> None:
    def twice(state: Form) -> Any:
        return {"messages": [f"{interrupt('First?')} {interrupt('Second?')}"]}

    graph = StateGraph(Form)
    graph.add_node("twice", twice)
    graph.add_edge(START, "twice")
    app = graph.compile(checkpointer=LangGraphSaver(log))
    app.invoke({"messages": []}, ONE)
    app.invoke(Command(resume="yes"), ONE)
    app.invoke(Command(resume="yes"), ONE)

    assert [words for _, words in notes(log)] == [
        "interrupted: First?",
        "resumed: yes",
        "interrupted: Second?",
        "resumed: yes",
    ]


@pytest.mark.parametrize("around", [1, 2])
def test_an_interrupt_in_a_subgraph_is_noted_once(log: Log, around: int) -> None:
    app: Any = asking(None, "Sure?")
    for depth in range(around):
        graph = StateGraph(Form)
        graph.add_node("inner", app)
        graph.add_edge(START, "inner")
        app = graph.compile(checkpointer=LangGraphSaver(log) if depth == around - 1 else None)

    app.invoke(ASKED, ONE)
    app.invoke(Command(resume="yes"), ONE)

    assert notes(log) == [("inner", "interrupted: Sure?"), ("user", "resumed: yes")]


def test_an_error_of_a_node_is_noted_with_the_node(log: Log) -> None:
    def fails(state: Form) -> Any:
        raise ValueError("no cat here")

    graph = StateGraph(Form)
    graph.add_node("looks", fails)
    graph.add_edge(START, "looks")
    with pytest.raises(ValueError, match="no cat here"):
        graph.compile(checkpointer=LangGraphSaver(log)).invoke({"messages": []}, ONE)

    assert notes(log) == [("looks", "error: ValueError('no cat here')")]
    assert log["one"].state().anomalies == 0


def test_a_note_on_an_interrupt_that_comes_before_its_checkpoint_follows_the_messages(log: Log) -> None:
    saver, state = LangGraphSaver(log), holding(1, messages=[HumanMessage("May I?", id="q")])
    there: Any = {"configurable": {**ONE["configurable"], "checkpoint_ns": "", "checkpoint_id": state["id"]}}
    saver.put_writes(there, [("__interrupt__", (Interrupt("Sure?"),))], "task", "~__pregel_pull, asks")
    assert notes(log) == []

    put(saver, HERE, state)
    put(saver, HERE, state)

    told = [(item.author, item.text) for item in log["one"].timeline() if item.kind == "message"]
    assert told == [("user", "May I?"), ("asks", "interrupted: Sure?")]
    assert [write[1] for write in saver.get_tuple(there).pending_writes] == ["__interrupt__"]  # type: ignore[union-attr]


def test_notes_are_sent_to_no_model_and_come_along_with_a_brought_thread(log: Log) -> None:
    old = InMemorySaver()
    talking(old).invoke(MAY, ONE)
    talking(old).invoke(Command(resume="yes"), ONE)

    LangGraphSaver(log).bring(old, "one")

    assert notes(log) == [("graph", "interrupted: Sure?"), ("user", "resumed: yes")]
    sent = log["one"].request("assistant", api="openai-chat").body["messages"]
    assert [m["role"] for m in sent[:-1]] == ["user", "assistant", "tool", "assistant"]


def test_no_note_is_made_where_nothing_is_told(log: Log) -> None:
    app = talking(LangGraphSaver(log, tell=False))
    app.invoke(MAY, ONE)

    assert said(app.invoke(Command(resume="yes"), ONE))[-1] == "I know: yes."
    assert notes(log) == []


def test_a_state_or_a_write_that_is_put_twice_is_one_entry(log: Log) -> None:
    saver, state = (
        LangGraphSaver(log),
        holding(1, messages=[HumanMessage("Hello", id="q")], long="long " * 60),
    )
    config = put(saver, HERE, state)
    saver.put_writes(config, [("messages", "one"), ("long", "long " * 90)], "task")
    once = [*saver.list(ONE)]
    before = log["one"].position

    put(saver, HERE, state)
    saver.put_writes(config, [("messages", "one"), ("long", "long " * 90)], "task")

    assert log["one"].position == before
    assert [*saver.list(ONE)] == once


def test_a_checkpoint_that_was_pruned_is_kept_again_when_it_is_put_again(log: Log) -> None:
    saver, first = LangGraphSaver(log), holding(1)
    config = put(saver, HERE, first)
    put(saver, config, holding(2))
    saver.prune(["one"])
    put(saver, HERE, first)

    assert saver.get_tuple(config) is not None


def test_one_line_of_a_program_with_a_sqlite_saver_changes(tmp_path: Path) -> None:
    with LangGraphSaver.from_conn_string(tmp_path / "talks.db", agent="finder") as saver:
        assert said(talking(saver).invoke(ASKED, ONE))[-1] == "I know: a cat in the box."
    with pytest.raises(StoreError, match="was closed"):
        saver.get_tuple(ONE)

    async def goes_on() -> Any:
        async with LangGraphSaver.from_conn_string(str(tmp_path / "talks.db")) as saver:
            return await talking(saver).aget_state(ONE)

    assert len(asyncio.run(goes_on()).values["messages"]) == 5
    with stenolog.open(tmp_path / "talks.db") as log:
        assert log["one"].settings().members == ("finder",)


def test_a_saver_that_cannot_be_made_leaves_no_open_log(tmp_path: Path) -> None:
    with (
        pytest.raises(TypeError, match="agnet"),
        LangGraphSaver.from_conn_string(tmp_path / "talks.db", agnet="finder"),
    ):
        pass
    (tmp_path / "talks.db").unlink()


# What commands say of LangGraph's threads: who waits for a person, what calls cost, who has requests.


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

    shown = run("explain", "one", str(caller.position)).out

    assert "was recorded without a cause" in shown
    assert "imported" not in shown
