"""The page of a difference: what is compared, where a cache ends, and what did it."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.events import Origin, PositionRange, Usage

from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["demo"]
    talk.join("coder", model="claude-sonnet-4-5", persona="You mend what is broken.")
    for number in range(1, 6):
        talk.append(UserMessage(f"Please mend the part {number}.", to=["coder"]))
        talk.append(AssistantMessage(agent="coder", text=f"Part {number} is mended."))
    talk.append(UserMessage("And now?", to=["coder"]))
    return log


def widths(page: str) -> list[tuple[str, int]]:
    """Return each stretch of the bars, with its width."""
    return [(kind, int(width)) for kind, width in re.findall(r'<rect class="(\w+)".*? width="(\d+)"', page)]


def test_without_another_word_it_is_compared_with_the_call_before(web: TestClient) -> None:
    page = web.get("/diff/demo?at=10").text
    assert "coder: 8 → 10" in page
    assert "Nothing that was sent before is read anew" in page
    assert "tokens that are new in the later one" in words(page)
    assert "tokens read anew" not in words(page)
    assert " tokens · the agent's own answer" in words(page)


def test_the_bars_show_what_both_begin_with_on_one_scale(web: TestClient, log: stenolog.Log) -> None:
    page = web.get("/diff/demo?at=12&before=6").text
    (_, shared), (_, gone), (_, too), (_, fresh) = widths(page)
    before, after = (log["demo"].request("coder", at).size.tokens for at in (6, 12))
    assert shared == too
    assert too + fresh == 1_000
    assert shared + gone == pytest.approx(1_000 * before / after, abs=1)


def test_a_run_that_was_left_out_is_one_line_that_opens(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].append(ModeSwitch(hides=[PositionRange(first=2, last=9)]), expected=12)
    page = web.get("/diff/demo?before=12").text
    assert len(re.findall(r'<li class="change gone"', page)) == 1
    assert "8 parts, of entries 2 to 9" in page
    assert "Please mend the part 3." in page
    assert "Look at entry 13" in page
    told = web.get("/diff.json/demo?before=12").json()["data"]
    money = f"{told['known_cost_micro_usd'] / 1_000_000:.4f}"
    assert told["again"] > 0
    assert f"{told['again']:,} tokens that were sent before, and are read anew: {money} USD more" in page


def test_it_is_compared_with_a_policy_a_fork_and_another_agent(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].fork(4, "other")
    log["other"].append(UserMessage("No: <i>stop</i>.", to=["coder"]))
    assert "beyond-last" in web.get("/diff/demo?policy=last:2").text
    page = web.get("/diff/other?fork=demo&agent=coder").text
    assert "&lt;i&gt;stop&lt;/i&gt;" in page
    assert "gone: " in page
    log["demo"].append(UserMessage("Read it.", to=["critic"]))
    assert "coder → critic" in web.get("/diff/demo?agent=critic&other=coder").text


def test_a_word_that_changed_is_marked(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].join("coder", model="claude-sonnet-4-5", persona="You mend what is cracked.")
    page = web.get("/diff/demo?before=12").text
    assert "You mend what is <del>broken</del><ins>cracked</ins>." in page


def test_where_no_call_was_made_before_the_page_asks_for_a_position(web: TestClient) -> None:
    answer = web.get("/diff/demo?at=2&agent=coder")
    assert answer.status_code == 200
    assert "coder made no call before" in answer.text
    assert web.get("/diff.json/demo?at=2&agent=coder").status_code == 400


def test_two_conversations_that_have_nothing_in_common_are_not_compared(
    web: TestClient, log: stenolog.Log
) -> None:
    log["lone"].append(UserMessage("Hello.", to=["coder"]))
    assert "is a fork of the other" in web.get("/diff/demo?fork=lone").text


def test_a_page_of_a_large_difference_stays_small(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].extend(UserMessage(f"word {number} " * 50) for number in range(1_000))
    page = web.get("/diff/demo?before=12").text
    assert page.count("<") < 4_000
    assert "changes more" in page


def test_a_failed_attempt_is_not_the_call_before(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].append(LlmError(agent="coder", category="overloaded"))
    log["demo"].append(LlmError(agent="coder", category="overloaded"))
    assert "coder: 10 → 14" in web.get("/diff/demo?at=14").text


def test_a_rebuilt_request_says_what_is_missing_and_that_the_cause_of_its_miss_is_outside(
    web: TestClient, log: stenolog.Log
) -> None:
    made = log["session"]
    for cached in (0, 90_000, 0):
        made.append(UserMessage("Go on.", to=["claude"]))
        used, source = Usage(input=100_000, cache_read=cached, cache_write=10), Origin(system="claude-code")
        made.append(AssistantMessage(agent="claude", text="Yes.", usage=used, source=source))
    page = words(web.get("/diff/session?at=6&agent=claude").text)
    assert "in what the log has nothing changed: the cause is outside it" in page
    assert "Not known from this log. The answers came from claude-code" in page
    for form in ("curl", "python", "pytest"):
        copied = web.get(f"/copy/session?at=6&agent=claude&as={form}").text
        assert "Rebuilt, for claude at 6 of session" in copied
        assert "billed tokens (system prompt, tools) are missing" in copied
        assert "The request of claude" not in copied


def test_of_a_file_that_starts_in_the_middle_the_first_request_is_not_made_up(
    web: TestClient, log: stenolog.Log
) -> None:
    made, used = log["middle"], Usage(input=100_000)
    made.join("claude", model="claude-sonnet-4-5")
    source = Origin(system="claude-code")
    made.append(AssistantMessage(agent="claude", text="Done.", usage=used, source=source))
    part = words(web.get("/part-request/middle?at=1").text)
    assert "This file starts in the middle; nothing is known of the request of claude at entry 1" in part
    assert "Answered at entry 2" in part
    assert "tokens" not in part
