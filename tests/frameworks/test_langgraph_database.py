"""The database of a real SqliteSaver, imported: its threads as conversations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.checkpoint import sqlite
from langgraph.checkpoint.base import id as ids
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.contrib.plugins import langgraph
from stenolog.errors import UnknownFormatError
from stenolog.events import Entry
from stenolog.importers import IMPORTERS, import_file
from tests.frameworks.langgraph_graphs import ASKED, LATER, ONE, TOLD, crew, talking

TWO: Any = {"configurable": {"thread_id": "two"}}


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register the importer where this environment was installed before it had one."""
    if "langgraph" not in IMPORTERS:
        langgraph()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db", synchronous="normal") as log:
        yield log


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lg.sqlite"


@pytest.fixture
def old(file: Path) -> Iterator[Any]:
    with sqlite.SqliteSaver.from_conn_string(str(file)) as saver:
        yield saver


def words(log: Log, name: str = "one") -> list[tuple[str, str]]:
    """Return authors and words, and tool calls with their results."""
    return [
        (item.author, f"{item.call.name}: {item.output[0].text}" if item.call and item.output else item.text)  # type: ignore[union-attr]
        for item in log[name].timeline()
        if item.kind in ("message", "tool")
    ]


def test_each_thread_of_a_database_is_a_conversation(log: Log, old: Any, file: Path) -> None:
    talking(old).invoke(ASKED, ONE)
    talking(old).invoke(LATER, TWO)

    report = import_file(log, file)

    assert report.format == "langgraph"
    assert [(found.name, found.appended) for found in report.conversations] == [("one", 6), ("two", 6)]
    assert words(log) == TOLD
    assert log["one"].settings().members == ("assistant",)
    assert log["one"].request("assistant", at=5).ready


def test_a_message_has_the_time_of_the_checkpoint_that_it_was_written_at(
    log: Log, old: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)  # another test may have set LangGraph's clock ahead
    before = datetime.now(UTC) - timedelta(seconds=1)
    talking(old).invoke(ASKED, ONE)

    import_file(log, file)
    times = [entry.time for entry in log["one"].entries() if isinstance(entry, Entry)]

    assert all(before < at <= datetime.now(UTC) for at in times)
    assert times == sorted(times)


def test_a_message_that_was_written_as_a_tuple_has_the_time_of_the_first_checkpoint_that_has_it(
    log: Log, old: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)
    before = datetime.now(UTC) - timedelta(seconds=1)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [("ai", "Rain.")]})
    graph.add_edge(START, "model")
    app: Any = graph.compile(checkpointer=old)
    app.invoke({"messages": [("user", "What is the weather?")]}, ONE)
    between = datetime.now(UTC)
    app.invoke({"messages": [("user", "And tomorrow?")]}, ONE)

    import_file(log, file)
    times = {getattr(entry.event, "text", ""): entry.time for entry in log["one"].entries()}

    assert before < times["What is the weather?"] <= between
    assert times["And tomorrow?"] >= between - timedelta(milliseconds=1)


def test_a_database_that_has_grown_appends_what_is_new(log: Log, old: Any, file: Path) -> None:
    app = talking(old)
    app.invoke(ASKED, ONE)
    import_file(log, file)
    app.invoke(LATER, ONE)  # the saver still has it open: what is new is in its write-ahead log

    (again,) = import_file(log, file).conversations
    (unchanged,) = import_file(log, file).conversations

    assert (again.appended, again.already) == (5, 6)
    assert (unchanged.appended, unchanged.already) == (0, 11)
    assert len(words(log)) == 2 * len(TOLD)


def test_named_agents_join_also_those_that_come_later(log: Log, old: Any, file: Path) -> None:
    talking(old).invoke(ASKED, ONE)
    import_file(log, file)
    crew(old).invoke(LATER, ONE)

    import_file(log, file)

    assert log["one"].settings().members == ("assistant", "writer")
    assert words(log)[-1] == ("writer", "Written.")


def test_a_message_that_left_the_state_is_not_imported(log: Log, old: Any, file: Path) -> None:
    app = talking(old)
    app.invoke(ASKED, ONE)
    app.update_state(ONE, {"messages": [RemoveMessage(id="q1")]})

    import_file(log, file)

    assert words(log) == TOLD[1:]


class Order(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    bill: Any


BUILT: list[int] = []


@dataclass
class Bill:
    """A class of the graph's own, which no import may build."""

    total: int

    def __post_init__(self) -> None:
        BUILT.append(self.total)


def test_no_class_that_a_value_names_is_built(log: Log, old: Any, file: Path) -> None:
    graph: Any = StateGraph(Order)
    graph.add_node("pay", lambda state: {"messages": [AIMessage("Paid.", id="a1")], "bill": Bill(7)})
    graph.add_edge(START, "pay")
    graph.compile(checkpointer=old).invoke(ASKED, ONE)
    BUILT.clear()

    import_file(log, file)

    assert words(log) == [("user", "Where is it?"), ("assistant", "Paid.")]
    assert BUILT == []


def test_its_checkpoints_come_with_bring_into_another_thread(log: Log, old: Any, file: Path) -> None:
    talking(old).invoke(ASKED, ONE)
    import_file(log, file, name="for the eyes")

    LangGraphSaver(log).bring(old, "one")

    assert words(log) == words(log, "for the eyes") == TOLD


def test_a_checkpoint_that_is_damaged_is_told_and_stops_no_other_thread(
    log: Log, old: Any, file: Path
) -> None:
    talking(old).invoke(ASKED, ONE)
    talking(old).invoke(ASKED, TWO)
    old.conn.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'one'")
    old.conn.commit()

    one, two = import_file(log, file).conversations

    assert one.failed.startswith("its newest checkpoint cannot be read: ")
    assert two.appended == 6


def test_any_other_database_is_refused(log: Log, file: Path) -> None:
    import sqlite3

    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE checkpoints (id)")
    connection.close()

    with pytest.raises(UnknownFormatError, match="with the tables checkpoints"):
        import_file(log, file)


def test_a_database_is_recognised_without_langgraph() -> None:
    code = (
        "import sys; from stenolog.contrib.langgraph.database import LANGGRAPH;"
        "print(any(name.startswith(('langgraph', 'langchain')) for name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"
