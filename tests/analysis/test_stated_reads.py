"""Of a log without requests, the provider's own numbers say what missed the cache, and the entries why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, ModeSwitch, UserMessage
from stenolog.domain.entry import NewEntry
from stenolog.domain.values import PositionRange
from stenolog.events import Usage
from stenolog.projections.analysis.cache.calls import CacheCall
from stenolog.projections.analysis.cache.stated import stated_calls

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLAUDE = "claude-sonnet-4-5"


class Given:
    """An imported conversation: answers with the tokens that the provider stated, at seconds after noon."""

    def __init__(self) -> None:
        self.conversation = stenolog.open(":memory:")["imported"]

    def append(self, event: Any, seconds: float) -> int:
        new = NewEntry(event, f"e{self.conversation.position}", NOON + timedelta(seconds=seconds))
        (entry,) = self.conversation.extend([new], expected=self.conversation.position)
        return entry.position

    def answer(
        self, seconds: float, input: int, read: int, model: str = CLAUDE, *, hour: bool = False, **fields: Any
    ) -> int:
        wrote = input - read
        usage = Usage(
            input=input, output=9, cache_read=read, cache_write=wrote, cache_write_hour=wrote if hour else 0
        )
        answer = AssistantMessage(agent="claude", text="Yes.", model=model, usage=usage, **fields)
        return self.append(answer, seconds)

    def last(self) -> CacheCall:
        return stated_calls([*self.conversation.entries()])[-1]


def asked(*, hour: bool = False) -> Given:
    """Return a conversation with one answer, of 20,000 tokens that were written to the cache."""
    given = Given()
    given.append(ModeSwitch(mode="chat", joins=("claude",)), 0)
    given.append(UserMessage("Is it so?", to=("claude",)), 0)
    given.answer(1, 20_000, 0, hour=hour)
    return given


def test_the_first_call_of_a_lane_is_a_cold_start_and_no_miss() -> None:
    call = asked().last()

    assert (call.cause.kind, call.before, call.missed, call.is_miss) == ("cold start", 0, 0, False)


def test_what_the_call_before_had_is_read() -> None:
    given = asked()
    given.answer(20, 20_400, 19_800)

    call = given.last()
    assert (call.before, call.same, call.read, call.missed, call.cause.kind) == (3, 20_000, 19_800, 200, "")


def test_after_a_pause_nothing_is_there_any_more() -> None:
    given = asked()
    given.answer(402, 20_400, 0)

    call = given.last()
    assert (call.is_miss, call.missed, call.cause.kind) == (True, 20_000, "expired")
    assert call.cause.words == "401 s since the call before, kept for 300 s unless an hour is asked for"


@pytest.mark.parametrize(("pause", "kind"), [(600, "not in this log"), (3_700, "expired")])
def test_what_is_kept_for_an_hour_expires_after_an_hour(pause: int, kind: str) -> None:
    given = asked(hour=True)
    given.answer(20, 20_000, 20_000)  # it writes nothing, and what it reads is kept for an hour more
    given.answer(20 + pause, 20_400, 0, hour=True)

    assert given.last().cause.kind == kind


def test_a_summary_a_rewind_and_a_shorter_request_are_the_causes_that_entries_show() -> None:
    summarised, rewound, shorter = asked(), asked(), asked()
    place = summarised.answer(10, 20_300, 20_000, purpose="summary", covers=(PositionRange(first=2, last=3),))
    summarised.answer(20, 9_000, 0)
    hidden = rewound.append(ModeSwitch(hides=(PositionRange(first=3, last=3),)), 10)
    rewound.answer(20, 20_300, 4_000)
    shorter.answer(20, 12_000, 4_000)

    causes = [given.last().cause for given in (summarised, rewound, shorter)]
    assert [(cause.kind, cause.entry) for cause in causes] == [
        ("compaction", place),
        ("history", hidden),
        ("history", 0),
    ]
    assert causes[2].words == "the request is 8,000 tokens shorter"


def test_a_miss_without_a_cause_in_the_log_shows_what_the_log_has() -> None:
    given = asked()
    given.answer(20, 20_400, 0)
    first = given.last()
    given.append(UserMessage("And then?", to=("claude",)), 30)
    given.answer(63, 20_900, 2_000)
    second = given.last()
    given.append(UserMessage("Tests passed.", author_kind="system", to=("claude",)), 63)
    given.answer(70, 21_900, 2_000)
    third = given.last()

    assert (second.is_miss, second.missed, second.cause.kind) == (True, 18_400, "not in this log")
    assert [call.cause.words.partition(";")[0] for call in (first, second, third)] == [
        "19 s after the call before, no person spoke between, nothing was read",
        "43 s after the call before, a person spoke between, 2,000 tokens were read",
        "7 s after the call before, no person spoke between, 2,000 tokens were read, as at 1 miss before",
    ]


def test_another_model_begins_anew_and_the_first_one_goes_on() -> None:
    given = asked()
    given.answer(20, 20_400, 0, model="claude-opus-4-1")
    other = given.last()
    given.answer(30, 20_800, 20_000)

    assert (other.cause.kind, other.missed) == ("model", 0)
    assert other.cause.words == "claude-sonnet-4-5 → claude-opus-4-1"
    assert (given.last().before, given.last().missed) == (3, 0)


def test_a_lane_whose_provider_states_no_reading_has_no_misses() -> None:
    given = Given()
    given.append(ModeSwitch(mode="chat", joins=("claude",)), 0)
    for seconds in (1, 2):
        usage = Usage(input=20_000, output=9)
        given.append(AssistantMessage(agent="claude", text="Yes.", model="gpt-5", usage=usage), seconds)

    assert stated_calls([*given.conversation.entries()]) == []
