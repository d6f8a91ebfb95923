"""Threads of another saver, brought into the log: a real SqliteSaver with its file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint import sqlite
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.errors import CallerError
from tests.frameworks.langgraph_graphs import ASKED, LATER, MAY, ONE, crew, fan_out, said, talking


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Any]:
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "lg.sqlite")) as saver:
        yield saver


def history(app: Any, config: Any = ONE) -> list[tuple[Any, ...]]:
    """Return each state of a thread, newest first, as LangGraph gives it."""
    return [
        (state.values, state.next, state.config, state.metadata, state.interrupts)
        for state in app.get_state_history(config)
    ]


def test_a_brought_thread_has_the_same_history_and_goes_on(log: Log, old: Any) -> None:
    talking(old).invoke(ASKED, ONE)
    app, saver = talking(old), LangGraphSaver(log)

    brought = saver.bring(old, "one")
    here = talking(saver)

    assert brought == len(history(app)) > 0
    assert history(here) == history(app)
    assert said(here.invoke(LATER, ONE))[-1] == "I know: a cat in the box."
    assert [item.text for item in log["one"].timeline() if item.author == "user"] == [
        "Where is it?",
        "And now?",
    ]


def test_an_interrupt_can_be_answered_after_the_move(log: Log, old: Any) -> None:
    talking(old).invoke(MAY, ONE)
    saver = LangGraphSaver(log)

    saver.bring(old, "one")
    state = talking(saver).invoke(Command(resume="yes"), ONE)

    assert said(state)[-1] == "I know: yes."


def test_branches_come_along(log: Log, old: Any) -> None:
    app = talking(old)
    app.invoke(ASKED, ONE)
    first = next(state for state in app.get_state_history(ONE) if len(state.values["messages"]) == 1)
    app.invoke(LATER, first.config)
    saver = LangGraphSaver(log)

    saver.bring(old, "one")

    assert len(saver.branches("one")) == 2
    assert history(talking(saver)) == history(app)


@pytest.mark.parametrize(
    ("graph", "given"), [(crew, ASKED), (fan_out, {"subjects": ["cats", "dogs"], "jokes": []})]
)
def test_subgraphs_and_tasks_at_once_come_along_with_their_writes(
    log: Log, old: Any, graph: Any, given: Any
) -> None:
    graph(old).invoke(given, ONE)
    saver = LangGraphSaver(log)

    saver.bring(old, "one")

    def written(saver: Any) -> Any:
        found = sorted(saver.list(ONE), key=lambda each: each.config["configurable"]["checkpoint_id"])
        return [(each.checkpoint["channel_values"], sorted(each.pending_writes, key=repr)) for each in found]

    assert written(saver) == written(old)


def test_bringing_again_puts_only_what_is_new(log: Log, old: Any) -> None:
    saver = LangGraphSaver(log)
    talking(old).invoke(ASKED, ONE)
    saver.bring(old, "one")

    assert saver.bring(old, "one") == 0
    talking(old).invoke(LATER, ONE)
    assert saver.bring(old, "one") > 0
    assert history(talking(saver)) == history(talking(old))


def test_a_thread_that_went_on_in_both_is_refused(log: Log, old: Any) -> None:
    saver = LangGraphSaver(log)
    talking(old).invoke(ASKED, ONE)
    saver.bring(old, "one")
    talking(saver).invoke(LATER, ONE)
    assert saver.bring(old, "one") == 0
    talking(old).invoke(LATER, ONE)

    with pytest.raises(CallerError, match="went on in both savers"):
        saver.bring(old, "one")


@dataclass
class Invoice:
    total: int


class Billed(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    invoice: NotRequired[Invoice]


def billing(saver: Any) -> Any:
    """Return a question, a bill of a class of one's own, and a question to a person that is open."""
    graph = StateGraph(Billed)
    graph.add_node("greet", lambda state: {"messages": [AIMessage("Welcome.", id="a1")]})
    graph.add_node("bill", lambda state: {"invoice": Invoice(7)})
    graph.add_node("ask", lambda state: {"messages": [AIMessage(interrupt("Pay?"), id="a2")]})
    graph.add_edge(START, "greet")
    graph.add_edge("greet", "bill")
    graph.add_edge("bill", "ask")
    return graph.compile(checkpointer=saver)


class NoInvoices(JsonPlusSerializer):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, Invoice):
            raise TypeError("an Invoice")
        return super().dumps_typed(obj)


def test_a_bring_that_fails_leaves_nothing_and_one_after_it_brings_all(log: Log, old: Any) -> None:
    billing(old).invoke(ASKED, ONE)

    with pytest.raises(TypeError, match="Invoice"):
        LangGraphSaver(log, serde=NoInvoices()).bring(old, "one")
    assert "one" not in log
    saver = LangGraphSaver(log, allow=[Invoice])
    saver.bring(old, "one")

    assert history(billing(saver)) == history(billing(old))


def test_writes_that_are_missing_come_with_the_next_bring(log: Log, old: Any) -> None:
    talking(old).invoke(MAY, ONE)
    saver = LangGraphSaver(log)
    for each in sorted(
        old.list(ONE), key=lambda each: each.checkpoint["id"]
    ):  # as an earlier stenolog left it
        parent = each.parent_config or ONE
        saver.put(parent, each.checkpoint, each.metadata, each.checkpoint["channel_versions"])
    here, before = talking(saver), log["one"].timeline()
    assert not here.get_state(ONE).interrupts

    assert saver.bring(old, "one") == 0

    assert history(here) == history(talking(old))
    assert [item.text for item in log["one"].timeline() if not item.hidden][: len(before)] == [
        item.text for item in before
    ]
    written = log["one"].position
    assert saver.bring(old, "one") == 0
    assert log["one"].position == written


def test_checkpoints_put_with_the_versions_of_another_saver_go_on(log: Log, old: Any) -> None:
    talking(old).invoke(ASKED, ONE)
    last, saver = old.get_tuple(ONE), LangGraphSaver(log)
    here: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
    saver.put(here, last.checkpoint, last.metadata, last.checkpoint["channel_versions"])

    assert said(talking(saver).invoke(LATER, ONE)) == said(talking(old).invoke(LATER, ONE))


def test_a_thread_that_the_other_saver_does_not_know_is_refused(log: Log, old: Any) -> None:
    with pytest.raises(CallerError, match=r"found 'no', and it has no thread at all: is its path right\?"):
        LangGraphSaver(log).bring(old, "no")
    talking(old).invoke(ASKED, ONE)
    with pytest.raises(CallerError, match=r"expected a thread of the other saver, found 'no'$"):
        LangGraphSaver(log).bring(old, "no")

    assert "no" not in log


def test_threads_come_from_other_savers_and_in_an_event_loop_too(log: Log) -> None:
    memory, saver = InMemorySaver(), LangGraphSaver(log)
    crew(memory).invoke(ASKED, ONE)

    brought = asyncio.run(saver.abring(memory, "one"))

    assert brought == len([*memory.list(ONE)])
    assert history(crew(saver)) == history(crew(memory))


async def test_a_saver_of_an_event_loop_is_read_with_abring(log: Log, tmp_path: Path) -> None:
    from langgraph.checkpoint.sqlite import aio

    async with aio.AsyncSqliteSaver.from_conn_string(str(tmp_path / "aio.sqlite")) as old:
        await talking(old).ainvoke(ASKED, ONE)
        assert await LangGraphSaver(log).abring(old, "one") > 0

    assert isinstance(talking(LangGraphSaver(log)).get_state(ONE).values["messages"][-1], AIMessage)
