"""The beginning that two requests share: how long it is, what ended it, and which entry did that."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, UserMessage
from stenolog.context import LastN
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.shared_prefix import (
    SharedPrefix,
    first_byte,
    first_change_words,
    first_pointer,
    shared_prefix,
)
from stenolog.projections.requests import APIS, build
from stenolog.projections.requests.body_digest import compact
from stenolog.projections.requests.comparison import diff
from stenolog.testing import entries

CARD = AgentCard(model="gpt-5.2", persona="You mend what is broken.")
TALK: list[Event] = [
    ModeSwitch(cards={"coder": CARD}, joins=("coder",)),
    UserMessage(text="one", to=("coder",)),
    AssistantMessage(agent="coder", text="two"),
    UserMessage(text="three", to=("coder",)),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def prefix(
    first: Sequence[Event], last: Sequence[Event], api: str = "anthropic", **asked: object
) -> SharedPrefix:
    before = build(entries(*first), "coder", api=api)
    after = build(entries(*last), "coder", api=api, **asked)  # type: ignore[arg-type]
    return shared_prefix(before, after, diff(before, after), entries(*last)[len(first) :])


def test_equal_requests_share_everything_and_have_no_first_change() -> None:
    found = prefix(TALK, TALK)
    assert (found.fresh, found.again, found.first) == (0, 0, None)


@pytest.mark.parametrize("api", APIS)
def test_what_was_only_added_reads_nothing_anew(api: str) -> None:
    more = [*TALK, AssistantMessage(agent="coder", text="four"), UserMessage(text="five", to=("coder",))]
    found = prefix(TALK, more, api)
    assert found.first is not None
    assert (found.first.kind, found.again) == ("appended", 0)
    assert found.shared + found.fresh == build(entries(*more), "coder", api=api).size.tokens
    assert first_change_words(found.first) == "entry 5 came behind all that was there"


def test_a_rewind_is_named_as_the_cause_of_what_it_hides() -> None:
    hide = ModeSwitch(hides=(PositionRange(first=2, last=3),))
    found = prefix(TALK, [*TALK, hide])
    assert found.first is not None
    assert (found.first.kind, found.first.rule, found.first.cause) == ("left out", "hidden", 5)
    assert found.first.positions == (2,)
    assert found.first.pointer.startswith("/messages/0")
    assert found.again > 0  # the last message was sent before, and no longer stands behind the same words
    assert "entry 2: left out, hidden, by entry 5" in first_change_words(found.first)


def test_a_summary_is_named_as_the_cause_of_what_it_covers() -> None:
    summary = AssistantMessage(
        agent="coder", purpose="summary", text="all", covers=(PositionRange(first=2, last=3),)
    )
    found = prefix(TALK, [*TALK, summary])
    assert found.first is not None
    assert (found.first.rule, found.first.cause) == ("covered", 5)


def test_a_changed_setting_beside_the_messages_ends_the_beginning_before_them() -> None:
    other = ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2", persona="You break what is whole.")})
    found = prefix(TALK, [*TALK, other])
    assert found.first is not None
    assert (found.first.kind, found.first.pointer, found.first.cause) == (
        "beside the messages",
        "/system/0/text",
        5,
    )
    assert found.shared == 0
    assert found.again > 0


def test_another_model_has_nothing_in_its_cache() -> None:
    other = ModeSwitch(cards={"coder": AgentCard(model="gpt-6", persona=CARD.persona)})
    assert prefix(TALK, [*TALK, other]).shared == 0


def test_a_cut_names_its_rule() -> None:
    found = prefix(TALK, TALK, policy=LastN(1))
    assert found.first is not None
    assert found.first.rule in ("beyond-last", "cut-note")


@given(JSON, JSON)
def test_the_first_pointer_is_to_the_value_that_the_first_byte_is_in(one: object, other: object) -> None:
    left, right = compact(one).encode(), compact(other).encode()
    byte = first_byte(left, right)
    assert left[:byte] == right[:byte]
    if left == right:
        assert byte == len(left)
        return
    assert left[byte : byte + 1] != right[byte : byte + 1]
    pointer = first_pointer(json.loads(left), json.loads(right))
    there = [_at(value, pointer) for value in (json.loads(left), json.loads(right))]
    assert there[0] != there[1] or compact(there[0]) != compact(there[1])


def _at(value: object, pointer: str) -> object:
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else "nothing there"
        elif isinstance(value, dict):
            value = (value[name], [*value].index(name)) if name in value else "nothing there"
            value = value[0] if isinstance(value, tuple) and isinstance(value[0], dict | list) else value
        elif isinstance(value, tuple):
            value = value[0]
    return value
