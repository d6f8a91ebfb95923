"""A new process goes on from the snapshot of a session, and sends what the whole log gives."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    Log,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.requests import token_counters
from stenolog.adapters.conversation.queries.requests.building import BuiltRequest
from stenolog.adapters.conversation.queries.requests.window_cache import windows_of
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.sidecar.checkpoints import CheckpointRun
from stenolog.context import Budget, MissedMessages, Reminder, SinceLastTurn
from stenolog.domain.policy import Policy, PolicyRule
from stenolog.events import PositionRange
from stenolog.parts import ImagePart
from stenolog.projections.messages.sizes import COUNTERS as ESTIMATES
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests import build
from stenolog.projections.requests.incremental import snapshot
from tests.requests.policies import SMALL

TURNS = 40


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SEGMENT", 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a log whose process asked for a request after each turn, and closed it."""
    found = tmp_path / "log.db"
    with stenolog.open(found, synchronous="normal") as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2")}, joins=["coder"]))
        for number in range(TURNS):
            turn(conversation, number)
            conversation.request("coder")
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the positions of the entries that are read."""
    found: list[int] = []
    whole = reader.entries

    def watched(*asked: object) -> Iterator[Entry]:
        for entry in whole(*asked):  # type: ignore[arg-type]
            found.append(entry.position)
            yield entry

    monkeypatch.setattr(reader, "entries", watched)
    return found


def turn(conversation: Conversation, number: int) -> None:
    call = ToolCall(id=f"c{number % 7}", name="look", arguments="{}")
    conversation.append(UserMessage(text=f"Question {number}"))
    conversation.append(AssistantMessage(agent="coder", tool_calls=[call]))
    conversation.append(ToolResult(call_id=call.id, text=f"Found {number}"))
    conversation.append(AssistantMessage(agent="coder", text=f"Answer {number}"))


def assert_whole(conversation: Conversation) -> None:
    """Compare the request with that of all entries, first as bytes."""
    request, whole = conversation.request("coder"), build([*conversation.entries()], "coder")
    assert request.bytes == whole.bytes
    assert request == whole
    assert request.receipt == whole.receipt


def test_a_new_process_reads_only_the_tail_of_a_whole_history(path: Path, read: list[int]) -> None:
    with stenolog.open(path) as log:
        log["talk"].append(UserMessage(text="And now?"))
        text = log["talk"].request("coder").bytes

        assert len(read) < 50
        assert text == build([*log["talk"].entries()], "coder").bytes
        assert b"Question 0" in text


def test_what_it_goes_on_with_is_what_the_whole_log_gives(path: Path) -> None:
    for number in range(TURNS, TURNS + 20):
        with stenolog.open(path, synchronous="normal") as log:
            assert_whole(log["talk"])
            turn(log["talk"], number)
            assert_whole(log["talk"])


def test_a_request_is_explained_from_the_log_when_it_is_asked(path: Path, read: list[int]) -> None:
    with stenolog.open(path) as log:
        request = log["talk"].request("coder")
        log["talk"].append(UserMessage(text="Later"))
        seen = len(read)

        assert {at for part in request.parts for at in part.positions} >= {2, TURNS * 4}
        assert len(read) > seen


def hide(conversation: Conversation) -> None:
    at = conversation.position
    conversation.append(ModeSwitch(hides=[PositionRange(first=2, last=5)]), expected=at)


def other_card(conversation: Conversation) -> None:
    card = AgentCard(model="gpt-5.2", persona="Be brief.")
    conversation.append(ModeSwitch(cards={"coder": card}), expected=conversation.position)


def summarise(conversation: Conversation) -> None:
    conversation.append(IN_SHORT)


IN_SHORT = AssistantMessage(
    agent="coder", purpose="summary", covers=[PositionRange(first=2, last=9)], text="In short."
)


def orphan(conversation: Conversation) -> None:
    conversation.append(ToolResult(call_id="c1", text="Once more"))


def edit(conversation: Conversation) -> None:
    conversation.append(UserMessage(text="Better so", replaces=2))


@pytest.mark.parametrize("change", [hide, other_card, summarise, orphan, edit])
def test_a_change_of_what_was_written_is_in_the_next_request(
    path: Path, change: Callable[[Conversation], object]
) -> None:
    with stenolog.open(path) as log:
        log["talk"].request("coder")
        change(log["talk"])
        assert_whole(log["talk"])
    with stenolog.open(path) as log:
        assert_whole(log["talk"])
        turn(log["talk"], TURNS)
        assert_whole(log["talk"])


@pytest.mark.parametrize("after", [TURNS * 4 + 1, 30])
def test_a_fork_goes_on_from_its_parents_snapshot_if_that_is_before_it(path: Path, after: int) -> None:
    with stenolog.open(path) as log:
        log["talk"].fork(after=after, name="fork")
    for number in range(12):
        with stenolog.open(path, synchronous="normal") as log:
            turn(log["fork"], number)
            assert_whole(log["fork"])
            assert_whole(log["talk"])


def beside(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}-checkpoints*"))


def words(log: Log) -> list[str]:
    key = log["talk"].key or 0
    return [name for name in log.checkpoints.names(key) if "session" in name or "segments" in name]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_erased_words_are_in_no_snapshot(path: Path, is_deleted: bool) -> None:
    with stenolog.open(path) as log:
        assert words(log)
        log["talk"].request("coder")
        if is_deleted:
            log["talk"].delete()
        else:
            log["talk"].erase(2, reason="asked")
            assert not words(log)
            assert b"Question 0" not in log["talk"].request("coder").bytes
    with stenolog.open(path) as log:
        if not is_deleted:
            assert_whole(log["talk"])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoints SET state = zeroblob(40) WHERE fold LIKE 'segments %' AND first = 1",
        "DELETE FROM checkpoints WHERE fold LIKE 'segments %' AND first = 1",
        "UPDATE checkpoints SET digest = zeroblob(32) WHERE fold LIKE 'session %'",
        "UPDATE checkpoints SET version = 'another' WHERE fold LIKE 'session %'",
        "UPDATE checkpoints SET version = 'another' WHERE fold LIKE 'segments %' AND first = 0",
    ],
)
def test_a_snapshot_that_is_damaged_foreign_or_of_another_release_is_not_used(
    path: Path, damage: str, read: list[int]
) -> None:
    with stenolog.open(path) as log:
        assert log.checkpoints.work(lambda connection: connection.execute(damage).rowcount)
        assert_whole(log["talk"])
        assert 2 in read
    with stenolog.open(path) as log:
        read.clear()
        log["talk"].request("coder")
        assert 2 not in read


@pytest.mark.parametrize("column", ["last", "digest", "changed", "state", "size", "sum"])
@pytest.mark.parametrize("fold", ["session", "segments"])
def test_a_snapshot_with_one_bit_flipped_is_not_used(
    path: Path, fold: str, column: str, read: list[int]
) -> None:
    with stenolog.open(path) as log:
        change = functools.partial(flip, fold=fold, column=column)
        assert log.checkpoints.work(change)
        request, seen = log["talk"].request("coder"), [*read]

        assert 2 in seen
        assert request == build([*log["talk"].entries()], "coder")


def test_a_segment_in_another_form_is_not_used(path: Path, read: list[int]) -> None:
    with stenolog.open(path) as log:
        key, version = log["talk"].key or 0, folds.rules_version()
        [name] = (name for name in words(log) if name.startswith("segments"))
        log.checkpoints.put(key, name, version, CheckpointRun(1, b"", ((1, b"{}"),)), thin=False)
        assert_whole(log["talk"])
        assert 2 in read


def flip(connection: sqlite3.Connection, fold: str, column: str) -> int:
    """Change one bit in a column of a snapshot's rows; return how many."""
    where = f"FROM checkpoints WHERE fold GLOB '{fold} *'"
    rows = connection.execute(f"SELECT fold, first, {column} {where}").fetchall()
    for name, first, value in rows:
        half = len(value) // 2 if isinstance(value, bytes) else 0
        other = (
            value[:half] + bytes([value[half] ^ 1]) + value[half + 1 :]
            if isinstance(value, bytes)
            else (value or 0) ^ 1
        )
        change = f"UPDATE checkpoints SET {column} = ? WHERE fold = ? AND first = ?"
        connection.execute(change, (other, name, first))
    return len(rows)


def test_two_processes_store_the_same_segments(path: Path, read: list[int]) -> None:
    with stenolog.open(path) as one, stenolog.open(path) as other:
        for number in range(TURNS, TURNS + 30):
            turn((one, other)[number % 2]["talk"], number)
            assert_whole(one["talk"])
            assert_whole(other["talk"])
    with stenolog.open(path) as log:
        read.clear()
        log["talk"].request("coder")
        assert 2 not in read
        assert_whole(log["talk"])


def test_a_second_api_and_a_second_lane_have_snapshots_of_their_own(path: Path, read: list[int]) -> None:
    asked = [("coder", "anthropic"), ("coder", "openai-chat"), ("reviewer", "openai-chat")]
    with stenolog.open(path) as log:
        log["talk"].join("reviewer", model="m")
        first = {each: log["talk"].request(each[0], api=each[1]) for each in asked}
        assert [request.parts for request in first.values()]
    with stenolog.open(path) as log:
        for agent, api in asked:
            windows_of(log).clear()
            read.clear()
            request = log["talk"].request(agent, api=api)
            assert 2 not in read, api
            assert request == first[agent, api]


PICTURE = UserMessage(parts=[TextPart(text="Look"), ImagePart(blob="0" * 64, media_type="image/png")])


@pytest.mark.parametrize(
    ("api", "chosen", "said"),
    [
        *[("openai-chat", chosen, UserMessage(text="And?")) for chosen in SMALL.values()],
        ("plain", SMALL["full"], UserMessage(text="And?")),
        ("anthropic", SMALL["full"], PICTURE),
        ("anthropic", SMALL["full"], IN_SHORT),
    ],
    ids=[*SMALL, "plain", "a picture", "summarised"],
)
def test_a_new_process_goes_on_from_a_snapshot_under_every_policy(
    path: Path, api: str, chosen: Policy, said: Event
) -> None:
    with stenolog.open(path) as log:
        log["talk"].append(said)
        turn(log["talk"], TURNS)
        first = log["talk"].request("coder", api=api, policy=chosen)
    made: list[BuiltRequest] = []
    with stenolog.open(path) as log:
        log.on_request = made.append
        again = log["talk"].request("coder", api=api, policy=chosen)
        turn(log["talk"], TURNS + 1)
        later = log["talk"].request("coder", api=api, policy=chosen)
        whole = build(log["talk"].entries(), "coder", api=api, policy=chosen, blobs=log.blobs)

        assert [each.source for each in made] == ["snapshot", "memory"]
        assert (again.bytes, later.bytes) == (first.bytes, whole.bytes)
        assert later == whole


@pytest.mark.parametrize("chosen", [Reminder(5), MissedMessages(), SinceLastTurn()], ids=str)
def test_a_new_process_reads_only_the_tail_under_a_policy_that_looks_back(
    path: Path, chosen: PolicyRule, read: list[int]
) -> None:
    with stenolog.open(path) as log:
        log["talk"].request("coder", policy=chosen)
    for number in range(TURNS, TURNS + 20):
        with stenolog.open(path, synchronous="normal") as log:
            read.clear()
            assert log["talk"].request("coder", policy=chosen).bytes
            assert len(read) < 90
            turn(log["talk"], number)
            request = log["talk"].request("coder", policy=chosen)
            assert request == build(log["talk"].entries(), "coder", policy=chosen)


def test_a_session_that_nobody_asks_for_while_the_conversation_doubles_leaves_the_file(path: Path) -> None:
    kept = list[bool]()
    with stenolog.open(path) as log:
        log["talk"].request("coder", api="gemini")
    for number in range(TURNS, TURNS * 2 + 10):
        with stenolog.open(path, synchronous="normal") as log:
            kept.append(any("gemini" in name for name in words(log)))
            turn(log["talk"], number)
            log["talk"].request("coder")
    assert all(kept[:TURNS])
    assert not kept[-1]


def test_a_snapshot_under_a_card_that_needs_what_is_not_here_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other_machine, stenolog.open(path) as log:
        of_mine = {**ESTIMATES, "mine": Counter("mine@1", len)}
        other_machine.setattr(token_counters, "ESTIMATES", of_mine)
        log["talk"].join("coder", model="gpt-5.2", policy=Budget(tokens=9_000, counter="mine"))
        for number in range(TURNS, TURNS * 2):
            turn(log["talk"], number)
            log["talk"].request("coder")
        plain = ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2")})
        log["talk"].append(plain, expected=log["talk"].position)

    with stenolog.open(path) as log:
        assert log["talk"].request("coder") == build(log["talk"].entries(), "coder", blobs=log.blobs)


def test_a_log_that_stores_no_sessions_sends_the_same_and_others_can_store_them(path: Path) -> None:
    with stenolog.open(path) as log:
        log["talk"].fork(after=TURNS * 4 + 1, name="recorded")
    with stenolog.open(path) as log:
        log.stores_sessions = False
        for number in range(TURNS, TURNS * 2):
            turn(log["recorded"], number)
            log["recorded"].request("coder")
        assert_whole(log["recorded"])
    with stenolog.open(path) as log:
        key = log["recorded"].key or 0
        assert not log.checkpoints.latest(key, "session")
        assert_whole(log["recorded"])
    with stenolog.open(path) as log:
        assert log.checkpoints.latest(key, "session")
        assert_whole(log["recorded"])


def test_snapshots_take_less_room_than_the_log_however_often_they_are_written(path: Path) -> None:
    with stenolog.open(path) as log:
        for number in range(TURNS, TURNS * 4):
            turn(log["talk"], number)
            log["talk"].request("coder")
            windows_of(log).settle()
        key, version = log["talk"].key or 0, folds.rules_version()
        names = [name for name in log.checkpoints.names(key) if name.startswith("segments")]
        stored = [run.changes[0][1] for name in names for run in log.checkpoints.runs(key, name, version)]
        text = log["talk"].request("coder").bytes
    assert len(text) * 0.8 < sum(map(len, stored)) < len(text) * 1.2
