"""Windows that are held in memory: quicker, and never another request than the log gives."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    Log,
    ModeSwitch,
    NewEntry,
    UserMessage,
)
from stenolog.adapters.conversation.queries.requests import window_cache
from stenolog.adapters.store.reading import checked_reading
from stenolog.context import Budget, LastN
from stenolog.domain.parts import TextPart
from stenolog.parts import ImagePart
from stenolog.projections.requests import build
from stenolog.projections.requests.incremental.window import Window
from tests.strategies import events

WORDS = "word " * 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "log.db", synchronous="normal") as log:
        yield log


@pytest.fixture
def conversation(log: Log) -> Conversation:
    conversation = log["talk"]
    conversation.append(ModeSwitch(cards={"coder": AgentCard()}, joins=["coder"]))
    conversation.extend([UserMessage(text=WORDS), AssistantMessage(agent="coder", text=WORDS)] * 20)
    return conversation


def anew(conversation: Conversation) -> bytes:
    """Return the request of the agent, from the whole log."""
    return build(list(conversation.entries()), "coder").bytes


def test_the_next_request_reads_what_is_new_and_nothing_else(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation.request("coder")
    read: list[Entry] = []
    following = checked_reading.following

    def watched(*asked: Any) -> list[Entry] | None:
        found = following(*asked)
        read.extend(found or [])
        return found

    monkeypatch.setattr(checked_reading, "following", watched)
    conversation.append(UserMessage(text="And now?"))
    with stenolog.open(conversation.log.path) as other:
        other["talk"].append(UserMessage(text="Or later?"))
    conversation.append(AssistantMessage(agent="coder", text="Now."))

    request = conversation.request("coder")

    assert [entry.position for entry in read] == [42, 43, 44]
    assert request.bytes == anew(conversation)


def test_what_the_process_has_appended_itself_is_not_read_for_its_next_request(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation.request("coder")
    rows: list[int] = []
    following = checked_reading.following

    def watched(*asked: Any) -> list[Entry] | None:
        rows.append(len(asked[4]))
        return following(*asked)

    monkeypatch.setattr(checked_reading, "following", watched)
    for number in range(3):
        conversation.append(UserMessage(text=f"And now {number}?"))
        conversation.append(AssistantMessage(agent="coder", text="Now."))
        assert conversation.request("coder").bytes == anew(conversation)

    assert rows == []


def test_who_steps_through_the_past_reads_each_entry_once(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [*conversation.entries()]
    conversation.request("coder", at=10)
    taken: list[int] = []
    take = Window.take

    def watched(window: Window, entry: Entry) -> object:
        taken.append(entry.position)
        return take(window, entry)

    with monkeypatch.context() as patch:
        patch.setattr(Window, "take", watched)
        requested = [conversation.request("coder", at=at) for at in (10, 11, 15)]

    assert taken == [11, 12, 13, 14, 15]
    assert requested == [build(entries[:at], "coder") for at in (10, 11, 15)]
    assert conversation.request("coder", at=5) == build(entries[:5], "coder")


def test_requests_share_the_messages_that_they_have_in_common(conversation: Conversation) -> None:
    before = conversation.request("coder")
    conversation.append(UserMessage(text="And now?"))
    after = conversation.request("coder")

    pairs = zip(before.body["messages"], after.body["messages"], strict=False)
    common = [one is other for one, other in pairs]

    assert common.count(True) >= len(common) - 2


def test_many_that_come_at_once_are_all_in_it(conversation: Conversation) -> None:
    conversation.request("coder")
    for number in (1, 31, 32, 33, 64, 100):
        conversation.extend([UserMessage(text=WORDS)] * number)
        assert conversation.request("coder").bytes == anew(conversation)


def test_a_request_is_explained_as_it_was_after_later_entries(conversation: Conversation) -> None:
    for _ in range(3):
        conversation.extend([UserMessage(text=WORDS), AssistantMessage(agent="coder", text=WORDS)])
        request, at = conversation.request("coder"), conversation.position
        conversation.append(UserMessage(text="Later"))
        assert request.explanation == build(list(conversation.entries(at=at)), "coder").explanation


def test_a_card_with_another_policy_counts_at_once(conversation: Conversation) -> None:
    conversation.request("coder")
    conversation.append(
        ModeSwitch(cards={"coder": AgentCard(policy=LastN(2))}), expected=conversation.position
    )

    assert conversation.request("coder").bytes == anew(conversation)


def test_each_policy_each_wire_and_each_lane_has_its_own(conversation: Conversation) -> None:
    for _ in range(3):
        conversation.append(UserMessage(text=WORDS, to=["coder", "coder/tests"]))
        log = list(conversation.entries())
        for policy in (None, LastN(3), Budget(tokens=300)):
            for api in ("openai-chat", "anthropic"):
                for task in ("", "tests"):
                    made = conversation.request("coder", api=api, task=task, policy=policy)
                    assert made == build(log, "coder", api=api, task=task, policy=policy)


def test_of_a_conversation_that_was_deleted_nothing_is_left(conversation: Conversation, log: Log) -> None:
    conversation.request("coder")
    with stenolog.open(log.path, synchronous="normal") as elsewhere:
        elsewhere["talk"].delete()

    assert conversation.request("coder") == log["never"].request("coder")


def test_a_fork_is_a_conversation_of_its_own(conversation: Conversation) -> None:
    conversation.request("coder")
    fork = conversation.fork(after=21)
    fork.append(UserMessage(text="Otherwise"))

    assert (
        fork.request("coder").bytes == anew(fork) != conversation.request("coder").bytes == anew(conversation)
    )


def test_threads_that_ask_at_once_each_get_the_request_of_a_moment(conversation: Conversation) -> None:
    moments = {anew(conversation)}

    def ask(_: int) -> bytes:
        return conversation.request("coder").bytes

    with ThreadPoolExecutor(8) as threads:
        asked = threads.map(ask, range(40))
        for number in range(10):
            conversation.append(UserMessage(text=f"{number}"))
            moments.add(anew(conversation))
        assert set(asked) <= moments


def test_a_blob_that_comes_later_counts_in_the_next_request(conversation: Conversation, log: Log) -> None:
    content = bytes(30_000)
    sha = sha256(content).hexdigest()
    conversation.append(
        UserMessage(parts=[TextPart(text="Look"), ImagePart(media_type="image/png", blob=sha)])
    )
    conversation.append(UserMessage(text="Do you see?"))
    budget = Budget(bytes=20_000)
    conversation.request("coder", policy=budget)
    log.blobs.put(content)

    made = conversation.request("coder", policy=budget)

    assert made == build(list(conversation.entries()), "coder", policy=budget, blobs=log.blobs)


def test_those_not_used_for_longest_are_let_go(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_cache, "ROWS", 3 * (window_cache.LEAST + 75))
    for number in range(6):
        conversation.request("coder", policy=LastN(100 + number))

    assert len(window_cache.windows_of(conversation.log)) == 3
    assert conversation.request("coder").bytes == anew(conversation)


@given(st.lists(st.lists(events(), max_size=4), max_size=6))
def test_whatever_is_appended_the_request_is_that_of_the_whole_log(batches: list[list[Event]]) -> None:
    with stenolog.open(":memory:") as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(cards={"coder": AgentCard()}, joins=["coder"]))
        for batch in batches:
            conversation.extend(batch, expected=conversation.position)
            try:
                expected = build(list(conversation.entries()), "coder")
            except stenolog.StenologError as refused:
                with pytest.raises(type(refused)):
                    conversation.request("coder")
            else:
                assert conversation.request("coder") == expected


# Whoever appends


class Step(NamedTuple):
    """Some texts that are appended by this process or another; `id`: all under the same id."""

    texts: list[str]
    elsewhere: bool
    id: str | None


STEPS = st.lists(
    st.builds(
        Step,
        texts=st.lists(st.sampled_from("xyz"), max_size=3),
        elsewhere=st.booleans(),
        id=st.sampled_from([None, None, "given"]),
    ),
    max_size=8,
)


@given(STEPS, st.booleans())
def test_whoever_appends_the_request_is_that_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], renamed: bool
) -> None:
    path = tmp_path_factory.mktemp("glance") / "log.db"
    with (
        stenolog.open(path, synchronous="normal") as log,
        stenolog.open(path, synchronous="normal") as other,
    ):
        log["talk"].append(ModeSwitch(joins=["coder"]))
        here, there = log["talk"], other["talk"]
        for nth, step in enumerate(steps):
            for text in step.texts:
                try:
                    (there if step.elsewhere else here).extend([NewEntry(UserMessage(text=text), step.id)])
                except stenolog.errors.DuplicateIdError:
                    assert step.id
            if renamed and nth == 3:
                there.rename("another name")
            assert here.request("coder").bytes == anew(there)
            assert there.request("coder").bytes == anew(here)


def test_who_changes_what_he_appended_changes_no_request(conversation: Conversation) -> None:
    conversation.request("coder")
    card = AgentCard(parameters={"temperature": 1})
    note = UserMessage(text="noted", meta={"app": {"mood": "fine"}})
    conversation.append(ModeSwitch(cards={"coder": card}), expected=conversation.position)
    conversation.append(note)
    card.parameters["temperature"] = 0
    note.meta["app"] = "changed"

    assert conversation.request("coder").body["temperature"] == 1
    assert conversation.request("coder").bytes == anew(conversation)


def test_threads_that_append_at_once_are_all_heard(conversation: Conversation) -> None:
    conversation.request("coder")

    def append(number: int) -> None:
        for nth in range(25):
            conversation.append(UserMessage(text=f"{number} {nth}"))

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(append, number) for number in range(4)]
        while not all(future.done() for future in working):
            request = conversation.request("coder")
            assert request.bytes == build(list(conversation.entries(at=request.at)), "coder").bytes
        for future in working:
            future.result()
    assert conversation.request("coder").bytes == anew(conversation)


def test_a_conversation_that_was_deleted_elsewhere_and_begun_anew_is_another(
    conversation: Conversation, log: Log
) -> None:
    conversation.request("coder")
    with stenolog.open(log.path, synchronous="normal") as elsewhere:
        elsewhere["talk"].delete()
        elsewhere["talk"].append(ModeSwitch(joins=["coder"]))
        elsewhere["talk"].append(UserMessage(text="anew"))

    assert b"anew" in log["talk"].request("coder").bytes
    assert log["talk"].request("coder").bytes == anew(log["talk"])
