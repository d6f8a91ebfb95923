"""A thread is the conversation of its id, and no other: forks, renames, imports, and mistakes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.contrib.plugins import langgraph
from stenolog.errors import CallerError, NotADatabaseError, UnknownFormatError
from stenolog.importers import IMPORTERS, import_file
from tests.frameworks.langgraph_graphs import ASKED, LATER, MAY, talking


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the database of a SqliteSaver with the thread "one"."""
    from langgraph.checkpoint import sqlite

    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "lg.sqlite")) as saver:
        talking(saver).invoke(ASKED, at("one"))
    if "langgraph" not in IMPORTERS:
        langgraph()
    return tmp_path / "lg.sqlite"


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
    heard = (
        ["Where is it?", "Only here?"] if way == "in the past" else ["Where is it?", "And now?", "Only here?"]
    )
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


def test_no_graph_begins_anew_in_a_conversation_whose_messages_were_imported(log: Log, file: Path) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    import_file(log, file)
    saver, before = LangGraphSaver(log), log["one"].position
    log["one"].fork(name="alt")

    for thread in ("one", "alt"):
        with pytest.raises(CallerError, match="take another thread_id or another log, or rename"):
            talking(saver).invoke(LATER, at(thread))
        with pytest.raises(CallerError, match="were imported"):
            talking(saver).get_state(at(thread))
    with SqliteSaver.from_conn_string(str(file)) as old:
        with pytest.raises(CallerError, match="were imported"):
            saver.bring(old, "one")
        assert log["one"].position == before
        log["one"].rename("imported one")
        assert saver.bring(old, "one") > 0
    assert contents(talking(saver), "one")[0] == "Where is it?"


def test_messages_are_not_imported_over_a_thread_that_was_brought(log: Log, file: Path) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(file)) as old:
        LangGraphSaver(log).bring(old, "one")

        talking(old).invoke(LATER, at("one"))
        (imported,) = import_file(log, file).conversations
        LangGraphSaver(log).bring(old, "one")

    assert (imported.appended, sum(imported.ignored.values())) == (0, 10)
    assert asked(log, "one") == ["Where is it?", "And now?"]
    assert contents(talking(LangGraphSaver(log)), "one")[0] == "Where is it?"


def test_a_brought_thread_has_the_times_of_its_checkpoints(log: Log) -> None:
    old, saver = InMemorySaver(), LangGraphSaver(log)
    talking(old).invoke(ASKED, at("one"))
    times = sorted(datetime.fromisoformat(each.checkpoint["ts"]) for each in old.list(at("one")))
    before = datetime.now(UTC)

    saver.bring(old, "one")

    told = [entry.time for entry in log["one"]]
    assert told == sorted(told)
    assert {*told} == {*times}
    assert told[-1] <= before


@pytest.mark.parametrize("given", ["talks.db", Path("talks.db"), None])
def test_what_is_no_log_is_refused_at_once(given: Any) -> None:
    with pytest.raises(CallerError, match=r"LangGraphSaver\(stenolog\.open\('talks\.db'\)\), found "):
        LangGraphSaver(given)


def test_a_conversation_is_no_log_and_a_connection_neither_log_nor_saver(log: Log) -> None:
    with pytest.raises(CallerError, match="expected an open log"):
        LangGraphSaver(log["one"])  # type: ignore[arg-type]
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(CallerError, match="expected an open log"):
            LangGraphSaver(connection)  # type: ignore[arg-type]
        with pytest.raises(CallerError, match="expected a saver"):
            LangGraphSaver(log).bring(connection, "one")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["lg.sqlite", Path("lg.sqlite"), None])
def test_what_is_no_saver_is_not_brought(log: Log, given: Any) -> None:
    with pytest.raises(CallerError, match=r"SqliteSaver\.from_conn_string\('lg\.sqlite'\)"):
        LangGraphSaver(log).bring(given, "one")


def test_another_database_is_refused_with_the_names_of_those_that_are_known(tmp_path: Path, log: Log) -> None:
    if "langgraph" not in IMPORTERS:
        langgraph()
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE users (id)")

    with pytest.raises(UnknownFormatError, match=r"a LangGraph SqliteSaver.*the tables users"):
        import_file(log, tmp_path / "other.db")


def test_who_opens_a_database_of_langgraph_is_told_to_import_it(file: Path) -> None:
    with pytest.raises(NotADatabaseError, match=rf"imported: stenolog import {file}"):
        stenolog.open(file)
