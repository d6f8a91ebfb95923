"""Entries, and the chain of digests that holds a log together."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import Entry, Event, UserMessage
from stenolog.domain.entry import (
    NewEntry,
    Record,
    check_name,
    content_hash,
    digest_of,
    microseconds,
    to_entry,
)
from stenolog.domain.erasure import DAMAGED, ERASED, LOST, is_gone
from stenolog.errors import CorruptLogError, InvalidEventError
from stenolog.events import Unknown, Usage
from stenolog.testing import START, entries, examples, records
from tests.strategies import histories, times

EXAMPLES = list(examples().values())


def chained(log: list[Record], before: bytes = b"") -> list[str]:
    """Return the recipe in the docstring of `stenolog.domain.entry`, followed by hand."""
    digests = []
    for record in log:
        lines = (record.position, record.id, record.time, record.topic, record.size)
        header = "".join(f"{line}\n" for line in lines).encode("utf-8")
        content = record.erased or hashlib.sha256(record.salt + record.payload).digest()
        before = hashlib.sha256(before + header + content).digest()
        digests.append(before.hex())
    return digests


def broken(log: list[Record], before: bytes = b"") -> list[int]:
    """Return the indices of the records whose digest is not what it must be."""
    found = []
    for index, record in enumerate(log):
        if digest_of(before, record) != record.digest:
            found.append(index)
        before = record.digest
    return found


@given(history=histories())
def test_the_digests_are_those_of_the_recipe(history: list[Event]) -> None:
    log = records(*history)

    assert [record.digest.hex() for record in log] == chained(log)
    assert broken(log) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position", 7),
        ("id", "e9"),
        ("time", 0),
        ("topic", "user_message@2"),
        ("salt", b"pepper"),
        ("payload", b"{}"),
        ("size", 2),
        ("digest", bytes(32)),
        ("erased", bytes(32)),
    ],
)
@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_an_edit_of_any_field_of_any_record_is_found(index: int, field: str, value: Any) -> None:
    log = records(*EXAMPLES)
    log[index] = log[index]._replace(**{field: value})

    assert index in broken(log)


@given(bit=st.integers(min_value=0))
def test_a_bit_that_is_flipped_in_a_payload_is_found(bit: int) -> None:
    log = records(*EXAMPLES)
    payload = bytearray(log[2].payload)
    payload[bit // 8 % len(payload)] ^= 1 << bit % 8
    log[2] = log[2]._replace(payload=bytes(payload))

    assert broken(log) == [2]


@pytest.mark.parametrize("order", [(1, 0, 2, 3, 4), (0, 1, 3, 2, 4), (4, 3, 2, 1, 0)])
def test_another_order_is_found(order: tuple[int, ...]) -> None:
    log = records(*EXAMPLES)

    assert broken([log[index] for index in order]) != []


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_record_that_is_missing_from_the_middle_is_found(missing: int) -> None:
    log = records(*EXAMPLES)
    del log[missing]

    assert broken(log) == [missing]


def test_a_tail_that_was_cut_off_is_not_found_by_the_chain() -> None:
    """Only a head that was kept elsewhere can tell."""
    assert broken(records(*EXAMPLES)[:-1]) == []


def test_the_name_of_the_conversation_is_no_part_of_its_digests() -> None:
    one, other = entries(*EXAMPLES), entries(*EXAMPLES, conversation="renamed")

    assert [entry.digest for entry in one] == [entry.digest for entry in other]


def test_the_same_events_after_another_beginning_have_other_digests() -> None:
    log = records(*EXAMPLES)

    assert chained(log, before=bytes(32)) != chained(log)


def test_an_erased_record_still_verifies_and_tells_only_its_size() -> None:
    log = records(*EXAMPLES)
    content = content_hash(log[0].salt, log[0].payload)
    log[0] = log[0]._replace(salt=b"", payload=b"", erased=content)

    assert broken(log) == []
    assert chained(log) == [record.digest.hex() for record in log]
    assert log[0].size == len(records(EXAMPLES[0])[0].payload)


def test_the_salt_keeps_a_short_payload_from_being_guessed() -> None:
    assert content_hash(b"pepper", b"{}") != content_hash(b"salt", b"{}")


def test_an_entry_is_its_record_with_the_event_decoded() -> None:
    record = records(*EXAMPLES)[1]

    assert to_entry("demo", record) == Entry(
        conversation="demo",
        position=2,
        id="e2",
        time=START + timedelta(seconds=2),
        digest=record.digest.hex(),
        event=EXAMPLES[1],
    )


@pytest.mark.parametrize(
    "damage", [{"payload": b'{"sesame"'}, {"time": 2**63 - 1}, {"time": -(2**63)}], ids=str
)
def test_a_damaged_record_is_named_by_conversation_and_position(damage: dict[str, Any]) -> None:
    record = records(*EXAMPLES)[1]._replace(**damage)

    with pytest.raises(CorruptLogError, match="'demo' at position 2: ") as caught:
        to_entry("demo", record)

    assert "sesame" not in str(caught.value)


@given(at=times(), offset=st.integers(-23, 23))
def test_a_time_is_kept_to_the_microsecond_whatever_its_offset(at: datetime, offset: int) -> None:
    zone = timezone(timedelta(hours=offset))
    try:
        elsewhere = at.astimezone(zone)
    except OverflowError:
        elsewhere = at

    [entry] = entries(NewEntry(UserMessage(), time=elsewhere))

    assert (entry.time, entry.time.tzinfo) == (at, UTC)


@pytest.mark.parametrize(
    "at",
    [datetime(2026, 1, 1), datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))],
    ids=["naive", "the year 10000"],
)
def test_a_time_that_is_none_in_utc_is_refused(at: datetime) -> None:
    with pytest.raises(InvalidEventError, match="time: expected an aware datetime"):
        microseconds(at)


@pytest.mark.parametrize("name", ["a", "tau-bench 3/1", "Gespräch №7", "x" * 200])
def test_a_name_is_printable_text(name: str) -> None:
    assert check_name(name, what="conversation") == name


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\x00", "\ud800", "\u202e", "x" * 201])
def test_what_is_no_name_is_refused_and_said_what_it_was_for(name: str) -> None:
    with pytest.raises(InvalidEventError, match="entry id: expected") as caught:
        check_name(name, what="entry id")

    assert str(caught.value).isprintable()


# Values and entries that other rooms ask the domain about.


def test_what_was_used_since_is_a_difference_or_all_of_it_for_a_new_session() -> None:
    before, after = Usage(input=100, output=10), Usage(input=250, output=30)

    assert after.since(before) == Usage(input=150, output=20)
    assert before.since(after) == before


def test_an_entry_is_gone_if_it_was_erased_or_damaged_or_lost_and_not_if_it_is_only_unknown() -> None:
    gone = [Unknown(topic=topic, payload=b"{}") for topic in (ERASED, DAMAGED, LOST)]
    there: list[Event] = [Unknown(topic="later@1", payload=b"{}"), UserMessage("hi")]

    assert [is_gone(event) for event in (*gone, *there)] == [True, True, True, False, False]
