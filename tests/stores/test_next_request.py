"""The next request misses nothing, whoever appended it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import AgentCard, Conversation, Log, ModeSwitch, NewEntry, UserMessage
from stenolog.requests import build


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "log.db", synchronous="normal") as log:
        yield log


@pytest.fixture
def conversation(log: Log) -> Conversation:
    """Return a conversation that is looked at."""
    conversation = log["talk"]
    conversation.append(ModeSwitch(joins=["coder"]))
    for text in "abc":
        conversation.append(UserMessage(text=text))
        conversation.request("coder")
    return conversation


def anew(conversation: Conversation) -> bytes:
    return build(list(conversation.entries()), "coder").bytes


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
    card = AgentCard(parameters={"temperature": 1})
    note = UserMessage(text="noted", meta={"app": {"mood": "fine"}})
    conversation.append(ModeSwitch(cards={"coder": card}), expected=conversation.position)
    conversation.append(note)
    card.parameters["temperature"] = 0
    note.meta["app"] = "changed"

    assert conversation.request("coder").body["temperature"] == 1
    assert conversation.request("coder").bytes == anew(conversation)


def test_threads_that_append_at_once_are_all_heard(conversation: Conversation) -> None:
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
    with stenolog.open(log.path, synchronous="normal") as elsewhere:
        elsewhere["talk"].delete()
        elsewhere["talk"].append(ModeSwitch(joins=["coder"]))
        elsewhere["talk"].append(UserMessage(text="anew"))

    assert b"anew" in log["talk"].request("coder").bytes
    assert log["talk"].request("coder").bytes == anew(log["talk"])
