"""Folds that look at some kinds of event: the others are passed over unread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import Conversation, CorruptLog, Event, Fold, ToolResult, Unknown, UserMessage
from stenolog.adapters import keeping
from stenolog.adapters.keeping import SETTINGS, kept
from stenolog.adapters.stores import reading
from stenolog.adapters.stores.reading import DECODERS
from stenolog.domain.settings import settings as settings_of
from stenolog.testing import examples
from tests.stores.conftest import turns

HEARD = Fold("heard", 0, lambda sum, entry: sum * 31 + entry.position, kinds=(UserMessage, ToolResult))


@given(st.lists(st.sampled_from([*examples().values(), *turns(1)]), max_size=60), st.integers(0, 60))
@settings(max_examples=15, derandomize=True, deadline=None)
def test_it_is_the_fold_of_the_entries_of_those_kinds(events: list[Event], upto: int) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["demo"]
        log.blobs.put(b"test")
        for event in events:
            talk.append(event, expected=talk.position)
        only = [entry for entry in talk.entries() if isinstance(entry.event, HEARD.kinds)]

        assert HEARD(talk.entries()) == HEARD(only)
        assert list(HEARD.steps(talk.entries()))[-1] == HEARD(only)
        for at in (None, min(upto, talk.position), min(upto // 2, talk.position)):
            assert talk.fold(kept(HEARD, int), at) == HEARD(talk.entries(upto=at))


def test_the_payloads_of_others_are_not_decoded(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.extend(turns(50))
    whole = list(talk.entries())
    met: list[str] = []

    class Watched(dict[str, Callable[[bytes], Event]]):
        def __missing__(self, topic: str) -> Callable[[bytes], Event]:
            met.append(topic)
            return DECODERS[topic]

    monkeypatch.setattr(reading, "DECODERS", Watched())
    assert talk.settings() == settings_of(whole)
    assert met == ["mode_switch@1"]

    met.clear()
    assert talk.fold(kept(HEARD, int)) == HEARD(whole)
    assert met == ["user_message@1", "tool_result@1"] * 50


def test_a_stretch_of_others_is_not_read_again(talk: Conversation) -> None:
    talk.extend(turns(100))
    talk.settings()

    (run,) = talk.log.checkpoints.runs(talk.stream.key or 0, "settings", SETTINGS.version)
    assert (run.first, run.last) == (1, 401)


def test_a_missing_position_is_found(talk: Conversation) -> None:
    talk.extend(turns(50))
    with talk.log.datastore.writing() as connection:
        connection.execute("DELETE FROM stored_events WHERE originator_version = 77")

    with pytest.raises(CorruptLog, match="expected the positions 1 to 201, found 200 of them"):
        talk.settings()


def test_folds_of_several_kinds_go_on_by_themselves(talk: Conversation) -> None:
    talk.extend(turns(20))
    talk.settings()
    talk.extend(turns(20))

    both = keeping.together(talk, (SETTINGS, kept(HEARD, int)))
    assert both == [settings_of(talk.entries()), HEARD(talk.entries())]


def test_an_unknown_kind_may_be_looked_at(talk: Conversation) -> None:
    strange = Fold("strange", 0, lambda count, entry: count + 1, kinds=(Unknown,))
    talk.append(Unknown(topic="smell@1", payload=b"{}"))
    talk.extend(turns(3))

    assert talk.fold(kept(strange, int)) == 1


def test_a_fork_reads_what_it_inherits(talk: Conversation) -> None:
    talk.extend(turns(20))
    fork = talk.fork(after=40)
    fork.extend(turns(5))

    assert fork.fold(kept(HEARD, int)) == HEARD(fork.entries())
    assert fork.settings() == settings_of(fork.entries())
