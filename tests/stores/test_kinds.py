"""Folds that look at some kinds of event: the others are passed over unread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import Conversation, Event, Fold, ModeSwitch, ToolResult, UserMessage
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import SETTINGS, persistent
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.reader import DECODERS
from stenolog.domain.settings import settings as settings_of
from stenolog.errors import CorruptLogError
from stenolog.events import Unknown
from stenolog.testing import examples
from tests.stores.conftest import turns

HEARD = Fold(
    "heard", 0, lambda sum, entry: sum * 31 + entry.position, kinds=(UserMessage, ToolResult), state=int
)


@given(st.lists(st.sampled_from([*examples().values(), *turns(1)]), max_size=60), st.integers(0, 60))
@settings(max_examples=15, derandomize=True, deadline=None)
def test_it_is_the_fold_of_the_entries_of_those_kinds(events: list[Event], at: int) -> None:
    with stenolog.open(":memory:") as log:
        conversation = log["demo"]
        log.blobs.put(b"test")
        for event in events:
            conversation.append(event, expected=conversation.position)
        only = [entry for entry in conversation.entries() if isinstance(entry.event, HEARD.kinds)]

        assert HEARD(conversation.entries()) == HEARD(only)
        assert list(HEARD.steps(conversation.entries()))[-1] == HEARD(only)
        for position in (None, min(at, conversation.position), min(at // 2, conversation.position)):
            assert conversation.fold(HEARD, position) == HEARD(conversation.entries(at=position))


def test_the_payloads_of_others_are_not_decoded(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation.extend(turns(50))
    whole = list(conversation.entries())
    met: list[str] = []

    class Watched(dict[str, Callable[[bytes], Event]]):
        def __missing__(self, topic: str) -> Callable[[bytes], Event]:
            met.append(topic)
            return DECODERS[topic]

    monkeypatch.setattr(reader, "DECODERS", Watched())
    assert conversation.settings() == settings_of(whole)
    assert met == ["mode_switch@1"]

    met.clear()
    assert conversation.fold(HEARD) == HEARD(whole)
    assert met == ["user_message@1", "tool_result@1"] * 50


def test_a_stretch_of_others_is_not_read_again(conversation: Conversation) -> None:
    conversation.extend(turns(100))
    conversation.settings()

    (run,) = conversation.log.checkpoints.runs(conversation.stream.key or 0, "settings", SETTINGS.version)
    assert (run.first, run.last) == (1, 401)


def test_a_missing_position_is_found(conversation: Conversation) -> None:
    conversation.extend(turns(50))
    with conversation.log.datastore.writing() as connection:
        connection.execute("DELETE FROM stored_events WHERE originator_version = 77")

    with pytest.raises(CorruptLogError, match="expected the positions 1 to 201, found 200 of them"):
        conversation.settings()


@pytest.mark.parametrize(
    "damage",
    ["state = cast(replace(state, 'One', 'Two') AS BLOB)", "topic = 'mode_switbh@1'", "topic = x'ff'"],
)
def test_a_setting_that_is_not_what_was_written_is_never_taken(
    conversation: Conversation, damage: str
) -> None:
    conversation.extend(turns(50))
    conversation.append(ModeSwitch(title="One"), expected=201)
    conversation.extend(turns(50))
    with conversation.log.datastore.writing() as connection:
        connection.execute(f"UPDATE stored_events SET {damage} WHERE originator_version = 202")

    with pytest.raises(CorruptLogError, match="at position 202"):
        conversation.settings()
    assert conversation.settings(at=201).title == ""


def test_folds_of_several_kinds_go_on_by_themselves(conversation: Conversation) -> None:
    conversation.extend(turns(20))
    conversation.settings()
    conversation.extend(turns(20))

    both = folds.folds_at(conversation, (SETTINGS, persistent(HEARD)))
    assert both == [settings_of(conversation.entries()), HEARD(conversation.entries())]


def test_an_unknown_kind_may_be_looked_at(conversation: Conversation) -> None:
    strange = Fold("strange", 0, lambda count, entry: count + 1, kinds=(Unknown,), state=int)
    conversation.append(Unknown(topic="smell@1", payload=b"{}"))
    conversation.extend(turns(3))

    assert conversation.fold(strange) == 1


def test_a_fork_reads_what_it_inherits(conversation: Conversation) -> None:
    conversation.extend(turns(20))
    fork = conversation.fork(after=40)
    fork.extend(turns(5))

    assert fork.fold(HEARD) == HEARD(fork.entries())
    assert fork.settings() == settings_of(fork.entries())
