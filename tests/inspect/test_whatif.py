"""The what-if bar: the request under other conditions, in numbers; the same bytes as the command gives."""

from __future__ import annotations

import contextlib
import io
import re
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.projections.messages.body_digest import compact
from tests.command_line import run

from .words import words

HUGE = "9" * 5_000
"""Digits that Python refuses to read as a number."""
CONDITIONS = (
    {"budget": "200"},
    {"policy": "last:2"},
    {"mode": "run"},
    {"without": "3-5,8"},
    {"edit": ["2:Mend <b>nothing</b>: at all", "4:2 failed"]},
    {"budget": "300", "mode": "agent", "without": "6", "edit": ["2:Hello"]},
)


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
    for number in range(1, 12):
        talk.append(UserMessage(f"Please mend the part {number}.", to=["coder"]))
        call = ToolCall(id=f"c{number}", name="shell", arguments='{"cmd": "pytest"}')
        talk.append(AssistantMessage(agent="coder", parts=[call]))
        talk.append(ToolResult(call_id=f"c{number}", text=f"{number} failed"))
    return log


def options(conditions: dict[str, str | list[str]]) -> list[str]:
    """Return the conditions as options of `stenolog request`."""
    pairs = [
        (name, given)
        for name, value in conditions.items()
        for given in ([value] if isinstance(value, str) else value)
    ]
    return [word for name, given in pairs for word in (f"--{name}", given)]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_the_page_has_the_bytes_that_the_command_prints(
    web: TestClient, db: Path, conditions: dict[str, str | list[str]]
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        assert run(["request", "demo", "--at", "20", "--raw", "--db", str(db), *options(conditions)]) == 0
    out.seek(0)
    printed = out.read()

    asked = {"at": "20", "agent": "coder", **conditions}
    page = web.get("/part-whatif/demo", params=asked).text
    data = web.get("/whatif.json/demo", params=asked).json()["data"]

    assert printed == compact(data["other"]["body"])
    assert (f"{len(printed.encode()):,}" in page) == (not data["same"])
    assert ("nothing would be otherwise" in page) == data["same"]


def test_it_shows_what_is_otherwise_by_rule_and_whether_it_can_be_sent(web: TestClient) -> None:
    page = words(web.get("/whatif/demo?at=34&budget=300").text)
    assert "as it is" in page
    data = web.get("/whatif.json/demo?at=34&budget=300").json()["data"]
    gone = [each for each in data["other"]["omissions"] if each["rule"] == "over-budget"]
    last = max(each["last"] for each in gone)
    assert f" parts of 3 to {last}: over-budget · -" in page
    assert "yes" in page
    page = words(web.get("/whatif/demo?at=34&budget=5").text)
    assert "no : over budget" in page


def test_without_a_condition_it_is_the_request_as_it_is(web: TestClient) -> None:
    assert "no model is called" in web.get("/part-whatif/demo").text
    assert "nothing would be otherwise" in web.get("/part-whatif/demo?budget=100k").text


def test_the_fields_keep_what_was_asked_and_escape_it(web: TestClient) -> None:
    page = web.get("/whatif/demo", params={"at": "20", "edit": ["2:<b>x</b>"], "without": "3"}).text
    assert "2:&lt;b&gt;x&lt;/b&gt;</textarea>" in page
    assert 'name="without" value="3"' in page


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"edit": "nine:x"}, "expected a position and a text"),
        ({"edit": "99:x"}, "from 1 to 20"),
        ({"edit": f"{HUGE}:x"}, "expected a position and a text"),
        ({"without": HUGE}, "expected positions such as 91 or 40-44"),
        ({"without": "8-3"}, "expected the lower one first, found '8-3'"),
        ({"budget": HUGE}, "expected a whole number"),
        ({"policy": f"last:{HUGE}"}, "expected a whole number"),
        ({"policy": '{"x":' * 5_000}, "is no JSON"),
        ({"without": "1"}, "it is a mode switch"),
        ({"budget": "many"}, "many"),
        ({"policy": "some:3"}, "some"),
    ],
)
def test_a_condition_that_makes_no_sense_is_told_in_words(
    web: TestClient, asked: dict[str, str], why: str
) -> None:
    assert why in words(web.get("/part-whatif/demo", params={"at": "20", **asked}).text)
    assert web.get("/whatif.json/demo", params={"at": "20", **asked}).status_code in (400, 404)


@pytest.mark.parametrize("name", ["budget", "policy"])
def test_an_error_names_the_parameter_of_the_address_not_an_option_of_the_command_line(
    web: TestClient, name: str
) -> None:
    page = words(web.get("/part-whatif/demo", params={"at": "20", name: "many"}).text)

    assert page.startswith(f"{name}: ")


def test_every_change_of_the_bar_leads_to_the_difference(web: TestClient) -> None:
    page = web.get("/part-whatif/demo?at=20&without=5-7&mode=run").text
    [link] = re.findall(r'href="(/diff/[^"]*)"', page)
    assert "hidden" in web.get(unescape(link)).text


def test_the_log_is_as_it_was(web: TestClient, log: stenolog.Log) -> None:
    before = [entry.digest for entry in log["demo"].entries()]
    web.get("/whatif/demo?at=20&without=5-7&mode=run&edit=2:x&budget=200")
    assert [entry.digest for entry in log["demo"].entries()] == before


def test_the_page_of_a_request_has_the_bar_and_the_request_under_the_conditions(web: TestClient) -> None:
    page = web.get("/request/demo", params={"at": "20", "edit": ["2:Mend nothing."], "mode": "run"}).text
    assert 'id="whatif"' in page
    assert "Mend nothing." in page[page.index('id="panel"') :]
    [link] = re.findall(r'<a href="([^"]*)">Both requests in numbers', page)
    assert "2:Mend nothing.</textarea>" in web.get(unescape(link)).text
