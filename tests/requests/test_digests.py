"""Digests of a body are the same, whether its messages were written before or not."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from stenolog import UserMessage
from stenolog.projections.requests import WIRES, every_request, lanes
from stenolog.projections.requests.sections import by_hash, first_difference, sections
from stenolog.testing import entries
from tests.requests.histories import BLOBS
from tests.requests.sessions import session_log


def by_hand(body: object) -> str:
    """The sha256 of a body, as a receipt has it."""
    return sha256(json.dumps(by_hash(body), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("wire", WIRES)
def test_one_after_another_or_each_by_itself_they_are_the_same(wire: str) -> None:
    log = session_log(7, 120)
    for lane in lanes(log):
        for nth, request in enumerate(every_request(log, lane.agent, task=lane.task, wire=wire, blobs=BLOBS)):
            if nth % 3 == 0:  # what is asked for now and then is not what was asked for last
                assert request.sha256 == by_hand(request.body)
                assert request.plan["sections"] == sections(request.body)
                assert first_difference(request.plan["sections"], request.body) == ""


def test_of_another_body_they_are_others() -> None:
    *_, request = every_request(entries(*[UserMessage(text="Hello", to=["coder"])] * 3), "coder")
    other = replace(request, body={**request.body, "messages": request.body["messages"][1:]})

    assert other.sha256 == by_hand(other.body) != request.sha256
