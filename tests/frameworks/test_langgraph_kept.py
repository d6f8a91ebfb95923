"""How checkpoints are kept: exactly, once, in the clear only where that is wanted, and for good."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
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
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.types import Send

import stenolog
from stenolog import Log
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.errors import BlobNotFoundError, CallerError, CorruptLogError
from stenolog.importers import export_jsonl, import_file
from tests.file_bytes import words_in
from tests.frameworks.langgraph_graphs import growing, talking

ONE: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}

texts = st.text(max_size=8) | st.sampled_from(["long " * 60, "a\nb"])
messages = st.builds(HumanMessage, texts, id=texts) | st.builds(
    AIMessage,
    texts,
    tool_calls=st.lists(st.builds(lambda id: {"id": id, "name": "f", "args": {"n": 1}}, texts)),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=80)
    | st.uuids()
    | st.just(datetime(2026, 1, 2, tzinfo=UTC))
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars | messages,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts | st.integers(0, 9), inner, max_size=3)
        | st.sets(st.integers(0, 9), max_size=3)
        | st.builds(deque, st.lists(inner, max_size=3))
        | st.builds(Send, st.sampled_from(["a", "b"]), inner)
    ),
    max_leaves=12,
)


def holding(step: int, **values: Any) -> Checkpoint:
    """Return a checkpoint with these values in its channels, all of them new."""
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, step)}


def put(saver: Any, config: Any, checkpoint: Checkpoint, **metadata: Any) -> Any:
    return saver.put(config, checkpoint, {"source": "loop", **metadata}, checkpoint["channel_versions"])


@given(st.lists(st.dictionaries(st.sampled_from(["messages", "notes", "x"]), values, max_size=3), max_size=5))
def test_any_value_comes_back_as_the_serializer_would_give_it_back(states: list[dict[str, Any]]) -> None:
    with stenolog.open(":memory:") as log:
        ours, theirs = LangGraphSaver(log), InMemorySaver()
        for saver in (ours, theirs):
            config = ONE
            for step, state in enumerate(states, 1):
                config = put(saver, config, holding(step, **state))
                saver.put_writes(config, [("x", value) for value in state.values()], "task")
        again = LangGraphSaver(log)

        kept = [[_plain(made) for made in saver.list(ONE)] for saver in (ours, again, theirs)]

        assert kept[0] == kept[1] == kept[2]


def _plain(made: Any) -> str:
    pending = [(channel, value) for _, channel, value in made.pending_writes]
    return repr((made.checkpoint["channel_values"], pending)).replace("deque([], maxlen=None)", "deque([])")


def test_bytes_grow_with_what_is_said_and_not_with_its_square(tmp_path: Path) -> None:
    def size(turns: int) -> int:
        path = tmp_path / f"{turns}.db"
        with stenolog.open(path, synchronous="normal") as log:
            saver, config, said = LangGraphSaver(log), ONE, list[BaseMessage]()
            for turn in range(turns):
                said = [*said, AIMessage(f"{turn}" + "x" * 800, id=f"m{turn}")]
                config = put(saver, config, holding(turn + 1, messages=said))
        return os.path.getsize(path)

    assert size(200) < 4.2 * size(50)
    assert size(200) < 6 * 200 * 800


def test_a_thousand_messages_are_sent_to_many_tasks_without_being_kept_for_each(tmp_path: Path) -> None:
    said = [HumanMessage(f"{n}" + "x" * 800, id=f"m{n}") for n in range(300)]
    with stenolog.open(tmp_path / "a.db", synchronous="normal") as log:
        saver = LangGraphSaver(log)
        config = put(saver, ONE, holding(1, messages=said))
        before = len(log.blobs)
        for task in range(20):
            saver.put_writes(config, [("__pregel_tasks", Send("tools", {"messages": said}))], f"task {task}")
        found = saver.get_tuple(config)

        assert len(log.blobs) == before
        assert found is not None
        assert [value.arg["messages"] for _, _, value in found.pending_writes or ()] == [said] * 20


class Reverse(CipherProtocol):
    """Hides words from whoever does not look twice."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reverse", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_with_a_serializer_that_encrypts_nothing_is_told_and_no_word_stands_in_the_file(
    tmp_path: Path,
) -> None:
    said = HumanMessage("the open sesame", id="m1")
    state = {"messages": [said], "last": said, "note": said.content, "deep": {"in": [said]}}
    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log, serde=EncryptedSerializer(Reverse()))
        growing(saver).invoke({"messages": said}, {"configurable": {"thread_id": "delta"}})
        config = put(saver, ONE, holding(1, **state))
        saver.put_writes(config, [("delta", said), ("__pregel_tasks", Send("a", said))], "task")
        config = put(saver, config, holding(2, **state), counters_since_delta_snapshot={"delta": (1, 1)})
        found = saver.get_tuple(config)
        kinds = {entry.event.kind for name in log.names() for entry in log[name].entries()}

    assert found is not None
    assert (found.checkpoint["channel_values"], kinds) == (state, {"mode_switch"})
    assert b"sesame" not in words_in(tmp_path / "a.db")


def test_a_blob_that_is_gone_is_an_error_and_never_an_empty_state(log: Log) -> None:
    saver = LangGraphSaver(log)
    config = put(saver, ONE, holding(1, messages=[HumanMessage("hello", id="m1")]))
    with log.datastore.writing() as connection:
        connection.execute("DELETE FROM blobs")

    with pytest.raises(BlobNotFoundError):
        saver.get_tuple(config)


def test_what_others_keep_under_our_name_is_passed_over_and_damage_in_a_thread_is_named(log: Log) -> None:
    saver = LangGraphSaver(log)
    config = put(saver, ONE, holding(1))
    for name in ("lists", "checkpoint"):
        log[name].append(stenolog.ModeSwitch(meta={"langgraph": {name: "x"}}))
    found = [made.config for made in saver.list(None)]
    log["one"].append(stenolog.ModeSwitch(meta={"langgraph": {"checkpoint": None}}), expected=2)

    assert found == [config]
    for _ in range(2):
        with pytest.raises(CorruptLogError, match=r"'one' at position 3: meta\.langgraph"):
            saver.get_tuple(ONE)


def test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(log: Log) -> None:
    saver, config = LangGraphSaver(log), ONE
    config = put(saver, config, holding(1, notes=["first"]))
    for note in ("second", "third"):
        saver.put_writes(config, [("notes", [note])], note)
        config = put(saver, config, holding(1))
    before = saver.get_delta_channel_history(config=config, channels=["notes"])

    saver.prune(["one"])

    assert saver.get_delta_channel_history(config=config, channels=["notes"]) == before
    assert before["notes"]["seed"] == ["first"]
    assert [value for _, _, value in before["notes"]["writes"]] == [["second"], ["third"]]
    assert len(list(saver.list(ONE))) == 1


def test_messages_in_a_delta_channel_are_rebuilt_and_told(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        app = growing(LangGraphSaver(log))
        for n in range(2):
            state = app.invoke({"messages": [HumanMessage(f"Where? {n}", id=f"q{n}")]}, ONE)
    with stenolog.open(tmp_path / "a.db") as log:
        again = growing(LangGraphSaver(log)).get_state(ONE).values
        told = [item.text for item in log["one"].timeline() if item.kind == "message" and not item.hidden]

    assert again == state
    assert told == [m.content for m in state["messages"] if m.type != "tool"]


def test_only_known_ways_of_pruning_are_taken() -> None:
    with stenolog.open(":memory:") as log, pytest.raises(CallerError, match="strategy: expected"):
        LangGraphSaver(log).prune(["one"], strategy="most")


def test_what_was_told_beside_the_graph_stays_in_context(log: Log) -> None:
    saver = LangGraphSaver(log)
    log["one"].append(stenolog.UserMessage(text="before"))
    config = put(saver, ONE, holding(1, messages=[SystemMessage("be kind", id="m0")]))
    log["one"].append(stenolog.UserMessage(text="beside"))
    put(saver, config, holding(2, messages=[ToolMessage("alone", tool_call_id="none", id="m1")]))

    shown = [item.text for item in log["one"].timeline() if item.text and not item.hidden]

    assert shown == ["before", "beside", "alone"]


def test_two_savers_on_one_file_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(name: str) -> None:
        with stenolog.open(tmp_path / "a.db", synchronous="normal") as log:
            saver, config = LangGraphSaver(log), ONE
            for n in range(25):
                config = put(saver, config, holding(n + 1, messages=[HumanMessage(name, id=f"{name}{n}")]))
                saver.put_writes(config, [("notes", n)], name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ["a", "b"]))

    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log)
        made = list(saver.list(ONE))
        told = [item.text for item in log["one"].timeline() if item.kind == "message"]

        assert [len(one.pending_writes or ()) for one in made] == [1] * 50
        assert sorted(told) == ["a"] * 25 + ["b"] * 25
        assert len(saver.branches("one")) == 2


def test_without_its_package_the_error_is_the_line_that_installs_it() -> None:
    program = (
        "import sys; sys.modules['langgraph'] = None\n"
        "try: from stenolog.contrib.langgraph import LangGraphSaver\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == 'langgraph-checkpoint is not installed: pip install "stenolog[langgraph]"\n'


def test_a_thread_is_exported_and_imported_with_its_checkpoints(tmp_path: Path) -> None:
    conversation = tmp_path / "talk.jsonl"
    with stenolog.open(tmp_path / "a.db") as log:
        app = talking(LangGraphSaver(log))
        state = app.invoke({"messages": [HumanMessage("Where?", id="q1")]}, ONE)
        with conversation.open("w", encoding="utf-8") as stream:
            export_jsonl(log["one"], stream)
    with stenolog.open(tmp_path / "b.db") as log:
        import_file(log, conversation)

        assert talking(LangGraphSaver(log, trust_imported=["one"])).get_state(ONE).values == state


def test_checkpoints_whose_parents_go_in_a_circle_are_each_an_ancestor_once(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log)
        for id, parent in (("a", "b"), ("b", "a")):
            above: Any = {"configurable": {**ONE["configurable"], "checkpoint_id": parent}}
            saver.put(above, {**holding(1, v=id), "id": id}, {}, {"v": 1})

        history = saver.get_delta_channel_history(config=ONE, channels=["other", "v"])

        assert history["other"] == {"writes": []}
        assert history["v"]["seed"] == "a"


def test_a_filter_with_dots_looks_into_nested_metadata(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log)
        kept: list[dict[str, Any]] = [{"user": {"id": "ann"}}, {"user.id": "ann"}, {"user": "ann"}]
        for step, metadata in enumerate(kept):
            put(saver, ONE, holding(step), step=step, **metadata)

        assert [found.metadata["step"] for found in saver.list(ONE, filter={"user.id": "ann"})] == [1, 0]


def test_an_empty_checkpoint_id_asks_for_the_latest(tmp_path: Path) -> None:
    empty: Any = {"configurable": {**ONE["configurable"], "checkpoint_id": ""}}
    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log)
        put(saver, put(saver, ONE, holding(1, v="x" * 300)), holding(2))

        assert saver.get_tuple(empty) == saver.get_tuple(ONE) is not None
        assert len(list(saver.list(empty))) == len(list(saver.list(ONE, before=empty))) == 2
        assert saver.get_delta_channel_history(config=empty, channels=["v"])["v"]["seed"] == "x" * 300
