"""Graphs of LangGraph over the log: what they get back, and what the log tells of them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import Command

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from tests.frameworks.langgraph_graphs import (
    ASKED,
    LATER,
    ONE,
    TOLD,
    Talk,
    crew,
    fan_out,
    model,
    said,
    talking,
)


def words(log: Log, name: str = "one", *, hidden: bool = False) -> list[tuple[str, str]]:
    """Return authors and words of entries in context, or hidden ones, and tool cards with their results."""
    return [
        (item.author, f"{item.call.name}: {item.output[0].text}" if item.call and item.output else item.text)  # type: ignore[union-attr]
        for item in log[name].timeline()
        if item.kind in ("message", "tool")
        and item.hidden is hidden
        and not item.text.startswith(("interrupted: ", "resumed: ", "error: "))
    ]


def test_a_state_comes_back_as_it_was_and_its_messages_are_told(log: Log) -> None:
    app = talking(LangGraphSaver(log))

    state = app.invoke(ASKED, ONE)

    assert app.get_state(ONE).values == state
    assert words(log) == TOLD
    assert log["one"].state().anomalies == 0


def test_what_it_gives_back_is_what_the_saver_of_langgraph_gives_back(log: Log) -> None:
    ours, theirs = LangGraphSaver(log), InMemorySaver()
    for saver in (ours, theirs):
        app = talking(saver)
        app.invoke(ASKED, ONE)
        app.invoke(LATER, ONE)

    assert [without_chance(made) for made in ours.list(ONE)] == [
        without_chance(made) for made in theirs.list(ONE)
    ]


def without_chance(made: CheckpointTuple) -> Any:
    """Return a checkpoint without what LangGraph draws by chance: the ids of checkpoints and tool results."""
    values = dict(made.checkpoint["channel_values"])
    values["messages"] = [(type(m).__name__, m.content) for m in values.get("messages", ())]
    written = [(channel, type(value)) for _, channel, value in made.pending_writes or ()]
    return made.metadata, values, written


def test_a_request_can_be_built_from_what_was_told(log: Log) -> None:
    talking(LangGraphSaver(log)).invoke(ASKED, ONE)
    log["one"].append(stenolog.UserMessage(text="Thanks!"))

    request = log["one"].request("assistant", api="openai-chat")
    roles = [message["role"] for message in request.body["messages"]]

    assert request.ready
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_an_interrupted_graph_goes_on_in_another_process_with_the_file_alone(tmp_path: Path) -> None:
    may = {"messages": [HumanMessage("May I?", id="q1")]}
    with stenolog.open(tmp_path / "a.db") as log:
        asked = talking(LangGraphSaver(log)).invoke(may, ONE)
    with stenolog.open(tmp_path / "a.db") as log:
        app = talking(LangGraphSaver(log))
        before = app.get_state(ONE)
        state = app.invoke(Command(resume="yes"), ONE)

        assert [pause.value for pause in asked["__interrupt__"]] == ["Sure?"]
        assert (before.next, [pause.value for pause in before.interrupts]) == (("tools",), ["Sure?"])
        assert said(state)[-1] == "I know: yes."
        assert words(log)[-2:] == [("assistant", "ask: yes"), ("assistant", "I know: yes.")]


async def test_an_async_graph_is_served_as_well(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    await app.ainvoke(ASKED, ONE)
    history = [state.values async for state in app.aget_state_history(ONE)]
    now = (await app.aget_state(ONE)).values

    assert history[0] == now
    assert words(log) == TOLD


def test_a_fork_in_the_past_hides_what_came_after_it_and_loses_nothing(log: Log) -> None:
    saver = LangGraphSaver(log)
    app = talking(saver)
    app.invoke(ASKED, ONE)
    app.invoke(LATER, ONE)
    past = next(state for state in app.get_state_history(ONE) if len(state.values["messages"]) == 5)

    app.invoke({"messages": [HumanMessage("Or then?", id="q3")]}, past.config)

    assert words(log) == [*TOLD, ("user", "Or then?"), *TOLD[1:]]
    assert words(log, hidden=True) == [("user", "And now?"), *TOLD[1:]]
    ends = [said(end.checkpoint["channel_values"])[5] for end in saver.branches("one")]
    assert ends == ["Or then?", "And now?"]


def test_a_message_that_was_changed_is_told_as_an_edit_and_one_that_was_removed_is_hidden(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(ASKED, ONE)

    app.update_state(ONE, {"messages": [HumanMessage("Where was it?", id="q1"), RemoveMessage("answer-q1")]})

    assert words(log) == [("user", "Where was it?"), *TOLD[1:-1]]
    assert words(log, hidden=True) == TOLD


def test_a_changed_message_that_is_changed_back_is_in_context_again(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(ASKED, ONE)
    first = app.get_state(ONE).config
    app.update_state(ONE, {"messages": [HumanMessage("Where was it?", id="q1")]})

    app.update_state(first, {"looked": ["again"]})

    assert words(log) == TOLD
    assert words(log, hidden=True) == [*TOLD[1:], ("user", "Where was it?")]


def test_a_subgraph_speaks_as_the_node_that_it_is_and_is_told_once(log: Log) -> None:
    saver = LangGraphSaver(log)
    app = crew(saver)

    app.invoke(ASKED, ONE)

    assert [author for author, _ in words(log)] == ["user", *["researcher"] * 4, "writer"]
    spaces = {made.config["configurable"]["checkpoint_ns"].split(":")[0] for made in saver.list(ONE)}
    assert spaces == {"", "researcher"}


def put_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a graph's first state after the last of the graph in it, as LangGraph's threads may do."""
    put, inner_is_saved = LangGraphSaver.put, Event()

    def late(self: LangGraphSaver, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        is_inner = bool(config["configurable"].get("checkpoint_ns"))
        if not is_inner and metadata["step"] == 0:
            assert inner_is_saved.wait(30)
        done = put(self, config, checkpoint, metadata, versions)
        if is_inner and metadata["step"] == 1:
            inner_is_saved.set()
        return done

    monkeypatch.setattr(LangGraphSaver, "put", late)


@pytest.mark.parametrize("is_inner_first", [False, True])
def test_what_only_a_subgraph_was_told_is_in_the_timeline_and_in_no_request_of_the_main_agent(
    log: Log, monkeypatch: pytest.MonkeyPatch, is_inner_first: bool
) -> None:
    if is_inner_first:
        put_late(monkeypatch)
    inner = StateGraph(Talk)
    inner.add_node("think", lambda state: {"messages": [AIMessage("a thought", id="t")]})
    inner.add_edge(START, "think")
    helper: Any = inner.compile()

    def asking(state: Talk) -> dict[str, Any]:
        thoughts = helper.invoke({"messages": [HumanMessage("a brief", id="b")]})["messages"]
        return {"messages": [AIMessage(f"I had {thoughts[-1].content}.", id="a")]}

    app = talking(LangGraphSaver(log), asking)
    app.invoke(ASKED, ONE)
    private = [entry.event for entry in log["one"].entries() if not entry.event.in_context]  # type: ignore[union-attr]
    private_words = [(event.kind, event.text) for event in private]  # type: ignore[union-attr]
    before = log["one"].request("assistant", api="openai-chat").body["messages"]
    app.update_state(ONE, {"messages": [AIMessage("a thought", id="t")]})
    adopted = log["one"].request("assistant", api="openai-chat").body["messages"]

    assert private_words == [("user_message", "a brief"), ("assistant_message", "a thought")]
    assert private[0].author_kind == "agent"  # type: ignore[union-attr]
    assert [m["content"] for m in before[:-1]] == ["Where is it?", "I had a thought."]
    assert "a thought" in adopted[2]["content"]


def test_nobody_waits_for_a_model_once_a_graph_whose_messages_name_their_agent_has_answered(log: Log) -> None:
    def named(state: Talk) -> dict[str, Any]:
        return {"messages": [AIMessage("Sunny.", name="weatherman", id=f"a{len(state['messages'])}")]}

    app = talking(LangGraphSaver(log), named)
    for asked in (ASKED, LATER):
        app.invoke(asked, ONE)

    lanes = {where: lane.status for where, lane in log["one"].state().lanes.items()}
    assert (lanes, log["one"].settings().members) == ({"weatherman": "idle"}, ("weatherman",))


def test_tasks_at_once_all_write_and_a_failed_one_is_run_again_alone(log: Log) -> None:
    app = fan_out(LangGraphSaver(log))
    subjects = [f"cat {n}" for n in range(8)]

    state = app.invoke({"subjects": subjects}, ONE)

    assert state["jokes"] == [f"A joke about {one}" for one in subjects]
    assert app.get_state(ONE).values == state


def test_what_a_finished_task_wrote_is_not_asked_for_again_after_a_failure(log: Log) -> None:
    runs: list[str] = []

    def failing(state: Talk) -> dict[str, Any]:
        runs.append(type(state["messages"][-1]).__name__)
        if len(runs) == 2:
            raise OSError("gone")
        return model(state)

    app = talking(LangGraphSaver(log), failing)
    with pytest.raises(OSError, match="gone"):
        app.invoke(ASKED, ONE)
    app.invoke(None, ONE)

    assert runs == ["HumanMessage", "ToolMessage", "ToolMessage"]
    assert words(log) == TOLD


def test_of_two_invocations_at_once_both_are_in_the_log_and_both_ends_are_found(log: Log) -> None:
    begun, together = Barrier(2), Barrier(2)

    class FromTheSame(LangGraphSaver):
        """Each invocation has read where the thread stands before the other writes."""

        def get_tuple(self, config: Any) -> CheckpointTuple | None:
            found = super().get_tuple(config)
            if found is None:
                begun.wait(10)
            return found

    saver = FromTheSame(log)

    def slow(state: Talk) -> dict[str, Any]:
        if isinstance(state["messages"][-1], HumanMessage):
            together.wait(10)
        return model(state)

    app = talking(saver, slow)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda asked: app.invoke(asked, ONE), [ASKED, LATER]))

    told = words(log) + words(log, hidden=True)
    assert sorted(text for author, text in told if author == "user") == ["And now?", "Where is it?"]
    assert len([text for _, text in told if text.startswith("I know")]) == 2
    ends = saver.branches("one")
    assert {said(end.checkpoint["channel_values"])[0] for end in ends} == {"And now?", "Where is it?"}


def test_a_clock_that_runs_ahead_loses_no_turn(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    app, now = talking(LangGraphSaver(log)), time.time_ns
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", lambda: now() + 3600 * 10**9)
        app.invoke(ASKED, ONE)
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)  # as in another process
    state = app.invoke(LATER, ONE)

    assert said(state)[0] == "Where is it?"
    assert len(app.get_state(ONE).values["messages"]) == 10


def test_a_copy_is_a_fork_of_the_conversation_and_outlives_its_source(log: Log) -> None:
    saver = LangGraphSaver(log)
    talking(saver).invoke(ASKED, ONE)
    two: Any = {"configurable": {"thread_id": "two"}}
    before = log["one"].position

    saver.copy_thread("one", "two")
    saver.delete_thread("one")
    state = talking(saver).invoke(LATER, two)

    assert (log["one"].position, next(log["two"].entries(before)).event.fork) == (before + 1, True)  # type: ignore[union-attr]
    assert said(state)[0] == "Where is it?"
    assert (saver.get_tuple(ONE), log.names()) == (None, ["two"])
    assert [made.config["configurable"]["thread_id"] for made in saver.list(None, limit=1)] == ["two"]


def test_a_thread_that_is_deleted_while_a_copy_lives_is_empty_and_may_be_used_again(log: Log) -> None:
    saver = LangGraphSaver(log)
    app = talking(saver)
    app.invoke(ASKED, ONE)
    saver.copy_thread("one", "two")

    saver.delete_thread("one")
    left = log["one"].request("assistant", api="openai-chat").body["messages"]
    archived = log.names()
    state = app.invoke(ASKED, ONE)
    body = log["one"].request("assistant", api="openai-chat").body["messages"]

    assert ([m["content"] for m in left if "Where" in m["content"]], archived) == ([], ["two"])
    assert [m["content"] for m in body[:-1]] == said(state)
    assert sorted(log.names()) == ["one", "two"]


@pytest.mark.parametrize("id", [7, " padded ", "x" * 300, "a\nb", "half \ud800"])
def test_a_thread_may_have_any_id(log: Log, id: object) -> None:
    saver = LangGraphSaver(log)
    config: Any = {"configurable": {"thread_id": id}}

    talking(saver).invoke(ASKED, config)

    assert said(talking(saver).get_state(config).values)[0] == "Where is it?"
    assert {made.config["configurable"]["thread_id"] for made in saver.list(None)} == {
        str(id).encode(errors="backslashreplace").decode()
    }
    assert saver.conversation(id).position > 0


def test_a_message_without_an_id_and_one_that_json_cannot_hold_are_told_too(log: Log) -> None:
    def odd(state: Talk) -> dict[str, Any]:
        return {
            "messages": [AIMessage([{"type": "text", "text": "half \ud800"}, {"type": "odd", "x": {1, 2}}])]
        }

    talking(LangGraphSaver(log), odd).invoke(ASKED, ONE)

    assert words(log)[1][1] == "half ?"


def test_what_an_entrypoint_saves_is_told(log: Log) -> None:
    @entrypoint(checkpointer=LangGraphSaver(log))
    def bot(asked: list[Any], *, previous: Any = None) -> Any:
        return [*(previous or []), *asked, AIMessage(f"I heard {asked[0].content}")]

    for n in range(2):
        bot.invoke([HumanMessage(f"words {n}")], ONE)

    heard = [("user", "words 0"), ("assistant", "I heard words 0")]
    assert words(log) == [*heard, *((author, text.replace("0", "1")) for author, text in heard)]


def test_a_step_that_is_run_again_from_the_past_tells_its_call_anew_with_its_results(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke(ASKED, ONE)
    past = next(state for state in app.get_state_history(ONE) if state.next == ("tools",))

    state = app.invoke(None, past.config)

    outputs = [item for item in log["one"].timeline() if item.kind == "tool"]
    assert app.get_state(ONE).values == state
    assert [(item.hidden, item.call is None, item.output[0].text) for item in outputs] == [  # type: ignore[union-attr]
        (is_first, False, text)
        for is_first in (True, False)
        for text in ("a cat in the hat", "a cat in the box")
    ]
    assert (words(log), log["one"].state().anomalies) == (TOLD, 0)
