"""The digests of a corpus, written, read, and compared with what the code of today makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stenolog import ModeSwitch, ToolResult, UserMessage
from stenolog.context import LastN, policy
from stenolog.domain.codec import REGISTRY
from stenolog.errors import InvalidEventError
from stenolog.events import Unknown
from stenolog.projections.analysis import regression
from stenolog.projections.analysis.regression import Compared, Digest, Fresh, RequestPlace
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import every_request
from tests.requests.given import ASKED, CALL, calls, log

CHAT, PLAIN = ({name: FORMATS[name]} for name in ("openai-chat", "plain"))
TALK = log(
    ModeSwitch(joins=("reviewer", "coder")),
    UserMessage(text="List the files", to=("coder",)),
    calls("I look.", CALL),
    ToolResult(call_id="c1", text="a.py"),
    calls("One file."),
    UserMessage(text="Thanks", to=("coder", "reviewer")),
)


def fresh(**given: Any) -> list[Fresh]:
    return list(regression.fresh(TALK, **given))


def digests(made: Iterable[Fresh]) -> list[Digest]:
    return [one.digest for one in made]


def test_every_request_that_anyone_would_send_is_there_once_and_in_order() -> None:
    places = [one.place for one in fresh(db="a.db")]
    expected = {
        RequestPlace("a.db", "talk", lane, request.at, api)
        for lane in ("coder", "reviewer")
        for api in FORMATS
        for request in every_request(TALK, lane, api=api)
        if request.ready
    }

    assert places == sorted(expected)


def test_what_is_written_is_read_again() -> None:
    made = fresh()
    head = regression.header(FORMATS, policy(LastN(3)))

    assert list(regression.read([regression.line(one.digest) for one in made])) == digests(made)
    assert regression.read_header(regression.header_line(head)) == head


def test_the_same_code_finds_the_same() -> None:
    assert {one.what for one in regression.compare(digests(fresh()), fresh())} == {"same"}


def test_a_request_that_would_be_another_is_named_with_its_first_difference() -> None:
    then = digests(fresh(apis=CHAT))
    said = list(TALK)
    said[3] = said[3]._replace(event=ToolResult(call_id="c1", text="b.py"))

    found = list(regression.compare(then, regression.fresh(said, apis=CHAT)))

    changed = [(one.place.lane, one.place.position, one.difference) for one in found if one.what == "changed"]
    assert changed == [
        ("coder", 4, "/messages/2"),
        ("coder", 6, "/messages/2"),
        ("reviewer", 6, "/messages/2"),
    ]


def test_what_is_new_and_what_has_vanished_is_told_apart() -> None:
    made = fresh(apis=PLAIN)
    then = digests([*made[:1], *made[2:]])
    other = RequestPlace("", "talk", "zoe", 3, "plain")

    found = regression.compare([*then, Digest(other, "0", {})], made)

    assert [one for one in found if one.what != "same"] == [
        Compared(made[1].place, "new"),
        Compared(other, "vanished"),
    ]


def test_nothing_against_nothing_is_nothing() -> None:
    assert list(regression.compare([], [])) == []
    assert [one.what for one in regression.compare(digests(fresh())[:2], [])] == ["vanished", "vanished"]
    assert [one.what for one in regression.compare([], fresh()[:2])] == ["new", "new"]


def test_where_all_sections_are_the_same_the_order_of_the_keys_is_not() -> None:
    (one, *_) = fresh(apis=CHAT)
    turned = one._replace(sha256="other", body=dict(reversed([*one.body.items()])))

    assert [found.difference for found in regression.compare([one.digest], [turned])] == [
        "the order of the keys"
    ]


def test_behind_what_this_release_does_not_know_nothing_is_sent() -> None:
    unknown = log(*(entry.event for entry in TALK[:2]), Unknown(topic="dream@7", payload=b"{}"), ASKED)
    stored = b'{"cards":{"coder":{"policy":{"mood":{}}}}}'
    later = log(*(e.event for e in TALK[:2]), REGISTRY.load("mode_switch@1", stored), ASKED)

    for entries in (unknown, later):
        found = [
            one.place.position for one in regression.fresh(entries, apis=PLAIN) if one.place.lane == "coder"
        ]
        assert found == [2]


def test_a_policy_is_for_all_and_stands_in_the_header() -> None:
    chosen = policy(LastN(1))
    full, short = fresh(apis=CHAT), fresh(apis=CHAT, policy=chosen)

    assert [one.place for one in full] == [one.place for one in short]
    assert full[-1].sha256 != short[-1].sha256
    assert regression.header(PLAIN, chosen).policy == {"history": {"kind": "last", "n": 1}}
    assert regression.header(PLAIN, None).policy is None


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["no json"], "line 2: expected JSON"),
        (["[]"], "line 2: expected an object, found list"),
        (["{}"], "line 2: expected a digest, found one without 'db'"),
    ],
)
def test_a_line_that_is_no_digest_is_refused_with_its_number(lines: list[str], complaint: str) -> None:
    with pytest.raises(InvalidEventError, match=complaint):
        list(regression.read(lines))


def test_a_file_out_of_order_is_refused_since_it_would_be_read_wrongly() -> None:
    first, second = (regression.line(one.digest) for one in fresh()[:2])

    with pytest.raises(InvalidEventError, match="line 3: expected a place behind"):
        list(regression.read([second, first]))


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"form": "other@1"})])
def test_a_file_without_its_header_is_refused(text: str) -> None:
    with pytest.raises(InvalidEventError, match="line 1"):
        regression.read_header(text)
