"""`verify` compares the search index with the log, and one that differs is made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Event,
    LlmError,
    Log,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.search import indexing
from stenolog.adapters.conversation.search.indexing import check_index
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.errors import ConversationNotFoundError, InvalidEventError
from stenolog.events import Unknown, WorkflowRun
from stenolog.parts import FilePart, ProviderPart, ReasoningPart, RefusalPart
from tests.search.conftest import places
from tests.stores.conftest import START, said

WORDS = ("needle", "hay", "straw", "word13")


@pytest.fixture
def found(path: Path) -> dict[str, Any]:
    """Return the hits in a log with an index."""
    chance = Random(1)
    with stenolog.open(path) as log:
        for number in range(300):
            said = " ".join(chance.choices([*WORDS, f"word{number}"], k=12))
            log[f"talk {number % 3}"].append(UserMessage(text=said))
        return looked_for(log)


def looked_for(log: Log) -> dict[str, Any]:
    words = (*WORDS, "word7", "word200")
    return {word: places(log, word, limit=1000) for word in words}


@pytest.mark.parametrize("batch", [7, 4000])
def test_one_that_agrees_stays_whatever_was_deleted_and_appended_since(
    log: Log, batch: int, indexed: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH_ROWS", batch)
    for number in range(50):
        log[f"talk {number % 5}"].append(UserMessage(text=f"needle {number} hay"))
    log["talk 1"].append(ToolResult(call_id="c", text="cut", blob=log.blobs.put(b"all of the needle")))
    assert check_index(log)
    log.search("needle")
    log["talk 2"].delete()
    log["talk 4"].delete()
    log["talk 1"].append(UserMessage(text="not indexed yet"))
    indexed()

    report = verify(log)

    assert (report.ok, report.notes) == (True, ())
    indexed()
    log.search("needle")
    assert indexed() == 1


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 16))])
def test_after_verify_a_search_finds_all_there_is_whatever_bytes_of_the_index_were_damaged(
    seed: int, path: Path, found: dict[str, Any]
) -> None:
    beside = path.with_name(f"{path.name}-search")
    chance, content = Random(seed), bytearray(beside.read_bytes())
    for _ in range(1 if seed % 2 else 40):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    beside.write_bytes(content)

    with stenolog.open(path) as log:
        assert verify(log).ok
        assert looked_for(log) == found


def test_one_with_other_words_is_told_of_and_made_anew(path: Path, found: dict[str, Any]) -> None:
    with stenolog.open(path) as log:

        def change(connection: Any) -> None:
            (id,) = connection.execute("SELECT id FROM entries ORDER BY id LIMIT 1").fetchone()
            connection.execute("INSERT INTO words (rowid, said) VALUES (?, 'word999')", (id,))

        log.index.use(change)
        report = verify(log)

        assert report.ok
        assert report.notes == ("the search index was damaged and is deleted: the next search makes it anew",)
        assert looked_for(log) == found
        assert verify(log).notes == ()


def test_one_that_another_process_writes_to_is_left_alone(path: Path, found: dict[str, Any]) -> None:
    with stenolog.open(path) as log, stenolog.open(path) as other:
        log.index.patience = 0.01  # type: ignore[misc]
        with other.index.guard:
            other.index.open().execute("BEGIN IMMEDIATE")
            assert check_index(log)
            other.index.open().execute("ROLLBACK")
        assert path.with_name(f"{path.name}-search").exists()


# What a search finds: whose words, in which conversations, and in which order.


def test_a_hit_says_where_when_who_and_what(log: Log, conversation: Conversation) -> None:
    conversation.append(UserMessage(text="Which test\nfails?", to=["coder"]))
    (hit,) = log.search("TEST")

    assert (hit.conversation, hit.position, hit.kind, hit.who) == ("demo", 2, "user_message", "user → coder")
    assert hit.time == [entry.time for entry in conversation.entries()][1]
    assert (hit.snippet, hit.marks) == ("Which test fails?", ((6, 10),))


CALL = ToolCall(id="c1", name="shell", arguments='{"cmd": ["grep", {"for": "a\\nneedle"}], "n": 7}')
NEEDLES: list[Event] = [
    UserMessage(text="a needle"),
    UserMessage(parts=[FilePart(name="needle.txt")]),
    UserMessage(text="a needle", in_context=False),
    AssistantMessage(agent="coder", text="a needle"),
    AssistantMessage(agent="coder", parts=[ReasoningPart(text="a needle")]),
    AssistantMessage(agent="coder", parts=[RefusalPart(text="a needle")]),
    AssistantMessage(agent="coder", tool_calls=[CALL]),
    AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="needle")]),
    AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="shell", arguments='{"a needle')]),
    AssistantMessage(agent="coder", text="a needle", purpose="summary"),
    ToolResult(call_id="c1", text="a needle"),
    LlmError(agent="coder", category="timeout", message="a needle"),
    LlmError(agent="coder", category="timeout", text="a needle"),
    ModeSwitch(title="a needle"),
    ModeSwitch(handoff="a needle"),
    ModeSwitch(active_run=WorkflowRun(id="r", directive="a needle")),
]


@pytest.mark.parametrize("event", NEEDLES, ids=repr)
def test_all_that_anybody_said_is_found(log: Log, conversation: Conversation, event: Event) -> None:
    said(conversation, "hay")
    conversation.append(event, expected=conversation.position)

    assert places(log, "needle") == [("demo", 3)]


@pytest.mark.parametrize(
    "event",
    [
        AssistantMessage(agent="coder", parts=[ProviderPart(provider="other", raw='{"a":"needle"}')]),
        Unknown(topic="needle@9", payload=b'{"text":"a needle"}'),
        UserMessage(text="hay", meta={"app": "needle"}),
    ],
    ids=repr,
)
def test_what_nobody_said_is_not_found(log: Log, conversation: Conversation, event: Event) -> None:
    conversation.append(event)

    assert places(log, "needle") == []


def test_of_a_long_output_the_whole_is_searched(log: Log, conversation: Conversation) -> None:
    whole = log.blobs.put(("hay " * 10_000 + "needle " + "hay " * 10_000).encode())
    conversation.append(ToolResult(call_id="c1", text="hay hay …", blob=whole))
    conversation.append(ToolResult(call_id="c1", text="a needle", blob=log.blobs.put(b"\xff\xfe")))

    assert places(log, "needle") == [("demo", 2), ("demo", 3)]


def test_of_an_entry_of_megabytes_the_first_million_characters_are_searched(
    log: Log, conversation: Conversation
) -> None:
    said(conversation, f"{'hay ' * 249_000} first {'hay ' * 2_000} last")

    assert places(log, "first") == [("demo", 2)]
    assert places(log, "last") == []


class TestWhich:
    """What is asked for narrows what is found."""

    @pytest.fixture(autouse=True)
    def given(self, log: Log) -> None:
        said(log["one"], "the needle")
        log["one"].append(AssistantMessage(agent="coder", text="a needle"))
        log["two"].append(AssistantMessage(agent="reviewer", text="a needle, a needle"))
        log["two"].append(UserMessage(text="needle", author="reviewer", author_kind="agent"))
        log["two"].append(ToolResult(call_id="c1", name="coder", text="needle"))

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, [("one", 2), ("one", 3), ("two", 2), ("two", 3), ("two", 4)]),
            ({"conversation": "one"}, [("one", 2), ("one", 3)]),
            ({"agent": "coder"}, [("one", 3)]),
            ({"agent": "reviewer"}, [("two", 2), ("two", 3)]),
            ({"agent": "nobody"}, []),
            ({"kinds": ["tool_result", "user_message"]}, [("one", 2), ("two", 3), ("two", 4)]),
            ({"conversation": "two", "kinds": ["assistant_message"]}, [("two", 2)]),
            ({"since": START + timedelta(seconds=2)}, [("two", 3), ("two", 4), ("two", 2)]),
            ({"until": START + timedelta(seconds=1)}, [("one", 2), ("one", 3)]),
            ({"limit": 2, "newest": True}, [("two", 3), ("two", 4)]),
        ],
    )
    def test_only_what_was_asked_for(
        self, log: Log, wanted: dict[str, Any], expected: list[tuple[str, int]]
    ) -> None:
        assert places(log, "needle", **wanted) == sorted(expected)

    def test_the_newest_come_first_where_that_is_asked_for(self, log: Log) -> None:
        hits = log.search("needle", newest=True)

        assert [hit.position for hit in hits] == [4, 3, 2, 3, 2]

    def test_else_the_best(self, log: Log) -> None:
        said(log["three"], "needle " + "hay " * 100)

        assert log.search("needle")[-1].conversation == "three"
        assert log.search("needle", newest=True)[0].conversation == "three"

    def test_a_conversation_that_is_not_there_is_an_error(self, log: Log) -> None:
        with pytest.raises(ConversationNotFoundError, match="nobody"):
            log.search("needle", conversation="nobody")

    def test_a_kind_that_is_none_is_refused(self, log: Log) -> None:
        with pytest.raises(InvalidEventError, match="kinds: expected user_message"):
            log.search("needle", kinds=["tool"])

    def test_a_single_kind_may_stand_for_itself(self, log: Log) -> None:
        assert log.search("needle", kinds="tool_result") == log.search("needle", kinds=["tool_result"]) != []

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"query": None}, "search: expected text, found None"),
            ({"query": ["needle"]}, r"search: expected text, found \['needle'\]"),
            ({"since": "2026-01-01"}, "since: expected an aware datetime, .*, found '2026-01-01'"),
            (
                {"until": START.replace(tzinfo=None)},
                r"until: expected an aware datetime, .*, found datetime\.",
            ),
            ({"limit": -1}, "limit: expected a number from 0, found -1"),
            ({"limit": "3"}, "limit: expected a number from 0, found '3'"),
            ({"limit": None}, "limit: expected a number from 0, found None"),
            ({"kinds": "result"}, "kinds: expected user_message, .*; found 'result'"),
            ({"kinds": 3}, "kinds: expected user_message, .*; found 3"),
            ({"kinds": [["tool_result"]]}, r"kinds: expected user_message, .*; found \['tool_result'\]"),
            ({"agent": 3}, "agent: expected text, found 3"),
            ({"conversation": 3}, "conversation: expected text, found 3"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, log: Log, wrong: dict[str, Any], told: str) -> None:
        with pytest.raises(InvalidEventError, match=f"^{told}"):
            log.search(**{"query": "needle", **wrong})


class TestForks:
    """What a fork inherits is found once, where it stands; and in the fork, where that is asked for."""

    @pytest.fixture(autouse=True)
    def given(self, log: Log, conversation: Conversation) -> None:
        said(conversation, "needle 2", "needle 3", "needle 4")
        fork = conversation.fork(after=3, name="fork")
        said(fork, "needle 5")
        said(fork.fork(after=2, name="early"), "needle 4")
        said(fork.fork(name="late"), "needle 7")

    def test_each_entry_is_found_once(self, log: Log) -> None:
        standing = [("demo", 2), ("demo", 3), ("demo", 4), ("early", 4), ("fork", 5), ("late", 7)]

        assert places(log, "needle") == standing

    def test_in_a_fork_what_it_inherits_is_found_too(self, log: Log) -> None:
        def within(name: str) -> list[int]:
            return [position for _, position in places(log, "needle", conversation=name)]

        assert within("demo") == [2, 3, 4]
        assert within("fork") == [2, 3, 5]
        assert within("early") == [2, 4]
        assert within("late") == [2, 3, 5, 7]
        assert {hit.conversation for hit in log.search("needle", conversation="late")} == {"late"}


class TestWhatBecameOfIt:
    """A conversation is found by what became of it since it was indexed."""

    @pytest.fixture(autouse=True)
    def given(self, log: Log, conversation: Conversation) -> None:
        said(conversation, "a needle")
        said(log["other"], "another needle")
        assert places(log, "needle") == [("demo", 2), ("other", 2)]

    def test_renamed_it_is_found_under_its_name(self, log: Log, conversation: Conversation) -> None:
        conversation.rename("new")

        assert places(log, "needle") == [("new", 2), ("other", 2)]
        assert places(log, "needle", conversation="new") == [("new", 2)]

    def test_archived_it_is_found(self, log: Log, conversation: Conversation) -> None:
        conversation.archive()

        assert places(log, "needle") == [("demo", 2), ("other", 2)]

    @pytest.mark.parametrize("name", ["demo", "other"])
    def test_deleted_it_is_gone_and_the_rest_is_there(self, log: Log, name: str) -> None:
        log[name].delete()
        left = "demo" if name == "other" else "other"

        assert places(log, "needle") == [(left, 2)]
        said(log[name], "a new needle")
        assert places(log, "needle") == sorted([(left, 2), (name, 2)])

    def test_a_deletion_that_is_refused_takes_nothing_out(self, log: Log, conversation: Conversation) -> None:
        conversation.fork()
        with pytest.raises(Exception, match="forks of it exist"):
            conversation.delete()

        assert places(log, "needle") == [("demo", 2), ("other", 2)]
        assert len(log.search("needle")) == 2


def test_asyncio_finds_the_same(path: Path) -> None:
    async def look() -> list[int]:
        async with stenolog.open_async(path) as log:
            for name in ("one", "two"):
                await log[name].append(UserMessage(text="a needle"))
            found = [hit.position for hit in await log.search("needle", conversation="one")]
            return [*found, await log.count(), len(await log.names(contains="W"))]

    assert asyncio.run(look()) == [2, 2, 1]
