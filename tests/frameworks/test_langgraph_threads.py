"""A thread is the conversation of its id, and no other: forks, renames, imports, and mistakes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import stenolog
from stenolog import Log, TextPart, ToolCall
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.contrib.plugins import langgraph
from stenolog.errors import CallerError, NotADatabaseError, UnknownFormatError
from stenolog.events import CallRef
from stenolog.importers import IMPORTERS, import_file
from stenolog.parts import ProviderPart, ReasoningPart
from tests.frameworks.langgraph_graphs import ASKED, LATER, MAY, growing, talking
from tests.frameworks.test_langgraph_kept import ONE, holding, put


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


# Which messages of a state are told, and in which order.


said_once = st.tuples(st.sampled_from(["", "a", "b", "c", "d"]), st.integers(0, 1), st.booleans())


def once_each(state: list[tuple[str, int, bool]]) -> list[BaseMessage]:
    """Return messages of one kind with unique ids, in one of two wordings, and messages without."""
    kinds: list[type[BaseMessage]] = [HumanMessage, AIMessage]
    by_id = {id: (n, id in "bd") for id, n, _ in state if id}
    return [
        AIMessage("hello", id="m0"),
        *(kinds[is_answer](f"words {id} {n}", id=id) for id, (n, is_answer) in by_id.items()),
        *(kinds[is_answer](f"words {n}") for id, n, is_answer in state if not id),
    ]


@given(states=st.lists(st.tuples(st.lists(said_once, max_size=6), st.booleans()), max_size=8))
def test_whatever_states_follow_each_other_what_is_in_context_is_the_last_one_in_its_order(
    states: list[tuple[list[tuple[str, int, bool]], bool]],
) -> None:
    with stenolog.open(":memory:") as log:
        saver, config, first = LangGraphSaver(log), ONE, None
        for step, (state, is_from_the_past) in enumerate([([], False), *states], 1):
            messages = once_each(state)
            config = put(
                saver, first if first and is_from_the_past else config, holding(step, messages=messages)
            )
            first = first or config
        shown = [item.text for item in log["one"].timeline() if item.kind == "message" and not item.hidden]
        body = log["one"].request("assistant", api="openai-chat").body

        assert shown == [message.content for message in messages]
        assert [m["content"] for m in body["messages"] if "words" in m["content"]] == shown[1:]


def test_what_is_told_again_for_its_order_is_told_from_the_first_one_on_that_has_moved(log: Log) -> None:
    def told(log: stenolog.Log) -> list[tuple[str, bool]]:
        return [(item.text, item.hidden) for item in log["one"].timeline() if item.kind == "message"]

    one, two, three = (HumanMessage(words, id=words) for words in ("one", "two", "three"))
    saver = LangGraphSaver(log)
    config = put(saver, ONE, holding(1, messages=[one, two, three]))
    config = put(saver, config, holding(2, messages=[one, HumanMessage("new", id="new"), three]))
    again = told(log)
    put(saver, config, holding(3, messages=[one, two, three]))

    assert again == [("one", False), ("two", True), ("three", True), ("new", False), ("three", False)]
    assert [text for text, is_hidden in told(log) if not is_hidden] == ["one", "two", "three"]
    assert len(told(log)) == len(again)


def test_a_window_over_messages_without_ids_is_told_once(log: Log) -> None:
    said = [HumanMessage(f"question {n}") if n % 2 else AIMessage(f"answer {n}") for n in range(40)]
    said[20:22] = said[10:12]  # the same words are said again
    saver, config = LangGraphSaver(log), ONE
    for step in range(1, len(said) + 1):
        config = put(
            saver, config, holding(step, messages=said[max(0, step - 6) : step], last=said[step - 1])
        )
    told = [(item.text, item.hidden) for item in log["one"].timeline() if item.kind == "message"]

    assert told == [(message.content, nth < 34) for nth, message in enumerate(said)]


def test_a_message_that_is_removed_from_a_delta_channel_is_hidden(log: Log) -> None:
    app = growing(LangGraphSaver(log))
    app.invoke({"messages": [HumanMessage("Where?", id="q1")]}, ONE)
    app.update_state(ONE, {"messages": [RemoveMessage("q1"), HumanMessage("There!", id="q2")]})
    shown = [item.text for item in log["one"].timeline() if item.kind == "message" and not item.hidden]

    assert shown == [m.content for m in app.get_state(ONE).values["messages"] if m.type != "tool"]


def test_results_of_two_calls_of_one_id_answer_one_call_each(log: Log) -> None:
    twice = [{"id": "c", "name": "f", "args": {"n": n}} for n in range(2)]
    results = [ToolMessage(f"result {n}", tool_call_id="c", id=f"r{n}") for n in range(2)]
    put(LangGraphSaver(log), ONE, holding(1, messages=[AIMessage("", tool_calls=twice, id="a"), *results]))
    answers = [entry.event for entry in log["one"].entries() if entry.event.kind == "tool_result"]

    assert [event.call for event in answers] == [CallRef(entry="a", index=n) for n in range(2)]  # type: ignore[union-attr]
    assert log["one"].state().anomalies == 0


CALLS = [
    AIMessage("", tool_calls=[{"id": "c", "name": "f", "args": {}}], id="a"),
    AIMessage("", invalid_tool_calls=[{"id": "c", "name": "f", "args": "{", "error": "no JSON"}], id="a"),
]


@pytest.mark.parametrize("is_moved", [True, False])
@pytest.mark.parametrize("asked", CALLS, ids=["valid", "invalid"])
def test_a_result_that_is_told_again_follows_its_call(log: Log, asked: AIMessage, is_moved: bool) -> None:
    result, cleared = (ToolMessage(words, tool_call_id="c", id="r") for words in ("found", "cleared"))
    system = [SystemMessage("be brief", id="s")] if is_moved else []
    saver = LangGraphSaver(log)
    config = put(saver, ONE, holding(1, messages=[asked, result]))
    config = put(saver, config, holding(2, messages=[*system, asked, cleared]))
    put(saver, config, holding(3, messages=[*system, asked, cleared, HumanMessage("Thanks", id="q")]))
    shown = [item for item in log["one"].timeline() if item.kind == "tool" and not item.hidden]
    roles = [m["role"] for m in log["one"].request("assistant", api="openai-chat").body["messages"]]

    assert [(item.call is None, item.output[0].text) for item in shown] == [(False, "cleared")]  # type: ignore[union-attr]
    assert roles == [m.type for m in system] + ["assistant", "tool", "user"]
    assert log["one"].state().anomalies == 0


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (HumanMessage([{"type": "non_standard", "x": 1}]), [TextPart(text='{"type":"non_standard","x":1}')]),
        (
            AIMessage(
                [{"type": "image_url", "image_url": "x.png"}, "Look!"],
                response_metadata={"model_provider": "google_genai"},
            ),
            [
                ProviderPart(provider="google_genai", raw='{"type":"image_url","image_url":"x.png"}'),
                TextPart(text="Look!"),
            ],
        ),
    ],
)
def test_what_langchain_cannot_translate_is_told_as_it_came(
    log: Log, said: BaseMessage, parts: list[object]
) -> None:
    with pytest.raises((KeyError, AttributeError, ValueError)):
        said.content_blocks  # noqa: B018
    put(LangGraphSaver(log), ONE, holding(1, messages=[said]))

    assert told_parts(log) == [*parts]


def test_a_call_without_an_id_is_told_and_reasoning_keeps_its_ciphertext(log: Log) -> None:
    said = [
        AIMessage("", tool_calls=[{"id": None, "name": "f", "args": {"x": 1}}]),
        AIMessage(
            [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "enc"}],
            response_metadata={"model_provider": "openai"},
        ),
    ]
    put(LangGraphSaver(log), ONE, holding(1, messages=said))

    assert told_parts(log) == [
        ToolCall(id="", name="f", arguments='{"x":1}'),
        ReasoningPart(provider="openai", id="r", encrypted="enc"),
    ]


def told_parts(log: stenolog.Log) -> list[object]:
    """Return the parts of all that was told in the thread."""
    return [part for entry in log["one"].entries() for part in getattr(entry.event, "parts", ())]


def test_all_that_is_removed_from_a_delta_channel_at_once_is_hidden(log: Log) -> None:
    saver = LangGraphSaver(log)
    config = put(saver, ONE, holding(1, notes=[HumanMessage("kept", id="k")]))
    for words in ("one", "two"):
        saver.put_writes(config, [("messages", HumanMessage(words, id=words))], words)
    counted = {"counters_since_delta_snapshot": {"messages": (1, 1)}}
    config = put(saver, config, holding(1, notes=[HumanMessage("kept", id="k")]), **counted)
    saver.put_writes(config, [("messages", [RemoveMessage("__remove_all__"), HumanMessage("new")])], "all")
    put(saver, config, holding(1, notes=[HumanMessage("kept", id="k")]), **counted)
    told = [(item.text, item.hidden) for item in log["one"].timeline() if item.kind == "message"]

    assert told == [("kept", False), ("one", True), ("two", True), ("new", False)]


def test_a_subgraph_whose_checkpoint_comes_before_that_of_the_graph_around_it_is_told_with_its_next_one(
    log: Log,
) -> None:
    inner: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": "sub:1"}}
    around, asked = holding(1, messages=[HumanMessage("Hello", id="q")]), HumanMessage("Hello", id="q")
    parents = {"parents": {"": around["id"]}}
    saver = LangGraphSaver(log)
    config = put(saver, inner, holding(1, messages=[asked]), **parents)
    put(saver, ONE, around)
    put(saver, config, holding(2, messages=[asked, AIMessage("Hi", id="a")]), **parents)
    told = [entry.event for entry in log["one"].entries() if entry.event.kind != "mode_switch"]

    assert [(event.text, event.in_context) for event in told] == [("Hello", True), ("Hi", True)]  # type: ignore[union-attr]
    assert (told[0].author_kind, told[1].agent) == ("person", "sub")  # type: ignore[union-attr]
