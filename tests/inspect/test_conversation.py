"""The page of a conversation: rows with lanes, calls with their results, marks below the slider, filters."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, LlmError, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries import folds
from stenolog.apps.inspect.conversation_index import ConversationIndex, nearest
from stenolog.apps.inspect.entries.rows import columns
from stenolog.apps.inspect.entries.ticks import band, drawn, runs, runs_written
from stenolog.apps.inspect.index_cache import STORED, IndexCache
from stenolog.apps.inspect.request_view.marks import RequestMarks
from stenolog.context import LastN, Pins
from stenolog.domain.entry import NewEntry
from stenolog.domain.events import Event
from stenolog.domain.parts import ReasoningPart, TextPart

from .words import words

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", persona="You mend what is broken.")
    events: tuple[Event, ...] = (
        UserMessage("Which test fails?", to=["coder"]),
        AssistantMessage(
            agent="coder",
            parts=[
                ReasoningPart(text="I should look first."),
                TextPart(text="I look."),
                ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest"}'),
                ToolCall(id="c2", name="read", arguments='{"path": "a.py"}'),
            ],
        ),
        ToolResult(call_id="c1", text="1 failed", is_error=True),
        ToolResult(call_id="nobody", text="lost"),
        AssistantMessage(agent="coder", text="Please help.", to=["reviewer"]),
        AssistantMessage(agent="reviewer", text="Gladly.", to=["coder"]),
        LlmError(agent="coder", category="timeout", message="no token"),
    )
    talk.extend([NewEntry(event, time=NOON + timedelta(seconds=nth)) for nth, event in enumerate(events)])
    return log


def row(page: str, position: int) -> str:
    """Return the row of a position."""
    found = re.search(rf'(?s)<li id="p{position}".*?</li>', page)
    assert found, page
    return found[0]


def positions(page: str) -> list[int]:
    """Return the positions of the rows."""
    return [int(each) for each in re.findall(r'<li id="p(\d+)"', page)]


def test_a_result_stands_under_the_name_of_its_tool_with_the_time_that_it_took(web: TestClient) -> None:
    shown = row(web.get("/rows/demo").text, 4)
    assert "shell ✗ 1 failed" in words(shown)
    assert "1.0 s" in words(shown)
    assert re.search(r'<rect width="\d+"', shown)
    assert 'data-pair="3"' in shown


def test_a_call_without_a_result_and_a_result_without_a_call_are_marked_as_faults(web: TestClient) -> None:
    page = web.get("/rows/demo").text
    assert "no result: the agent went on without one" in row(page, 3)
    assert "a result without its call" in row(page, 5)
    assert "fault" not in row(page, 6)


def test_a_call_that_may_still_be_answered_is_no_fault(web: TestClient, log: stenolog.Log) -> None:
    log["open"].append(AssistantMessage(agent="a", parts=[ToolCall(id="c", name="shell", arguments="{}")]))
    assert "fault" not in row(web.get("/rows/open").text, 1)
    assert "no result yet" in web.get("/card/open").text


def test_thoughts_stand_behind_the_words(web: TestClient) -> None:
    shown = row(web.get("/rows/demo").text, 3)
    said, _, thought = shown.partition("<i>")
    assert "I look." in said
    assert thought.startswith("(thinks: I should look first.)</i>")


def test_an_entry_is_shown_whole_with_its_calls_and_their_results(web: TestClient) -> None:
    shown = words(web.get("/card/demo?at=3").text)
    assert "I look. shell pytest 4 ✗ failed · 1.0 s · who asked 1 failed" in shown
    assert "read a.py no result: the agent went on without one" in shown
    assert "thought: I should look first." in shown
    result = words(web.get("/card/demo?at=4").text)
    assert result.startswith("4 tool shell")
    assert "3 shell pytest ✗ failed · 1.0 s · who asked 1 failed" in result


def test_the_lanes_stand_beside_the_rows_with_a_curve_from_one_to_another(web: TestClient) -> None:
    page = web.get("/rows/demo").text
    assert 'class="lane-1"' in row(page, 3)
    assert re.search(r'<path class="lane-2" d="M\d+ 13C', row(page, 6))
    assert '<circle class="lane-2"' in row(page, 7)


def test_a_lane_that_has_ended_leaves_its_column_to_the_next_one() -> None:
    assert columns({"": (0, 90), "a": (1, 90), "b": (5, 10), "c": (11, 20), "d": (15, 30)}) == {
        "": 0,
        "a": 1,
        "b": 2,
        "c": 2,
        "d": 3,
    }
    many = {f"agent{number}": (number, 1000) for number in range(1, 100)}
    assert max(columns({"": (0, 0), **many}).values()) == 7


def test_a_fork_is_a_branch_with_a_link_to_its_page(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].fork(after=2, name="other")
    assert 'class="fork" href="/c/other"' in row(web.get("/rows/demo").text, 2)
    assert 'class="fork" href="/c/demo?at=2"' in web.get("/c/other").text


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("only=errors", [4, 5, 8]),
        ("only=tools", [4, 5]),
        ("of=reviewer", [7]),
        ("only=answers&of=coder", [3, 6]),
        ("q=gladly", [7]),
        ("only=cuts", []),
    ],
)
def test_a_list_can_be_narrowed_and_the_address_keeps_it(
    web: TestClient, filters: str, found: list[int]
) -> None:
    page = web.get(f"/c/demo?{filters}&at=4").text
    assert positions(page) == found
    assert f'data-total="{len(found)}"' in page
    assert all(filters.replace("&", "&amp;") in row(page, position) for position in found)


def test_a_kind_that_is_none_is_refused(web: TestClient) -> None:
    answer = web.get("/c/demo?only=cats")
    assert (answer.status_code, "expected one of messages" in answer.text) == (400, True)


def test_a_page_of_a_long_conversation_holds_a_part_of_it(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].extend([UserMessage(f"{number}") for number in range(3000)])
    page = web.get("/c/demo?at=1500").text
    assert 1500 in positions(page)
    assert page.count("<") < 2000
    assert "Earlier entries" in page
    assert "Later entries" in page
    assert positions(web.get("/rows/demo?around=1500&count=10").text) == [*range(1495, 1505)]
    assert positions(web.get("/rows/demo?index=2990&count=50").text) == [*range(2991, 3009)]


def test_the_page_leads_to_the_error_before_and_the_next_one(web: TestClient) -> None:
    page = web.get("/c/demo?at=4&agent=coder").text
    assert '<a data-error="before" href="/c/demo?at=3&amp;agent=coder"' in page
    assert '<a data-error="after" href="/c/demo?at=5&amp;agent=coder"' in page
    assert 'data-errors="3 4 5 8"' in page
    assert nearest([3, 4, 5, 8], 8) == (5, None)


def test_the_middle_of_a_long_request_stands_on_its_own_page(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].extend([UserMessage(f"Question {number}", to=["coder"]) for number in range(400)])
    page = web.get("/panel/demo?agent=coder").text
    assert page.count('class="part') <= 101
    assert "are not shown here" in words(page)
    assert "Question 399" in page


def test_entries_can_be_read_where_no_request_can_be_built(web: TestClient, log: stenolog.Log) -> None:
    log["people"].append(UserMessage("Is anybody there?"))
    answer = web.get("/c/people")
    assert (answer.status_code, "Is anybody there?" in answer.text) == (200, True)


def test_marks_below_a_slider_stay_few_however_long_a_conversation_is() -> None:
    [marks] = drawn({"errors": range(1, 50_001), "cuts": []}, 50_000)
    assert (marks.kind, marks.number) == ("errors", 50_000)
    assert marks.path.count("M") <= 481
    strokes = band(dict.fromkeys(range(1, 50_000, 2), "kept"), 50_000)
    assert strokes[0].path.count("M") <= 481


def test_what_a_request_makes_of_entries_is_written_in_runs() -> None:
    assert runs_written(
        {1: "kept", 2: "left-out", 3: "left-out", 4: "kept"}
    ) == "kept 1-1,4;left-out 2-3".replace("1-1", "1")


def test_an_index_is_stored_and_goes_on_from_there(log: stenolog.Log) -> None:
    talk = log["demo"]
    talk.extend([UserMessage(f"{number}", to=["coder"]) for number in range(600)])
    fresh = IndexCache().of(talk)
    assert folds.load_checkpoint(talk, STORED, None)[1] == len(talk)
    call = ToolResult(call_id="c2", text="print(1)")
    talk.append(call)
    again = IndexCache().of(talk)
    assert again.results[len(talk)].tool == "read"
    assert again.results[4] == fresh.results[4]
    whole = ConversationIndex()
    for entry in talk:
        whole.take(entry)
    assert whole.dump() == again.dump()


@pytest.mark.parametrize("stored", [b"{}", b"[]", b"nonsense", b'{"position": 3}'])
def test_what_is_no_index_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser of JSON raises its own
        ConversationIndex.load(stored)


def test_an_index_of_a_conversation_that_was_put_back_begins_anew(log: stenolog.Log) -> None:
    cache, talk = IndexCache(), log["demo"]
    cache.of(talk)
    talk.delete()
    talk = log["demo"]
    talk.append(UserMessage("new"))
    assert cache.of(talk).kinds == b"mu"


def test_the_marks_of_a_request_are_the_same_in_runs_and_by_position(log: stenolog.Log) -> None:
    talk = log["marks"]
    talk.join("coder", model="gpt-5.2", policy=[LastN(3), Pins(tags=["keep"])])
    for number in range(30):
        talk.append(UserMessage(f"{number}", to=["coder"], tags=["keep"] if number % 7 == 3 else []))
    request = talk.request("coder")
    marks = RequestMarks(request)
    assert marks.runs == runs(dict(marks))
    assert len(marks) == len(dict(marks))
    assert {"kept", "left-out"} <= marks.runs.keys()
