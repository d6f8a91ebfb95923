"""Bookmarks: a fresh process goes on with a request, and makes the very request that the whole log gives."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    ImagePart,
    ModeSwitch,
    PositionRange,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.queries import window_cache
from stenolog.adapters.store import reader
from stenolog.context import Transforms
from stenolog.domain.errors import AgentNotFoundError, UnsupportedVersionError
from stenolog.domain.parts import TextPart, ToolCall
from stenolog.domain.registry import Registry
from stenolog.projections.requests import APIS, Api, build
from stenolog.projections.requests.incremental import session
from stenolog.projections.requests.pipeline import attribution
from stenolog.projections.requests.pipeline.prompt import Prefix
from stenolog.projections.requests.request import Message, Rendered
from tests.requests.histories import BLOBS, history

CALLS = [ToolCall(id="a", name="look", arguments='{"at": 1}'), ToolCall(id="b", name="read", arguments="{}")]
TURN: tuple[Event, ...] = (
    UserMessage(text="Which test fails?"),
    AssistantMessage(agent="coder", tool_calls=CALLS),
    ToolResult(call_id="a", name="look", text="one"),
    ToolResult(call_id="b", name="read", text="two"),
    AssistantMessage(agent="coder", text="This one."),
)
BEFORE = ModeSwitch(cards={"coder": AgentCard(persona="You write code.")}, joins=["coder"])


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages are enough for a bookmark, and few units to be let go of."""
    monkeypatch.setattr(window_cache, "NEAR", 2)
    monkeypatch.setattr(session, "SHED", 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with a conversation of 60 turns, closed."""
    path = tmp_path / "log.db"
    said(path, BEFORE, *TURN * 60)
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """Every entry that is decoded."""
    seen: list[Entry] = []
    decoded = reader._decoded

    def watched(*asked: Any) -> Iterator[Entry]:
        for entry in decoded(*asked):
            seen.append(entry)
            yield entry

    monkeypatch.setattr(reader, "_decoded", watched)
    return seen


def said(path: Path, *events: Event, api: str = "openai-chat") -> None:
    """Say something, ask for the request, and leave."""
    with stenolog.open(path, synchronous="normal") as log:
        conversation = log["talk"]
        conversation.extend(events, expected=conversation.position)
        conversation.request("coder", api=api)


def check(path: Path, api: str = "openai-chat") -> None:
    """The request of a fresh process is that of the whole log, with its explanation."""
    with stenolog.open(path, synchronous="normal") as log:
        made = log["talk"].request("coder", api=api)
        assert made == build(list(log["talk"].entries()), "coder", api=api, blobs=log.blobs)
        assert made.receipt == build(list(log["talk"].entries()), "coder", api=api, blobs=log.blobs).receipt


def test_a_fresh_process_reads_the_end_alone(path: Path, read: list[Entry]) -> None:
    with stenolog.open(path, synchronous="normal") as log:
        log["talk"].append(UserMessage(text="And now?"))
        request = log["talk"].request("coder")
        assert len(read) <= 5
        assert len(request.body["messages"]) == 1 + 300 + 1
        assert request == build(list(log["talk"].entries()), "coder")


@pytest.mark.parametrize("api", APIS)
def test_on_each_wire_it_is_the_request_of_the_whole_log(path: Path, api: str) -> None:
    for events in ((), TURN[:1], TURN[1:3], TURN[3:4], TURN[4:], TURN * 3):
        said(path, *events, api=api)
        check(path, api)


@pytest.mark.parametrize(
    "event",
    [
        ModeSwitch(cards={"coder": AgentCard(persona="You write tests.")}),
        ModeSwitch(context_from=100),
        UserMessage(text="Which test, again?", replaces=2),
        AssistantMessage(
            agent="coder", purpose="summary", text="So far", covers=[PositionRange(first=2, last=51)]
        ),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c", name="unheard_of", arguments="{}")]),
        ToolResult(call_id="a", name="look", text="once more"),
        ToolResult(call_id="z", name="look", text="whose is this?"),
        UserMessage(parts=[TextPart(text="Look"), ImagePart(media_type="image/png", blob="0" * 64)]),
    ],
    ids=lambda event: event.kind,
)
def test_what_changes_the_past_changes_the_request_of_a_fresh_process(path: Path, event: Event) -> None:
    said(path, event)
    check(path)
    said(path, *TURN)
    check(path)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_was_said_between_two_processes_nothing_differs(seed: int, tmp_path: Path) -> None:
    path, random, api = tmp_path / "log.db", Random(seed), [*APIS][seed % len(APIS)]
    events = [entry.event for entry in history(seed, longest=40)]
    said(path, BEFORE, api=api)
    with stenolog.open(path) as log:
        for blob in BLOBS.values():
            log.blobs.put(blob)
    while events:
        batch = [events.pop(0) for _ in range(random.randint(1, len(events)))]
        try:
            said(path, *batch, api=api)
            check(path, api)
        except (UnsupportedVersionError, AgentNotFoundError):
            return


def test_the_words_of_a_conversation_that_is_deleted_go_with_it(path: Path) -> None:
    said(path, UserMessage(text="my secret"), *TURN)
    with stenolog.open(path) as log:
        log["talk"].delete()
    with closing(sqlite3.connect(f"{path}-bookmarks")) as kept:
        assert kept.execute("SELECT count(*) FROM bookmarks").fetchone() == (0,)
    assert b"my secret" not in Path(f"{path}-bookmarks").read_bytes()


def test_nor_do_they_come_back_when_the_log_is_closed(path: Path) -> None:
    with stenolog.open(path) as log, stenolog.open(path) as elsewhere:
        for each in (log, elsewhere):
            each["talk"].append(UserMessage(text="my secret"))
            each["talk"].request("coder")
        log["talk"].delete()
    assert b"my secret" not in Path(f"{path}-bookmarks").read_bytes()


def test_a_wire_that_only_renders_gets_all_of_it(path: Path) -> None:
    def render(pieces: Sequence[Message], prefix: Prefix, blobs: Mapping[str, bytes]) -> Rendered:
        return Rendered({"said": len(pieces)}, ())

    with stenolog.open(path) as log:
        log["talk"].request("coder")
        log["talk"].request("coder")
        made = log["talk"].request("coder", api=Api("counted", 1, render))
        assert made.body == build(list(log["talk"].entries()), "coder", api=Api("counted", 1, render)).body


def test_pieces_that_another_process_has_left_are_not_taken_for_ones_own(path: Path) -> None:
    with stenolog.open(path, synchronous="normal") as one, stenolog.open(path, synchronous="normal") as other:
        for log in (one, other, one, other):
            log["talk"].extend(TURN)
            held_back = log["talk"].request("coder")
            assert held_back == build(list(log["talk"].entries()), "coder")
        one["talk"].append(
            ModeSwitch(cards={"coder": AgentCard(persona="You test.")}), expected=one["talk"].position
        )
        one["talk"].request("coder")
    check(path)


def test_a_policy_that_this_process_cannot_use_costs_time_alone(path: Path) -> None:
    with stenolog.open(path) as log:
        conversation = log["talk"]
        blotted = AgentCard(policy=Transforms(["blot@1"]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attribution, "TRANSFORMS", Registry("a transform"))
            attribution.register_transform("blot@1", "nothing")(lambda piece, entry: piece)
            conversation.append(ModeSwitch(cards={"coder": blotted}), expected=conversation.position)
            conversation.request("coder")
            log.close()
    with stenolog.open(path) as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(cards={"coder": AgentCard()}), expected=conversation.position)
    check(path)


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "another's", "locked"])
def test_a_file_that_cannot_be_used_costs_time_alone(path: Path, damage: str) -> None:
    file = Path(f"{path}-bookmarks")
    assert file.stat().st_size > 0
    match damage:
        case "gone":
            file.unlink()
        case "cut":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        case "flipped":
            whole = bytearray(file.read_bytes())
            at = whole.rindex(b"Which test")
            whole[at] ^= 1
            file.write_bytes(bytes(whole))
        case "another's":
            file.write_bytes(b"not a database at all" * 100)
        case _:
            with closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                check(path)
    check(path)


def test_a_log_in_memory_leaves_none() -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].extend([BEFORE, *TURN * 3], expected=0)
        assert log["talk"].request("coder").body["messages"]
