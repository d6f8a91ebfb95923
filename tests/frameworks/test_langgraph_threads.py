"""A thread is the conversation of its id, and no other: forks, renames, imports, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from tests.examples.harness import clean
from tests.frameworks.langgraph_graphs import talking

ASKED = {"messages": [HumanMessage("Where is it?", id="q1")]}
MAY = {"messages": [HumanMessage("May I?", id="q1")]}
LATER = {"messages": [HumanMessage("And now?", id="q2")]}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "graph.db", synchronous="normal") as log:
        yield log
    clean(tmp_path / "graph.db")


def at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def contents(app: Any, thread: str) -> list[str]:
    return [message.content for message in app.get_state(at(thread)).values.get("messages", ())]


def asked(log: Log, name: str) -> list[str]:
    return [item.text for item in log[name].timeline() if item.kind == "message" and item.author == "user"]


@pytest.mark.parametrize("id", ["orig", "no name\n"])
@pytest.mark.parametrize("way", ["at its end", "in the past", "of a fork"])
def test_a_fork_of_a_conversation_is_a_thread_of_its_own(log: Log, id: str, way: str) -> None:
    saver = LangGraphSaver(log)
    app = talking(saver)
    app.invoke(ASKED, at(id))
    once = saver.conversation(id).position
    app.invoke(LATER, at(id))
    before, there = saver.conversation(id).position, contents(app, id)
    if way == "of a fork":
        saver.conversation(id).fork(name="between").fork(name="alt")
    else:
        saver.conversation(id).fork(once if way == "in the past" else None, name="alt")

    state = app.invoke({"messages": [HumanMessage("Only here?", id="q3")]}, at("alt"))

    assert (saver.conversation(id).position, contents(app, id)) == (before, there)
    assert [message.content for message in state["messages"]] == contents(app, "alt")
    heard = ["Where is it?", "Only here?"] if way == "in the past" else ["Where is it?", "And now?", "Only here?"]
    assert asked(log, "alt") == heard
    assert app.get_state(at("alt")).config["configurable"]["thread_id"] == "alt"
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} >= {id, "alt"}


@pytest.mark.parametrize("pending", ["close", "keep"])
def test_an_answer_to_an_interrupt_in_a_fork_goes_to_the_fork_alone(log: Log, pending: Any) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(MAY, at("orig"))
    before = log["orig"].position
    log["orig"].fork(name="what-if", pending=pending)

    state = app.invoke(Command(resume="no"), at("what-if"))

    assert state["messages"][-1].content == "I know: no."
    assert (log["orig"].position, app.get_state(at("orig")).next) == (before, ("tools",))
    assert app.invoke(Command(resume="yes"), at("orig"))["messages"][-1].content == "I know: yes."
    assert contents(app, "what-if")[-1] == "I know: no."
    sent = log["what-if"].request("assistant", api="openai-chat").body["messages"]
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["no"]


def test_a_renamed_conversation_goes_on_under_its_new_name_alone(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(ASKED, at("before"))
    log["before"].rename("after")

    app.invoke(LATER, at("after"))

    assert log.names() == ["after"]
    assert asked(log, "after") == ["Where is it?", "And now?"]
    assert contents(app, "before") == []
    app.invoke(ASKED, at("before"))
    assert asked(log, "after") == ["Where is it?", "And now?"]
    assert asked(log, "before") == ["Where is it?"]
