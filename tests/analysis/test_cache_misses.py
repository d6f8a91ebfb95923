"""Each change of a request is found with its place and the entry that made it, as a model of the cache."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Entry, ModeSwitch, ToolResult, UserMessage
from stenolog.analysis import CacheCall, cache_calls
from stenolog.domain.entry import NewEntry
from stenolog.events import PositionRange, Usage
from stenolog.projections.analysis.cache.stated import StatedMisses, stated_calls
from tests.analysis.cache_break import REPLY, Break, bodies
from tests.analysis.cache_breaks import breaks
from tests.analysis.provider_cache import Provider
from tests.recording.programs import Tap, answered, said

ALL = breaks()


def measured(one: Break) -> tuple[list[Entry], CacheCall, int]:
    """Return the log of a break, what the analysis says of the second call, and what the provider read."""
    tap, provider = Tap(), Provider()
    read = 0
    for body, seconds in zip(bodies(one), (10.0, one.seconds), strict=True):
        now = tap.time.timestamp() + seconds
        tokens, read, wrote = provider.usage(one.api, body, now, one.least)
        answer = answered(one.api, REPLY, id=f"r{tap.number}", tokens=tokens, read=read, wrote=wrote)
        entry = tap.ask(one.api, body, answer, seconds=seconds)
    log = list(tap.log[entry.conversation].entries())
    calls = cache_calls(log, blobs=tap.log.blobs)
    tap.log.close()
    return log, calls[-1], read


def is_right(log: Sequence[Entry], call: CacheCall, how: str) -> bool:
    """Return whether the entry of a cause is the one that a break names."""
    position = call.cause.entry
    if how in ("", "none"):
        return position == 0
    event = log[position - 1].event
    if how == "card":
        return isinstance(event, ModeSwitch) and bool(event.cards) and 2 < position <= call.view
    if how == "hides":
        return isinstance(event, ModeSwitch) and isinstance(event.hides, tuple)
    words = repr(event.parts) if isinstance(event, UserMessage | AssistantMessage | ToolResult) else ""
    return how in words


def test_there_are_two_hundred_of_them() -> None:
    assert len(ALL) >= 200
    assert len({(one.api, one.name) for one in ALL}) == len(ALL)


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.api}: {one.name}")
def test_the_cause_the_place_and_the_entry_are_found(one: Break) -> None:
    log, call, read = measured(one)
    cause = call.cause

    assert (cause.kind, cause.how, cause.pointer, cause.offset) == one.expected[:4]
    assert is_right(log, call, one.expected.entry), (cause, [entry.event for entry in log])
    assert call.read == read
    if one.expected.kind != "model":
        assert call.agreement == "agrees", (call.expected, read)


def test_a_header_that_the_provider_takes_off_is_no_cause() -> None:
    tap = Tap()
    for release, read in (("abc", 0), ("f00", 9_000)):
        body = bodies(ALL[0])[0]
        body["system"][0]["text"] = f"x-anthropic-billing-header: cc_version=2.1.0.{release};"
        answer = answered("anthropic", REPLY, id=release, tokens=9_100, read=read)
        entry = tap.ask("anthropic", body, answer)
    call = cache_calls(tap.log[entry.conversation].entries(), blobs=tap.log.blobs)[-1]

    assert call.cause.pointer == ""
    assert call.missed < 1_024


def test_a_request_that_goes_on_from_a_response_has_what_the_provider_has() -> None:
    tap = Tap()
    first = bodies(next(one for one in ALL if one.api == "openai-responses"))[0]
    tap.ask("openai-responses", first, answered("openai-responses", REPLY, id="resp_1", tokens=3_000))
    second = {**first, "input": [said("openai-responses", "And then?")], "previous_response_id": "resp_1"}
    answer = answered("openai-responses", "Then.", id="resp_2", tokens=3_200, read=2_944)
    entry = tap.ask("openai-responses", second, answer)
    call = cache_calls(tap.log[entry.conversation].entries(), blobs=tap.log.blobs)[-1]

    assert (call.cause.kind, call.agreement) == ("", "agrees")
    assert call.missed < 1_024


def test_a_call_to_a_model_of_before_is_compared_with_the_last_call_to_it() -> None:
    tap = Tap()
    first, second = bodies(ALL[-1])
    for model, body in (
        ("claude-sonnet-4-5", first),
        ("claude-opus-4-1", first),
        ("claude-sonnet-4-5", second),
    ):
        answer = answered("anthropic", REPLY, id=f"r{tap.number}", tokens=5_000)
        entry = tap.ask("anthropic", {**body, "model": model}, answer)
    calls = cache_calls(tap.log[entry.conversation].entries(), blobs=tap.log.blobs)

    assert [call.cause.kind for call in calls[:2]] == ["cold start", "model"]
    assert calls[2].before == calls[0].position
    assert calls[2].expected > 3_000


def test_a_log_of_the_engine_is_compared_without_patches() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["t"]
        persona = "You bake. " * 600
        talk.append(ModeSwitch(joins=("a",), cards={"a": AgentCard(model="gpt-5", persona=persona)}))
        for words in ("hi", "and now?"):
            talk.append(UserMessage(text=words, to=("a",)))
            request = talk.request("a", api="openai-chat")
            usage = Usage(input=1_500 + 10 * talk.position, output=1)
            answer = AssistantMessage(agent="a", text="yes", receipt=request.receipt, usage=usage)
            talk.append(answer)
            card = AgentCard(model="gpt-5", persona=f"{persona}Today: {words}")
            talk.append(ModeSwitch(cards={"a": card}), expected=talk.position)
        call = cache_calls(talk.entries(), blobs=log.blobs)[-1]

    assert (call.cause.kind, call.cause.pointer) == ("system", "/messages/0/content")
    assert call.cause.entry == 4
    assert call.is_miss


def test_a_summary_by_the_engine_is_the_cause_of_what_it_took_away() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["t"]
        talk.append(
            ModeSwitch(joins=("a",), cards={"a": AgentCard(model="gpt-5", persona="You bake. " * 600)})
        )
        for words in ("one", "two", "three"):
            talk.append(UserMessage(text=words * 200, to=("a",)))
            receipt = talk.request("a", api="openai-chat").receipt
            talk.append(AssistantMessage(agent="a", text="yes " * 200, receipt=receipt))
            if words == "two":
                covers = (PositionRange(first=2, last=3),)
                talk.append(AssistantMessage(agent="a", text="They baked.", purpose="summary", covers=covers))
        summary = next(entry.position for entry in talk.entries() if getattr(entry.event, "covers", ()))
        call = cache_calls(talk.entries(), blobs=log.blobs)[-1]

    assert (call.cause.kind, call.cause.entry) == ("compaction", summary)


# Of a log without requests, the provider's own numbers say what missed the cache, and the entries why.


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
    assert call.cause.words == "401 s since the call before, kept for 300 s, as no hour is stated"


@pytest.mark.parametrize(("pause", "kind"), [(600, "cause not known from this log"), (3_700, "expired")])
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
    gone = "the request is 8,000 tokens shorter, no entry says what went"
    assert causes[2].words == f"{gone}; 4,000 tokens were read"


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

    assert (second.is_miss, second.missed, second.cause.kind) == (
        True,
        18_400,
        "cause not known from this log",
    )
    assert [call.cause.words.partition(";")[0] for call in (first, second, third)] == [
        "nothing was read",
        "2,000 tokens were read",
        "2,000 tokens were read, a fixed beginning as at 6: what changed or was lost comes after it",
    ]
    assert [call.cause.words.split("; ")[1] for call in (first, second, third)] == [
        "19 s after the call before, no person spoke between",
        "43 s after the call before, a person spoke between",
        "7 s after the call before, no person spoke between",
    ]


@pytest.mark.parametrize(
    ("wrote", "read", "shown"),
    [
        (19_992, 19_992, "all that the call at 2 left in the cache"),
        (19_992, 19_900, ""),
        (0, 19_900, "100 fewer than the call at 2 sent"),
        (0, 19_400, ""),
    ],
)
def test_a_reading_names_the_earlier_call_that_had_as_many_tokens(wrote: int, read: int, shown: str) -> None:
    given = Given()
    for seconds, prompt, old, new in ((1, 20_000, 0, wrote), (2, 24_000, 0, 0), (3, 25_000, read, 0)):
        usage = Usage(input=prompt, output=9, cache_read=old, cache_write=new)
        given.append(AssistantMessage(agent="claude", text="Yes.", model=CLAUDE, usage=usage), seconds)

    cause = given.last().cause
    assert cause.kind == ("earlier call" if shown else "cause not known from this log")
    assert shown in cause.words


def test_no_seconds_are_told_of_calls_whose_times_stand_still() -> None:
    given = asked()
    given.answer(1, 20_400, 0)

    assert " s after the call before" not in given.last().cause.words


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


@pytest.mark.parametrize("seed", range(40))
def test_misses_that_are_counted_entry_by_entry_are_those_of_the_whole_log(seed: int) -> None:
    chance, given = random.Random(seed), Given()
    for second in range(30):
        prompt = chance.choice((900, 2_000, 20_000, 40_000))
        states = seed % 4 or second > 15
        read = chance.choice((0, prompt // 2, prompt)) if states else 0
        usage = Usage(input=prompt, output=9, cache_read=read)
        answer = AssistantMessage(agent=chance.choice("ab"), model=chance.choice((CLAUDE, "x")), usage=usage)
        given.append(answer, second)
    log = [*given.conversation.entries()]
    counted = StatedMisses()
    for entry in log:
        counted = StatedMisses(json.loads(json.dumps(counted.dump())))
        counted.take(entry)

    assert counted.tokens == {call.position: call.missed for call in stated_calls(log) if call.is_miss}
