"""Events to bytes and back: the storage format, its versions, and what hostile bytes can do."""

from __future__ import annotations

import json
from dataclasses import field, fields
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AgentCard, Event, LlmError, ModeSwitch, Tool, UserMessage
from stenolog.domain.base.model import DEEPEST, frozen_value
from stenolog.domain.codec import REGISTRY, JsonObject, TopicRegistry, Upcast
from stenolog.domain.events import Common, Known
from stenolog.errors import CorruptLogError, InvalidEventError
from stenolog.events import Unknown
from stenolog.testing import examples
from tests.strategies import events, unknowns

EXAMPLES = list(examples().values())
NESTED = 100_000
HOSTILE = {
    "a class to import": b'{"_type_":"os:system","_data_":["sesame"]}',
    "a field nobody knows": b'{"sesame":1}',
    "a part of no known type": b'{"parts":[{"type":"sesame"}]}',
    "a part with a field too many": b'{"parts":[{"type":"text","text":"","sesame":1}]}',
    "the wrong type deep inside": b'{"cards":{"sesame":{"model":1}},"parts":[1]}',
    "nested too deep": b'{"meta":{"sesame":' + b"[" * NESTED + b"]" * NESTED + b"}}",
    "not a number": b'{"meta":{"sesame":NaN}}',
    "minus infinity": b'{"meta":{"sesame":-Infinity}}',
    "a number beyond all floats": b'{"meta":{"sesame":1e999}}',
    "an integer of 5000 digits": b'{"meta":{"sesame":' + b"9" * 5000 + b"}}",
    "an integer of 65 bits": b'{"replaces":18446744073709551616,"attempt":18446744073709551616}',
    "half a surrogate pair": b'{"author":"sesame\\ud800","agent":"sesame\\udc00"}',
    "no UTF-8": b'{"author":"sesame\xff"}',
    "another encoding": '{"author":"sesame"}'.encode("utf-16"),
    "cut off": b'{"author":"sesam',
    "no object": b'["sesame"]',
    "nothing": b"",
}


def read(topic: str, payload: bytes) -> Event | str:
    """Return the event, or the message of its error; only `CorruptLogError` is caught."""
    try:
        return REGISTRY.load(topic, payload)
    except CorruptLogError as error:
        return str(error)


@given(event=events())
def test_an_event_comes_back_as_it_was_written(event: Event) -> None:
    topic, payload = REGISTRY.dump(event)

    assert REGISTRY.load(topic, payload) == event
    assert REGISTRY.dump(REGISTRY.load(topic, payload)) == (topic, payload)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.kind)
def test_every_field_of_every_kind_is_written(event: Known) -> None:
    topic, payload = REGISTRY.dump(event)

    assert topic == f"{event.kind}@1"
    assert set(json.loads(payload)) == {each.name for each in fields(event)}
    assert REGISTRY.load(topic, payload) == event


def test_defaults_are_left_out() -> None:
    assert REGISTRY.dump(UserMessage(text="Hi")) == (
        "user_message@1",
        b'{"parts":[{"type":"text","text":"Hi"}]}',
    )
    assert REGISTRY.dump(ModeSwitch()) == ("mode_switch@1", b"{}")


def test_what_is_cleared_is_told_from_what_is_unchanged() -> None:
    switch = ModeSwitch(title=None, hides=(), cards={"coder": None, "tester": AgentCard(tools=())})

    assert REGISTRY.dump(switch) == (
        "mode_switch@1",
        b'{"cards":{"coder":null,"tester":{"tools":[]}},"title":null,"hides":[]}',
    )


def test_a_setting_may_be_the_word_unchanged() -> None:
    switch = ModeSwitch(mode="unchanged", title="unchanged")

    assert REGISTRY.load(*REGISTRY.dump(switch)) == switch


def test_bytes_that_somebody_else_wrote_load_and_would_be_written_in_our_form() -> None:
    foreign = b' { "author" : "A" , "in_context" : true , "tags":[], "author":"B\\u00e4" } '

    event = REGISTRY.load("user_message@1", foreign)

    assert event == UserMessage(author="Bä")
    assert REGISTRY.dump(event) == ("user_message@1", '{"author":"Bä"}'.encode())


@pytest.mark.parametrize("topic", [*REGISTRY.events, "user_message@2", "poll@1"])
@pytest.mark.parametrize("payload", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_bytes_are_an_event_or_a_corrupt_log_that_does_not_quote_them(
    topic: str, payload: bytes
) -> None:
    found = read(topic, payload)

    if isinstance(found, str):
        assert found.startswith(topic)
        assert "sesame" not in found
    else:
        assert REGISTRY.dump(found) == (topic, payload)


@given(event=events(), place=st.integers(min_value=0), byte=st.integers(0, 255))
def test_a_byte_that_is_changed_gives_an_event_or_a_corrupt_log(event: Event, place: int, byte: int) -> None:
    topic, payload = REGISTRY.dump(event)
    bent = bytearray(payload or b"{}")
    bent[place % len(bent)] = byte

    found = read(topic, bytes(bent))

    assert isinstance(found, str) or REGISTRY.load(*REGISTRY.dump(found)) == found


@given(
    st.sampled_from([*REGISTRY.events]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.just("sesame"),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(("parts", "meta", "type", "cards", "agent", "category", "call_id", "sesame")),
                inner,
                max_size=4,
            )
        ),
    ),
)
def test_no_error_quotes_the_payload(topic: str, found: object) -> None:
    complaint = read(topic, json.dumps(found).encode())

    assert not isinstance(complaint, str) or "sesame" not in complaint


@given(event=unknowns())
def test_what_this_release_does_not_know_is_written_back_byte_for_byte(event: Unknown) -> None:
    assert REGISTRY.load(*REGISTRY.dump(event)) == event
    assert REGISTRY.dump(event) == (event.topic, event.payload)


def test_an_unknown_event_says_whether_it_may_be_passed_over_and_which_release_it_needs() -> None:
    payload = b'{"ignorable":true,"needs":"0.9","what":[1]}'

    assert REGISTRY.load("poll@1", payload) == Unknown(
        topic="poll@1", payload=payload, ignorable=True, needs="0.9"
    )


@pytest.mark.parametrize(
    "forged",
    [
        Unknown(topic="user_message@1", payload=b"garbage"),
        Unknown(topic="poll@1\n7", payload=b"{}"),
        Unknown(topic="poll@1", payload=b"{}", ignorable=True),
        Unknown(topic="poll@1", payload=b'{"needs":"2"}'),
    ],
    ids=["a known topic", "a line break", "ignorable by its own word", "another release"],
)
def test_an_unknown_event_that_would_not_come_back_as_it_is_cannot_be_written(forged: Unknown) -> None:
    with pytest.raises(InvalidEventError, match="unknown event"):
        REGISTRY.dump(forged)


@pytest.mark.parametrize("topic", ["", "\0" * 14, "poll\x7f@1"])
def test_a_topic_that_no_log_can_have_is_damage_and_no_event_of_a_later_release(topic: str) -> None:
    with pytest.raises(CorruptLogError, match="expected a topic such as user_message@1, found"):
        REGISTRY.load(topic, b"{}")


@pytest.mark.parametrize(
    "event",
    [
        UserMessage(text="a\ud800"),
        LlmError(agent="coder", category="other", message="\udfff"),
        UserMessage(to=["\ud83d"]),
    ],
    ids=["text", "a name", "an address"],
)
def test_half_a_surrogate_pair_cannot_be_written(event: Event) -> None:
    with pytest.raises(InvalidEventError, match="cannot be written"):
        REGISTRY.dump(event)


@pytest.mark.parametrize(
    "json_value",
    [float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 2}, {1}, (1,), b"x", 10**1000, object()],
    ids=lambda value: type(value).__name__ if type(value) is object else str(value),
)
def test_json_that_could_not_be_read_again_makes_no_event(json_value: Any) -> None:
    with pytest.raises(InvalidEventError, match="UserMessage: /meta: "):
        UserMessage(meta={"app": json_value})


@pytest.mark.parametrize("deep", [DEEPEST - 1, DEEPEST])
def test_json_is_nested_only_as_deep_as_can_be_read_again(deep: int) -> None:
    nested: Any = []
    for _ in range(deep - 1):
        nested = [nested]
    if deep == DEEPEST:
        with pytest.raises(InvalidEventError, match="100 levels"):
            Tool(name="look", parameters={"a": [nested]})
    switch = ModeSwitch(cards={"coder": AgentCard(tools=[Tool(name="look", parameters={"a": nested})])})

    assert REGISTRY.load(*REGISTRY.dump(switch)) == switch


def test_a_time_is_kept_in_utc_whatever_its_offset() -> None:
    odd = timezone(timedelta(hours=2, seconds=7))
    error = LlmError(agent="coder", category="timeout", retry_at=datetime(2026, 1, 1, 2, 0, 7, tzinfo=odd))

    assert REGISTRY.dump(error)[1] == (
        b'{"agent":"coder","category":"timeout","retry_at":"2026-01-01T00:00:00Z"}'
    )


@pytest.mark.parametrize("offset", [None, timezone(timedelta(hours=-1))], ids=["naive", "the year 10000"])
def test_a_time_that_is_none_in_utc_makes_no_event(offset: timezone | None) -> None:
    with pytest.raises(InvalidEventError, match="LlmError: /retry_at: "):
        LlmError(agent="coder", category="timeout", retry_at=datetime.max.replace(tzinfo=offset))


@frozen_value
class Sung(UserMessage):
    """A user message with one more field."""

    tune: str = ""


def test_a_new_field_with_a_default_needs_no_new_version() -> None:
    later = TopicRegistry({"user_message@1": Sung})
    old = REGISTRY.dump(UserMessage(text="Hi", tags=["draft"]))

    assert later.dump(later.load(*old)) == old
    with pytest.raises(CorruptLogError, match="Unexpected keyword"):
        REGISTRY.load(*later.dump(Sung(text="Hi", tune="low")))


@frozen_value
class Note(Common):
    """What a user message might be in its third version."""

    kind: ClassVar[str] = "note"

    words: str
    by: str = field(default="nobody")


def _second(old: JsonObject) -> JsonObject:
    return {"words": old["text"], **{key: old[key] for key in old if key != "text"}}


def _third(old: JsonObject) -> JsonObject:
    return {**old, "by": old["by"].title()} if "by" in old else old


UPCASTS = {"note@1": Upcast("note@2", _second), "note@2": Upcast("note@3", _third)}
NOTES = TopicRegistry({"note@3": Note}, UPCASTS)  # type: ignore[dict-item] # an event of the test's own


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("note@1", '{"text":"Grüße","by":"ada"}'),
        ("note@2", '{"by":"ada","words":"Grüße"}'),
        ("note@3", '{"words":"Grüße","by":"Ada"}'),
    ],
)
def test_old_payloads_are_brought_up_to_date_step_by_step(topic: str, payload: str) -> None:
    note: Any = NOTES.load(topic, payload.encode())

    assert note == Note(words="Grüße", by="Ada")
    assert NOTES.dump(note) == ("note@3", '{"words":"Grüße","by":"Ada"}'.encode())


def test_the_topics_of_a_kind_are_all_that_are_read_as_it() -> None:
    kinds: Any = (Note,)

    assert sorted(NOTES.topics(kinds)) == ["note@1", "note@2", "note@3"]
    assert NOTES.topics((Unknown,)) == ()
    assert REGISTRY.topics((LlmError, UserMessage)) == ("user_message@1", "llm_error@1")


def test_a_version_later_than_the_newest_is_unknown() -> None:
    assert NOTES.load("note@4", b"{}") == Unknown(topic="note@4", payload=b"{}")


@pytest.mark.parametrize("payload", [*HOSTILE.values(), b'{"text":{"sesame":1}}'])
def test_an_old_payload_that_cannot_be_brought_up_to_date_is_a_corrupt_log(payload: bytes) -> None:
    with pytest.raises(CorruptLogError, match=r"note@[123]") as caught:
        NOTES.load("note@1", payload)

    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "upcasts",
    [
        {"note@1": Upcast("note@2", _second)},
        {"note@1": Upcast("note@2", _second), "note@2": Upcast("note@1", _third)},
        {"note@3": Upcast("note@3", _third)},
    ],
    ids=["to nothing", "in a circle", "from what is registered"],
)
def test_upcasts_must_lead_from_an_old_topic_to_an_event(upcasts: dict[str, Upcast]) -> None:
    with pytest.raises(ValueError, match="upcasts from note@"):
        TopicRegistry({"note@3": Note}, upcasts)  # type: ignore[dict-item] # as above
