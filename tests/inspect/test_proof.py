"""The page of the proof: computed at each look from the file; a changed byte turns it red, at its place."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, TextPart, UserMessage
from stenolog.apps.inspect.pages import proof

from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk = log["talk"]
    talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
    for question in ("Which test fails?", "And why?"):
        talk.append(UserMessage(question, to=["coder"]))
        receipt = talk.request("coder").receipt
        talk.append(AssistantMessage(agent="coder", parts=[TextPart(text="test_dates")], receipt=receipt))
    return log


def test_each_request_that_has_a_receipt_is_built_again(web: TestClient, log: stenolog.Log) -> None:
    page = web.get("/proof/talk").text
    assert "✓ 2 requests are what was sent, 0 differ, 0 cannot be proved" in words(page)
    assert f"{log['talk'].position} entries, each as it was written" in words(page)
    assert 'class="result good"' in page
    assert page.rstrip().endswith("</html>")


def test_a_changed_word_turns_it_red_at_the_next_look_with_its_place(
    web: TestClient, log: stenolog.Log, db: Path
) -> None:
    assert "✓ 2 requests" in words(web.get("/proof/talk").text)
    with sqlite3.connect(db) as other:
        [(number, state)] = other.execute(
            "SELECT rowid, state FROM stored_events WHERE CAST(state AS TEXT) LIKE '%And why%'"
        ).fetchall()
        changed = bytes(state).replace(b"And why", b"And who")
        other.execute("UPDATE stored_events SET state = ? WHERE rowid = ?", (changed, number))
    other.close()
    page = web.get("/proof/talk").text
    assert 'class="result bad"' in page
    assert "1 requests are what was sent, 1 differ, 0 cannot be proved" in words(page)
    assert '<a href="/entry/talk?at=4">4</a><td><code>/digest</code>' in page
    assert re.search(r'<a href="/request/talk\?at=4&amp;agent=coder">4</a>', page)
    assert web.get("/proof.json/talk").json()["status"] == "failed"


def test_a_changed_byte_of_the_file_itself_is_seen_though_the_log_is_open(
    web: TestClient, log: stenolog.Log, db: Path
) -> None:
    log.recorder.compact()
    assert "✓ 2 requests" in words(web.get("/proof/talk").text)
    content = db.read_bytes()
    assert content.count(b"And why?") >= 1
    at = content.index(b"And why?")
    with db.open("r+b") as file:
        file.seek(at)
        file.write(b"End")
    page = web.get("/proof/talk").text
    assert 'class="result bad"' in page
    assert '<a href="/entry/talk?at=4">4</a>' in page


def test_a_conversation_without_receipts_says_that_nothing_proves_it(
    web: TestClient, log: stenolog.Log
) -> None:
    log["other"].append(UserMessage("Which test fails?"))
    log["other"].append(AssistantMessage(agent="coder", parts=[TextPart(text="test_dates")]))
    shown = words(web.get("/proof/other").text)
    assert "No request was recorded, so none can be proved" in shown
    assert "Answers without a proof of what was sent" in shown


def test_a_long_conversation_says_what_is_done_so_far(web: TestClient, log: stenolog.Log) -> None:
    log["long"].extend([UserMessage(f"question {n}") for n in range(4_100)])
    page = web.get("/proof/long").text
    assert "2,000 of 4,101 entries are as they were written" in page
    assert page.index("2,000 of") < page.index("4,000 of") < page.index('class="result good"')


def test_a_check_that_fails_otherwise_is_told_on_the_page_and_not_in_a_thread_alone(
    web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: object) -> None:
        raise sqlite3.ProgrammingError("Cannot operate on a closed database.")

    monkeypatch.setattr(proof, "checked_anew", failing)
    shown = words(web.get("/proof/talk").text)
    assert "It could not be checked: ProgrammingError: Cannot operate on a closed database." in shown


def test_what_an_agent_was_never_sent_is_certified_or_the_requests_are_linked(
    web: TestClient, log: stenolog.Log
) -> None:
    page = words(web.get("/certify/talk?agent=coder&never=swordfish").text)
    assert "✓ coder was never sent a text of 9 characters, nor an entry that quotes it" in page
    assert "What it does not say" in page
    shown = web.get("/certify/talk?agent=coder&never=2").text
    assert "✗ coder was sent entry 2, or could have been" in words(shown)
    assert '<a href="/request/talk?at=2&amp;agent=coder">2</a>' in shown
    assert web.get("/certify.json/talk?agent=coder&never=2").json()["status"] == "failed"
    assert web.get("/certify/talk?agent=coder&never=99").status_code == 404
