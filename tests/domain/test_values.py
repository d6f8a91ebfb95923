"""Values and entries that other rooms ask the domain about."""

from __future__ import annotations

from stenolog import Event, UserMessage
from stenolog.domain.erasure import DAMAGED, ERASED, LOST, is_gone
from stenolog.events import Unknown, Usage


def test_what_was_used_since_is_a_difference_or_all_of_it_for_a_new_session() -> None:
    before, after = Usage(input=100, output=10), Usage(input=250, output=30)

    assert after.since(before) == Usage(input=150, output=20)
    assert before.since(after) == before


def test_an_entry_is_gone_if_it_was_erased_or_damaged_or_lost_and_not_if_it_is_only_unknown() -> None:
    gone = [Unknown(topic=topic, payload=b"{}") for topic in (ERASED, DAMAGED, LOST)]
    there: list[Event] = [Unknown(topic="later@1", payload=b"{}"), UserMessage("hi")]

    assert [is_gone(event) for event in (*gone, *there)] == [True, True, True, False, False]
