"""An API says under which key its bodies have their messages; by it they are hashed, compared and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stenolog import AssistantMessage, Entry, UserMessage
from stenolog.analysis import diff
from stenolog.projections.formats import validator_of
from stenolog.projections.formats.checks import per_message
from stenolog.projections.messages import body_digest
from stenolog.projections.messages.body_digest import first_difference
from stenolog.projections.requests.incremental.series import every_request
from stenolog.requests import FORMATS, Format, build, register_api, validate
from stenolog.testing import entries
from tests.plugins.test_new_provider import Telegrams


@per_message
def says_something(at: str, message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each message says something."""
    if not message["says"]:
        yield f"{at}/says", "nothing"


TELEX = Format("telex", 1, writer=Telegrams, messages="turns")


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the API for one test."""
    register_api(TELEX._replace(laws=(says_something,)))
    yield
    FORMATS.remove("telex")


def log(exchanges: int) -> list[Entry]:
    asked = (
        event
        for number in range(exchanges)
        for event in (UserMessage(text=f"{number}?"), AssistantMessage(agent="coder", text=f"{number}."))
    )
    return entries(*asked)


def test_each_message_is_hashed_once_for_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []
    follow = body_digest._following

    def counted(message: Any, behind: bool) -> bytes:
        hashed.append(message)
        return follow(message, behind)

    digests = [build(log(40)[:length], "coder", api=TELEX).sha256 for length in range(2, 81)]
    monkeypatch.setattr(body_digest, "_following", counted)

    assert [request.sha256 for request in every_request(log(40), "coder", api=TELEX)] == digests
    assert len(hashed) <= 5 * 80


def test_the_difference_of_a_request_is_named_by_its_message() -> None:
    request = build(log(3), "coder", api=TELEX)
    turns = [{**turn, "says": "2!"} if turn["says"] == "2?" else turn for turn in request.body["turns"]]

    found = first_difference(request.plan["sections"], {**request.body, "turns": turns}, request.messages_key)

    assert found == "/turns/4"
    assert request.plan["sections"]["turns"][0] == len(turns)
    assert diff(request, build(log(2), "coder", api=TELEX)).around == ()


@pytest.mark.usefixtures("registered")
def test_a_law_of_each_message_finds_the_message_and_reads_it_once() -> None:
    body = build(log(2), "coder", api=TELEX).body
    silent = {**body, "turns": [*body["turns"], {"from": "user", "says": ""}]}
    validator = validator_of("telex")

    assert validate("telex", body) == []
    assert [breach.pointer for breach in validate("telex@1", silent)] == [f"/turns/{len(body['turns'])}/says"]
    assert validator.violations(body) == []
    assert len(validator.violations(silent)) == 1
