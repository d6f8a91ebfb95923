"""The page of compactions: which there are, what left the request, and one entry put back."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, ModeSwitch, UserMessage
from stenolog.events import PositionRange

from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
    for number in range(1, 51):
        talk.append(UserMessage(f"Please mend the part {number}.", to=["coder"]))
        talk.append(AssistantMessage(agent="coder", text=f"Part {number} is <b>mended</b>."))
    covers = [PositionRange(first=2, last=99)]
    talk.append(AssistantMessage(agent="coder", purpose="summary", text="49 are mended.", covers=covers))
    talk.append(UserMessage("And now?", to=["coder"]))
    talk.append(ModeSwitch(hides=[PositionRange(first=100, last=101)]), expected=103)
    return log


def test_the_page_lists_them_and_opens_the_last_one_up_to_the_position(web: TestClient) -> None:
    page = words(web.get("/compaction/demo").text)
    assert "summary at 102" in page
    assert "hidden at 104" in page
    assert "A rewind or compaction at entry 104" in page
    assert "A summary at entry 102" in words(web.get("/compaction/demo?at=103").text)


def test_what_left_is_one_run_that_opens_and_texts_are_escaped(web: TestClient) -> None:
    page = web.get("/compaction/demo?at=102").text
    assert "98 entries, the first: Please mend the part 1." in page
    assert "Part 1 is &lt;b&gt;mended&lt;/b&gt;." in page
    assert "49 are mended." in page
    assert "from 42 on" in page
    assert "Part 30 is" in web.get("/compaction/demo?at=102&open=42").text


def test_an_entry_put_back_shows_what_it_costs(web: TestClient, log: stenolog.Log) -> None:
    page = words(web.get("/compaction/demo?at=102&with=5").text)
    data = web.get("/compaction.json/demo?at=102&with=5").json()["data"]["chosen"]
    after = log["demo"].request("coder", 102)
    more = data["restored"]["tokens"] - after.size.tokens
    assert more > 0
    assert f"after, with 5 put back {data['restored']['tokens']:,} (+{more})" in page
    assert data["tokens_after"] == after.size.tokens


def test_an_agent_that_lost_nothing_is_told_so(web: TestClient, log: stenolog.Log) -> None:
    log["quiet"].append(UserMessage("Hello.", to=["coder"]))
    assert "Nothing was ever taken out of the requests of coder" in web.get("/compaction/quiet").text
