"""The page on which a conversation is read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, Event, LlmError, ToolCall, ToolResult, UserMessage
from stenolog.domain.entry import NewEntry
from stenolog.events import Usage
from stenolog.parts import ImagePart, ReasoningPart, TextPart

from .words import words

BRIEF = "Look for every caller of parse in this folder."
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def _call(id: str, name: str, **arguments: str) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


@pytest.fixture
def log() -> stenolog.Log:
    opened = stenolog.open(":memory:")
    talk = opened["talk"]
    talk.join("claude", model="claude-sonnet-4-5")
    edit = _call("1", "Edit", file_path="parser.py", old_string="return time(h, m)", new_string="return 0")
    said = partial(AssistantMessage, agent="claude", model="claude-sonnet-4-5")
    usage = Usage(input=20_000, output=40, cache_read=10_000)
    events: list[Event] = [
        UserMessage(parts=[TextPart("Which **test** fails?"), ImagePart(url=PIXEL)], to=["claude"]),
        said(parts=[ReasoningPart(text="It may be local time."), edit], usage=usage),
        ToolResult(call_id="1", name="Edit", text="Done."),
        said(parts=[_call("2", "Task", prompt=BRIEF)], usage=usage),
        UserMessage(BRIEF, author="claude", author_kind="agent", to=["explore"]),
        AssistantMessage(agent="explore", text="Only cron.py calls it."),
        ToolResult(call_id="2", name="Task", text="Only cron.py calls it."),
        said(text="Fixed: `parse` is called by cron.py alone.", usage=usage),
        UserMessage("Now run the tests.", to=["claude"]),
        LlmError(agent="claude", category="timeout"),
    ]
    start = datetime(2026, 1, 5, 9, tzinfo=UTC)
    new = [NewEntry(event, f"e{nth}", start + timedelta(seconds=nth)) for nth, event in enumerate(events)]
    talk.extend(new, expected=talk.position)
    return opened


def test_both_sides_are_read_with_markdown_a_diff_and_a_picture(web: TestClient) -> None:
    page = web.get("/read/talk").text

    assert "Which <strong>test</strong> fails?" in page
    assert re.search(r'class="gd">- return time\(h, m\)\n</span><span class="gi">\+ return 0', page)
    assert "thought: It may be local time." in words(page)
    source = re.search(r'src="(/picture/[^"]+)"', page)
    assert source
    answer = web.get(source[1].replace("&amp;", "&"))
    assert (answer.headers["content-type"], answer.content[:4]) == ("image/png", b"\x89PNG")


def test_a_result_is_with_its_call_and_a_sub_agent_is_folded_where_it_was_called(web: TestClient) -> None:
    page = web.get("/read/talk").text
    first = page.partition("explore: " + BRIEF)[0]

    assert page.count("Done.") == 1
    assert "Only cron.py calls it." not in first
    assert 'data-position="7"' not in page.partition('id="text"')[2]  # what the sub-agent did
    inner = words(web.get("/piece/talk?of=explore&first=6").text)
    assert BRIEF in inner
    assert "Only cron.py calls it." in inner


def test_the_outline_has_turns_with_their_cost_and_a_turn_has_an_address(web: TestClient) -> None:
    outline = words(web.get("/outline/talk").text)
    assert re.search(
        r"1 Which \*\*test\*\* fails\? .*0\.\d+ ↳ Look for every caller .* 2 Now run the tests\.", outline
    )
    assert "✗1" in outline.partition("2 Now")[2]

    turn = web.get("/read/talk?turn=2").text
    assert re.search(r'id="p10"[^>]*data-turn="2"[^>]* aria-current="true"', turn)
    assert web.get("/read/talk?turn=3").status_code == 404


def test_a_conversation_that_is_over_opens_at_its_first_turn_and_a_live_one_at_its_end(
    web: TestClient, log: stenolog.Log
) -> None:
    current = re.compile(r'id="p(\d+)"[^>]* aria-current="true"')
    assert current.findall(web.get("/read/talk").text) == ["2"]
    log["talk"].append(UserMessage("One more."))
    assert current.findall(web.get("/read/talk").text) == ["12"]
    later = NewEntry(UserMessage("Much later."), "later", datetime.now(UTC) + timedelta(days=1))
    log["talk"].extend([later], expected=12)
    assert current.findall(web.get("/read/talk").text) == ["2"]


def test_a_message_shows_the_request_of_the_agent_that_it_is_for(web: TestClient, log: stenolog.Log) -> None:
    talk = log["crew"]
    talk.join("anna", model="gpt-5.2")
    talk.join("ben", model="gpt-5.2")
    talk.extend([UserMessage("Ben, the tests?", to=["ben"]), UserMessage("All of you?")])
    lanes = re.compile(r'data-position="(\d+)"[^>]*data-lane="(\w*)"')

    page = web.get("/read/crew?at=3").text
    assert ("3", "ben") in lanes.findall(page)
    assert "/request/crew?at=3&amp;agent=ben" in page
    assert ("4", "") in lanes.findall(page)
    named = web.get("/read/crew?at=4&agent=ben").text
    assert ("4", "ben") in lanes.findall(named)
    assert "/request/crew?at=4&amp;agent=ben" in named


def test_words_of_an_answer_lead_to_the_entry_that_put_them_into_its_request(web: TestClient) -> None:
    found = web.get("/origins/talk?agent=claude&at=8&view=8&words=called+by+CRON.py").text
    assert 'data-entry="8"' in found
    assert "<mark>cron.py</mark>" in found
    own = web.get("/origins/talk?agent=claude&at=9&view=8&words=zebra").text
    assert "not in this request: the model's own words" in words(own)


def test_words_that_no_model_wrote_are_not_called_its_own(web: TestClient) -> None:
    for asked in ("at=8&view=8", "at=2&view=2", "at=8", "at=10&view=9"):
        found = words(web.get(f"/origins/talk?agent=claude&{asked}&words=zebra").text)
        assert "not in this request" in found, asked
        assert "own words" not in found, asked


def test_a_result_and_its_call_name_the_position_of_the_result_for_selected_words(web: TestClient) -> None:
    piece = web.get("/piece/talk?first=3&count=1").text
    assert re.search(r'class="output" data-result="4">.*Done\.', piece, re.DOTALL)
    assert 'data-entry="4"' in web.get("/origins/talk?agent=claude&at=4&view=4&words=Done").text


def test_a_link_or_a_hit_in_a_sub_agent_leads_to_its_entries(web: TestClient) -> None:
    current = re.compile(r'id="p(\d+)"[^>]* aria-current="true"')
    for at, lane in ((6, "explore"), (7, "explore"), (5, ""), (8, ""), (9, "")):
        page = web.get(f"/read/talk?at={at}").text
        assert f'data-of="{lane}" data-total' in page
        assert current.findall(page) == ["5" if at == 8 else str(at)]  # a result is with its call
    assert 'href="/read/talk?at=5">Back to the whole conversation' in web.get("/read/talk?at=7").text
    found = web.get("/read/talk?at=2&q=cron").text.partition('class="hits"')[2].partition("</ol>")[0]
    hits = re.findall(r'<a( data-entry="\d+")? href="[^"]*at=(\d+)', found)
    assert sorted(hits, key=lambda hit: int(hit[1])) == [
        ("", "7"),
        (' data-entry="8"', "8"),
        (' data-entry="9"', "9"),
    ]


def test_pieces_lead_through_the_whole_conversation_both_ways(web: TestClient) -> None:
    def positions(page: str) -> list[int]:
        return [int(at) for at in re.findall(r'class="item[^>]*data-position="(\d+)"', page)]

    whole = positions(web.get("/piece/talk?first=1&count=60").text)
    assert whole == [2, 3, 5, 9, 10, 11]
    onward, later = list[int](), 1
    while later:
        piece = web.get(f"/piece/talk?first={later}&count=2").text
        onward += positions(piece)
        later = int(re.search(r'data-later="(\d+)"', piece)[1])  # type: ignore[index]
    back = list[int]()
    until = 12
    while found := positions(web.get(f"/piece/talk?until={until}&count=2").text):
        back, until = found + back, found[0]
    assert onward == back == whole


def test_turns_are_the_messages_that_the_list_counts(web: TestClient, log: stenolog.Log) -> None:
    used = Usage(input=2_000, output=4)
    log["middle"].append(AssistantMessage(agent="claude", text="Done.", usage=used))
    log["middle"].append(UserMessage("Go on.", to=["claude"]))

    assert re.match(r"before the first message .*1 Go on\.", words(web.get("/outline/middle").text))
    [begun] = re.findall(r'<article id="p3"[^>]*', web.get("/read/middle?turn=1").text)
    assert 'data-turn="1"' in begun
    assert web.get("/read/middle?turn=2").status_code == 404
    assert web.get("/index.json?part=middle").json()["data"][0]["turns"] == 1


def test_marks_lead_from_one_listed_entry_to_the_next_both_ways(web: TestClient, log: stenolog.Log) -> None:
    talk = log["marks"]
    task = AssistantMessage(agent="claude", parts=[_call("2", "Task", prompt=BRIEF)])
    failed = partial(ToolResult, text="No.", is_error=True)
    events: list[Event] = [
        UserMessage("Go on.", to=["claude"]),
        AssistantMessage(agent="claude", parts=[_call("1", "sh"), _call("5", "sh")]),
        failed(call_id="1"),
        failed(call_id="5"),
        task,
        UserMessage(BRIEF, author="claude", author_kind="agent", to=["explore"]),
        AssistantMessage(agent="explore", parts=[_call("3", "sh")]),
        failed(call_id="3"),
        LlmError(agent="explore", category="timeout"),
        ToolResult(call_id="2", text="It is over."),
        UserMessage("Again.", to=["claude"]),
        LlmError(agent="claude", category="timeout"),
    ]
    talk.extend(events, expected=0)

    def led(way: str, at: int, of: str = "") -> list[int]:
        link = re.compile(rf'<a href="(/read/[^"]*at=(\d+)[^"]*)"[^>]*aria-label="The {way}"')
        found = []
        while step := link.search(web.get(f"/marks/marks?at={at}&of={of}").text):
            page = web.get(step[1].replace("&amp;", "&")).text
            assert f'id="p{step[2]}"' in page
            assert re.search(rf'id="p{step[2]}"[^>]* aria-current="true"', page)
            at = int(step[2])
            found.append(at)
        return found

    assert led("next error", 2) == [3, 6, 13]
    assert led("error before", 13) == [6, 3]
    assert led("next error", 7, "explore") == [8, 10]
    assert "5 API errors and failed tools" in words(web.get("/marks/marks?at=1").text)
    assert re.search(r'id="p3"[^>]* aria-current="true"', web.get("/read/marks?at=5").text)


def test_a_result_that_came_late_is_read_at_its_call(web: TestClient, log: stenolog.Log) -> None:
    talk = log["late"]
    talk.join("claude")
    events: list[Event] = [
        AssistantMessage(agent="claude", parts=[_call("1", "sh")]),
        UserMessage("Go on without it.", to=["claude"]),
        AssistantMessage(agent="claude", text="I do."),
        ToolResult(call_id="1", text="No.", is_error=True),
    ]
    talk.extend(events, expected=1)
    assert re.search(r'id="p2"[^>]* aria-current="true"', web.get("/read/late?at=5").text)
    piece = web.get("/piece/late?first=5&count=1").text
    assert 'data-position="2"' in piece
    assert " UTC" in piece
