"""Values in a transcript that are not what they should be: mended and counted, or kept as they are."""

from __future__ import annotations

import codecs
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult
from stenolog.contrib.workflow.files import at_of
from stenolog.events import CallRef
from stenolog.importers import as_time
from tests.transcripts.crewagent_given import folder, imported, index
from tests.transcripts.given import (
    SESSION,
    Import,
    assistant,
    lines,
    record,
    tool_result,
    tool_use,
    user,
)
from tests.transcripts.soundness import said, with_raw, words
from tests.transcripts.test_crewagent import A_TURN

pytestmark = pytest.mark.usefixtures("sound")

DEEP = "[" * 50_000 + "]" * 50_000
HUGE = 10**30
GO = user("u1", None, "Go")
ON = user("u3", "u1", "On")


def chat(*messages: dict[str, Any]) -> bytes:
    return json.dumps(messages).encode()


def called(*arguments: object) -> dict[str, Any]:
    """Return an answer with one call for each of the arguments, all of the same id."""
    calls = [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": each}} for each in arguments
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


# Text that is no text


@pytest.mark.parametrize(
    ("raw", "mended", "repaired"),
    [
        pytest.param(b'"a \\ud83d b"', "a \ufffd b", {"lone surrogates": 1}, id="half a pair"),
        pytest.param(b'"a \\ude00\\ud83d b"', "a \ufffd\ufffd b", {"lone surrogates": 2}, id="wrong order"),
        pytest.param(b'"a \\ud83d\\ude00 b"', "a \U0001f600 b", {}, id="a pair"),
        pytest.param(b'"caf\xe9"', "caf\ufffd", {"bytes that are not UTF-8": 1}, id="Windows-1252"),
        pytest.param(
            b'"a \xed\xa0\xbd b"', "a \ufffd\ufffd\ufffd b", {"bytes that are not UTF-8": 3}, id="raw half"
        ),
        pytest.param(b'"a\\u0000b"', "a\0b", {}, id="escaped NUL"),
        pytest.param('"a \ufffd b"'.encode(), "a \ufffd b", {}, id="a replacement character of its own"),
    ],
)
def test_text_that_is_no_text_is_mended_and_counted(
    into: Import, raw: bytes, mended: str, repaired: dict[str, int]
) -> None:
    into.records(GO, with_raw(user("u2", "u1", "@"), raw), ON)

    assert words(into) == ["Go", mended, "On"]
    assert (dict(into.report.repaired), into.report.skipped) == (repaired, [])


def test_a_lone_surrogate_in_a_key_and_in_an_id_is_mended_too(into: Import) -> None:
    into.records(GO, assistant("a\ud83d", "u1", tool_use("t\ud83d", **{"k\ud83d": "v"})))

    answer = into.said[1]
    assert isinstance(answer, AssistantMessage)
    assert [(call.id, call.arguments) for call in answer.tool_calls] == [("t\ufffd", '{"k\ufffd":"v"}')]


@pytest.mark.parametrize("end", [b"\r\n", b"\n\n", b" \n"])
def test_a_byte_order_mark_and_other_line_ends_change_nothing(into: Import, end: bytes) -> None:
    into.file(codecs.BOM_UTF8 + lines(GO, ON).replace(b"\n", end))

    assert (words(into), into.report.skipped, into.report.incomplete) == (["Go", "On"], [], 0)


# Numbers that are no numbers


def test_nan_and_infinities_become_their_names_and_are_counted(into: Import) -> None:
    call = assistant("a1", "u1", tool_use("t", low="@", high="@"))
    into.records(GO, with_raw(call, "NaN").replace(b'"high": NaN', b'"high": [-Infinity, 1e999]'))

    answer = into.said[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls[0].arguments == '{"low":"NaN","high":["-Infinity","1e999"]}'
    assert into.report.repaired == {"NaN and infinities": 3}


def test_huge_integers_are_kept_in_arguments_and_bounded_in_counts(into: Import) -> None:
    answer = assistant("a1", "u1", tool_use("t", n=HUGE))
    answer["message"]["usage"] = {"input_tokens": HUGE, "output_tokens": -HUGE}
    into.records({**GO, "timestamp": 10**400}, answer)

    told = into.said[1]
    assert isinstance(told, AssistantMessage)
    assert told.usage is not None
    assert (told.tool_calls[0].arguments, told.usage.output) == (f'{{"n":{HUGE}}}', 0)
    assert 0 < told.usage.input < HUGE


def test_a_huge_integer_beside_a_message_stops_nothing(into: Import) -> None:
    into.file(chat(said("One", seed=HUGE), said("Two", timestamp=10**400), said("Three")))

    assert (words(into), into.report.conversations[0].failed) == (["One", "Two", "Three"], "")


# Calls and results


def test_a_call_id_used_twice_in_one_message_is_two_calls(into: Import) -> None:
    into.records(
        GO,
        assistant("a1", "u1", tool_use("t", n=1), tool_use("t", n=2)),
        user("r1", "a1", [tool_result("t", "one"), tool_result("t", "two")]),
    )

    results = [(event.text, event.call) for event in into.said if isinstance(event, ToolResult)]
    assert results == [("one", CallRef(entry="a1", index=0)), ("two", CallRef(entry="a1", index=1))]


@pytest.mark.parametrize(
    "arguments",
    ["", "{not json", "[1]", '"x"', "NaN", '{"a": NaN}', '{"a": 1e999}', DEEP, '{"a": ' + "9" * 5000 + "}"],
    ids=lambda given: given[:12] or "empty",
)
def test_arguments_that_are_no_json_are_kept_as_they_are(into: Import, arguments: str) -> None:
    into.file(chat(said("Go"), called(arguments), {"role": "tool", "tool_call_id": "c", "content": "Done"}))

    answer = into.said[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls[0].arguments == arguments


def test_calls_of_any_shape_are_calls(into: Import) -> None:
    into.records(
        GO,
        assistant(
            "a1", "u1", {"type": "tool_use", "id": 7, "name": None, "input": [1]}, {"type": "tool_use"}
        ),
        assistant("a2", "a1", {"type": "tool_use", "id": "t", "name": "B", "input": "no object"}),
    )

    calls = [call for event in into.said if isinstance(event, AssistantMessage) for call in event.tool_calls]
    assert [call.arguments for call in calls] == ["[1]", "{}", "no object"]
    assert all(call.id for call in calls)


def test_a_result_before_its_call_stands_alone_and_the_call_has_none(into: Import) -> None:
    early = user("r1", "u1", [tool_result("t", "early")])
    into.records(GO, early, assistant("a1", "r1", tool_use("t")), user("u2", "a1", "Well?"))

    early_result, none = (event for event in into.said if isinstance(event, ToolResult))
    assert (early_result.text, early_result.call) == ("early", None)
    assert (none.text, none.call) == ("No result: the call was interrupted.", CallRef(entry="a1"))
    assert words(into) == ["Go", "early", "", "Well?", none.text]


# Records nobody knows


def test_records_of_unknown_types_are_counted_by_their_type(into: Import) -> None:
    odd = [record("brand-new", "n1", None), {"type": ["x"], "sessionId": SESSION}, {"type": None}, {}]
    into.records(GO, *odd, ON)

    assert into.report.conversations[0].ignored == {"brand-new": 1, "['x']": 1, "None": 2}
    assert words(into) == ["Go", "On"]


def test_messages_in_unknown_roles_are_counted(into: Import) -> None:
    into.records(said("Go"), {"role": "narrator", "content": "Night falls."}, said("On"))

    assert into.report.conversations[0].ignored == {"role 'narrator'": 1}
    assert words(into) == ["Go", "On"]


# Times in foreign files: text, seconds or milliseconds, and whatever else somebody may have put there.


NEVER = datetime(1, 1, 1, tzinfo=UTC)
MARCH = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "told", ["2026-03-02T09:00:00Z", "2026-03-02T10:00:00+01:00", "2026-03-02", 1772442000, 1772442000000.0]
)
def test_a_time_is_text_or_seconds_or_milliseconds(told: Any) -> None:
    assert as_time(told) in (MARCH, MARCH.replace(hour=0))


@pytest.mark.parametrize(
    "told",
    [
        10**400,
        -(10**400),
        10**18,
        1e308,
        float("inf"),
        float("nan"),
        True,
        None,
        "",
        "soon",
        "0001-01-01T00:00+09:00",
    ],
)
def test_what_is_no_time_is_the_default(told: Any) -> None:
    assert as_time(told, NEVER) is NEVER


@pytest.mark.parametrize("told", ["9" * 5000, "1" * 400])
def test_digits_that_are_no_time_are_none(told: str) -> None:
    assert at_of({"createdAt": told}) is None


def test_a_time_that_nobody_can_read_stops_neither_its_conversation_nor_another(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, odd=[{**A_TURN[0], "timestamp": 10**400}], good=A_TURN)
    index(made, [{"id": "odd", "createdAt": 10**400}, {"id": "good", "createdAt": -(10**400)}])

    imported(into.log, made)

    assert list(into.log) == ["odd", "good"]
