"""A saver that loses nothing: killed processes, damage, and the official tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.agents import AgentAction
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.spec import __path__ as suites
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    JsonPlusSerializer,
)
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel

import stenolog
from stenolog import Log, ModeSwitch, UserMessage
from stenolog.contrib.crewagent import export_crewagent
from stenolog.contrib.langgraph import LangGraphSaver
from stenolog.errors import CallerError, CorruptLogError, InvalidEventError
from stenolog.importers import export_jsonl, import_file
from tests.examples.harness import ROOT, clean
from tests.frameworks.langgraph_graphs import ONE, talking
from tests.frameworks.langgraph_killed import CONFIG, TURNS

GIFT: Any = {"configurable": {"thread_id": "gift"}}
ASKED: Any = {"messages": [HumanMessage("Hello")]}


@dataclass
class Own:
    word: str


def naming(module: str, name: str, arg: object, code: int = EXT_CONSTRUCTOR_SINGLE_ARG) -> bytes:
    """Return a value that names a callable, as the serializer writes one."""
    more = ["execute"] if code == EXT_METHOD_SINGLE_ARG else []
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb([module, name, arg, *more])))


def hostile(mark: Path) -> list[list[str]]:
    """Return values that make the file `mark` if they are revived without care: kind and base64."""
    command = f"touch {mark}"
    inside = naming("os", "system", command)
    values = [
        ("msgpack", inside),
        ("msgpack", naming("os", "system", [command], EXT_CONSTRUCTOR_POS_ARGS)),
        ("msgpack", naming("subprocess", "run", command, EXT_METHOD_SINGLE_ARG)),
        ("msgpack", ormsgpack.packb(ormsgpack.Ext(EXT_DELTA_SNAPSHOT, inside))),
        ("msgpack", ormsgpack.packb({"deep": [ormsgpack.Ext(0, inside)]})),
        (
            "json",
            json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "args": [command]}).encode(),
        ),
        ("pickle", b"cos\nsystem\n(S'" + command.encode() + b"'\ntR."),
    ]
    return [[kind, b64encode(content).decode()] for kind, content in values]


def hold(log: stenolog.Log, value: list[str]) -> None:
    """Write a thread with one checkpoint, whose parts are all this value."""
    ref: Any = {"i": value}
    kept: Any = {
        "checkpoint": ref,
        "ns": "",
        "id": "1ef0",
        "parent": "",
        "values": {"messages": ref},
        "metadata": ref,
    }
    log["gift"].append(ModeSwitch(mode="agent", meta={"langgraph": {"thread": "gift"}}))
    log["gift"].append(ModeSwitch(meta={"langgraph": kept}), expected=1)


def gift(folder: Path, fill: Any) -> Path:
    """Return an export of a foreign log's conversation."""
    with stenolog.open(folder / "foreign.db") as log:
        fill(log)
        with (folder / "gift.jsonl").open("w") as stream:
            export_jsonl(log["gift"], stream)
    return folder / "gift.jsonl"


@pytest.mark.parametrize("number", range(7))
def test_no_code_runs_whatever_a_value_in_the_log_names(number: int, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with stenolog.open(tmp_path / "a.db") as log:
        hold(log, hostile(mark)[number])
        saver = LangGraphSaver(log)
        with pytest.raises((CallerError, CorruptLogError)):
            saver.get_tuple(GIFT)
        with pytest.raises((CallerError, CorruptLogError)):
            list(saver.list(None))

    assert not mark.exists()


def test_a_value_that_is_nested_without_end_is_damage(tmp_path: Path) -> None:
    value = ormsgpack.packb("end")
    for _ in range(5000):
        value = ormsgpack.packb(ormsgpack.Ext(EXT_DELTA_SNAPSHOT, value))
    with stenolog.open(tmp_path / "a.db") as log:
        hold(log, ["msgpack", b64encode(value).decode()])

        with pytest.raises(CorruptLogError):
            LangGraphSaver(log).get_tuple(GIFT)


@pytest.mark.parametrize("serde", [None, JsonPlusSerializer(allowed_msgpack_modules=True)])
def test_an_imported_checkpoint_is_never_read(serde: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    file = gift(tmp_path, lambda log: hold(log, hostile(mark)[0]))
    with stenolog.open(tmp_path / "a.db") as log:
        import_file(log, file)
        log["gift"].fork(name="copy")
        saver = LangGraphSaver(log, serde=serde)
        talking(saver).invoke(ASKED, {"configurable": {"thread_id": "mine"}})

        assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == {"mine"}
        for name in ("gift", "copy"):
            config: Any = {"configurable": {"thread_id": name}}
            with pytest.raises(CallerError, match="imported from a file"):
                saver.get_tuple(config)
            with pytest.raises(CallerError, match="imported from a file"):
                list(saver.list(config))
            with pytest.raises(CallerError, match="imported from a file"):
                talking(saver).invoke(ASKED, config)
    assert not mark.exists()


def test_a_checkpoint_that_an_import_adds_to_a_thread_of_ones_own_is_not_the_latest(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    ref: Any = {"i": hostile(mark)[0]}

    def answer(log: stenolog.Log) -> None:
        import_file(log, tmp_path / "own.jsonl")
        kept: Any = {"checkpoint": ref, "ns": "", "id": "zz", "parent": "", "values": {}, "metadata": ref}
        conversation = log["gift"]
        conversation.append(ModeSwitch(meta={"langgraph": kept}), expected=conversation.position)

    with stenolog.open(tmp_path / "a.db") as log:
        talking(LangGraphSaver(log)).invoke(ASKED, GIFT)
        before = LangGraphSaver(log).get_tuple(GIFT)
        with (tmp_path / "own.jsonl").open("w") as stream:
            export_jsonl(log["gift"], stream)
        import_file(log, gift(tmp_path, answer))

        assert LangGraphSaver(log).get_tuple(GIFT) == before
    assert not mark.exists()


def test_a_file_of_another_format_brings_no_checkpoint_either(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with stenolog.open(tmp_path / "foreign.db") as log:
        hold(log, hostile(mark)[0])
        log["gift"].append(UserMessage(text="Hello"))
        file = export_crewagent(log["gift"], tmp_path / "crewagent")
    with stenolog.open(tmp_path / "a.db") as log:
        (found,) = import_file(log, file).conversations

        assert any("langgraph" in getattr(entry.event, "meta", {}) for entry in log[found.name].entries())
        with pytest.raises(CallerError, match="imported from a file"):
            LangGraphSaver(log).get_tuple({"configurable": {"thread_id": found.name}})


def test_the_owner_may_trust_an_imported_thread_by_name(tmp_path: Path) -> None:
    file = gift(tmp_path, lambda log: talking(LangGraphSaver(log)).invoke(ASKED, GIFT))
    with stenolog.open(tmp_path / "a.db") as log:
        import_file(log, file)
        app = talking(LangGraphSaver(log, trust_imported=["gift"]))
        app.invoke(ASKED, GIFT)

        assert len(app.get_state(GIFT).values["messages"]) > 2
        with pytest.raises(CallerError, match=r"trust_imported=\['gift'\]"):
            LangGraphSaver(log, trust_imported=["other"]).get_tuple(GIFT)


THREAD: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}


def put(saver: LangGraphSaver, value: object) -> CheckpointTuple:
    """Return the saver's copy of a state with this value."""
    checkpoint = {**empty_checkpoint(), "channel_values": {"v": value}, "channel_versions": {"v": 1}}
    config = saver.put(THREAD, checkpoint, {}, {"v": 1})  # type: ignore[arg-type]
    found = saver.get_tuple(config)
    assert found is not None
    return found


def test_a_class_that_nothing_names_is_stored_with_a_warning_and_a_later_saver_asks_for_it(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    dotted = f"{Own.__module__}.Own"
    saver = LangGraphSaver(log)

    assert put(saver, {"in": [Own("a")]}).checkpoint["channel_values"]["v"] == {"in": [Own("a")]}
    assert f"allow=['{dotted}']" in caplog.text
    with pytest.raises(CallerError, match=r"test_langgraph_safe\.Own.*allow="):
        LangGraphSaver(log).get_tuple(THREAD)
    for allow in ([Own], [(Own.__module__, "Own")], [dotted], Own, dotted):
        assert LangGraphSaver(log, allow=allow).get_tuple(THREAD) == saver.get_tuple(THREAD)
    with pytest.raises(CallerError, match="serde"):
        LangGraphSaver(log, serde=JsonPlusSerializer(), allow=[Own])


class Plan(BaseModel):
    steps: list[str] = []


class State(TypedDict):
    plans: Annotated[list[Plan | None], "the newest last"]
    own: Own


def test_a_schema_of_a_graph_allows_the_classes_that_it_names(log: Log) -> None:
    state = {"plans": [Plan(steps=["x"])], "own": Own("a")}

    assert put(LangGraphSaver(log, allow=[State]), state).checkpoint["channel_values"]["v"] == state


def test_a_graph_is_compiled_with_the_classes_of_its_schema_and_another_process_reads_them(log: Log) -> None:
    graph = StateGraph(State).add_node("plan", lambda state: {"plans": [Plan(steps=["x"])], "own": Own("a")})
    graph.add_edge(START, "plan")
    begin: Any = {}
    graph.compile(checkpointer=LangGraphSaver(log)).invoke(begin, THREAD)

    with pytest.raises(CallerError, match="allow="):
        LangGraphSaver(log).get_tuple(THREAD)
    later = graph.compile(checkpointer=LangGraphSaver(log))
    assert later.get_state(THREAD).values == {"plans": [Plan(steps=["x"])], "own": Own("a")}


def test_values_of_langchains_agents_need_no_allow(log: Log) -> None:
    action = AgentAction("look", {"at": 1}, "I look.")

    assert put(LangGraphSaver(log), [action]).checkpoint["channel_values"]["v"] == [action]


def test_types_of_langgraph_itself_come_back_as_they_were(tmp_path: Path) -> None:
    values: list[Any] = [
        AIMessage("a", tool_calls=[{"id": "1", "name": "f", "args": {}}]),
        RemoveMessage(id="1"),
        Send("node", {"messages": [HumanMessage("b")]}),
        Command(goto="node", update={"x": 1}, resume="yes"),
        Interrupt("sure?", id="2"),
        Overwrite([1]),
    ]
    with stenolog.open(tmp_path / "a.db") as log:
        saver = LangGraphSaver(log)

        assert put(saver, values).checkpoint["channel_values"]["v"] == values
        for value in values:
            assert put(saver, value).checkpoint["channel_values"]["v"] == value


@pytest.mark.parametrize("allow", [["Invoice"], "Invoice", [7], [("agent",)], [""]])
def test_what_allow_cannot_mean_is_refused_when_the_saver_is_made(log: Log, allow: Any) -> None:
    with pytest.raises(CallerError, match=r"allow: expected classes or their names, .* found "):
        LangGraphSaver(log, allow=allow)


def test_an_erasure_of_words_that_checkpoints_hold_is_refused_before_anything_is_written(log: Log) -> None:
    app = talking(LangGraphSaver(log))
    app.invoke({"messages": [HumanMessage("My name is zebraquagga.")]}, ONE)
    own = log["one"].append(UserMessage(text="Written by hand."))
    said = [entry for entry in log["one"] if "langgraph" in getattr(entry.event, "meta", {})]
    messages = [entry for entry in said if not isinstance(entry.event, ModeSwitch)]
    before = log["one"].position

    for entry in messages:
        with pytest.raises(InvalidEventError, match=r"checkpoints hold these words.*delete the whole"):
            log["one"].erase(own.position, entry.position)

    assert messages
    assert log["one"].position == before
    assert log["one"].erase(own.position).positions == (own.position,)


def test_the_official_conformance_suite_passes_in_full(tmp_path: Path) -> None:
    made = iter(range(100))

    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        with stenolog.open(tmp_path / f"{next(made)}.db", synchronous="normal") as log:
            yield LangGraphSaver(log)

    report = asyncio.run(validate(checkpointer_test(name="stenolog")(saver)))

    assert {name: result.failures for name, result in report.results.items()} == {
        capability.value: [] for capability in Capability
    }
    assert [result.tests_skipped for result in report.results.values()] == [0] * len(Capability)
    assert all(result.tests_passed >= 5 for result in report.results.values())
    assert len(list(Path(suites[0]).glob("test_*.py"))) == len(Capability)


def started(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.frameworks.langgraph_killed", str(path)], cwd=ROOT)


def dies(path: Path, within: float) -> bool:
    """Kill the program `within` seconds after it has opened the file; whether it was still at work."""
    process = started(path)
    wal = path.with_name(f"{path.name}-wal")
    while not wal.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(within)
    process.kill()
    return process.wait() != 0


def ended(path: Path) -> tuple[list[str], list[str]]:
    """Return the words of the graph's last state, and those that the log tells."""
    with stenolog.open(path) as log:
        found = LangGraphSaver(log).get_tuple(CONFIG)
        assert found is not None
        told = [
            item for item in log["talk"].timeline() if item.kind in ("message", "tool") and not item.hidden
        ]
        words = [item.text for item in told if item.text and item.call is None]
        return [m.content for m in found.checkpoint["channel_values"]["messages"]], words


@pytest.mark.slow
def test_a_graph_that_is_killed_at_any_instant_ends_as_one_that_was_not(tmp_path: Path) -> None:
    path, chance = tmp_path / "talk.db", Random(5)

    kills = sum(dies(path, chance.uniform(0.02, 0.35)) for _ in range(5))
    assert started(path).wait() == 0

    state, told = ended(path)
    looked = ["a cat in the hat", "a cat in the box"]
    answered = ["Let me see.", *looked, "I know: a cat in the box."]
    assert kills >= 3
    assert state == [words for turn in range(TURNS) for words in (f"Where is {turn}?", *answered)]
    assert told == [words for words in state if words not in looked]
    clean(path)
