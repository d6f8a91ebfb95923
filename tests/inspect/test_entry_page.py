"""The page of an entry: every request that it is in, in what form, what it moved, and what refers to it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import stenolog

from .test_request_page import talk
from .words import words


@pytest.fixture
def log(log: stenolog.Log) -> stenolog.Log:
    talk(log)
    return log


def test_an_entry_names_the_requests_that_it_is_in_from_and_until_where_and_in_what_form(
    web: TestClient,
) -> None:
    page = web.get("/entry/talk?at=2").text
    shown = words(page)
    assert "coder 2 to 7 kept as user user : the user's words, as they are 5 3 5 7" in shown
    assert 'href="/request/talk?at=2&amp;agent=coder"' in page
    assert "What it moved coder : idle → awaiting_llm" in shown
    assert ", ," not in shown


def test_a_result_refers_to_its_call_and_the_call_says_so(web: TestClient) -> None:
    assert "Refers to 3 , by call_id" in words(web.get("/entry/talk?at=4").text)
    assert "Referred to by 4 , by call_id" in words(web.get("/entry/talk?at=3").text)


@pytest.mark.slow
def test_a_long_conversation_is_looked_at_so_far_and_further_by_a_link(
    web: TestClient, log: stenolog.Log
) -> None:
    log["talk"].extend([stenolog.UserMessage(f"question {n}") for n in range(2_100)])
    page = web.get("/entry/talk?at=2").text
    assert "Up to the requests at 2002." in words(page)
    assert 'href="/entry/talk?at=2&amp;upto=2107"' in page
