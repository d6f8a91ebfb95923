"""Digests of a body are the same, whether its messages were written before or not."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256

import pytest

from stenolog import Request, UserMessage
from stenolog.domain.policy import PolicyRule
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages import body_digest as digests
from stenolog.projections.messages.body_digest import by_hash, first_difference, sections
from stenolog.projections.requests import every_request, lanes
from stenolog.testing import entries
from tests.requests.histories import BLOBS
from tests.requests.policies import AROUND
from tests.requests.sessions import session_log


def by_hand(body: object) -> str:
    """Return the sha256 of a body, as a receipt has it."""
    return sha256(json.dumps(by_hash(body), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("policy", [None, AROUND], ids=["bare", "with notes"])
@pytest.mark.parametrize("api", FORMATS)
def test_one_after_another_or_each_by_itself_they_are_the_same(api: str, policy: PolicyRule | None) -> None:
    log = session_log(7, 120)
    for lane in lanes(log):
        for nth, request in enumerate(
            every_request(log, lane.agent, task=lane.task, api=api, policy=policy, blobs=BLOBS)
        ):
            if nth % 3 == 0:  # what is asked for now and then is not what was asked for last
                assert request.sha256 == by_hand(request.body)
                assert request.plan["sections"] == sections(request.body, request.messages_key)
                assert first_difference(request.plan["sections"], request.body, request.messages_key) == ""


def test_of_another_body_they_are_others() -> None:
    *_, request = every_request(entries(*[UserMessage(text="Hello", to=["coder"])] * 3), "coder")
    other = replace(request, body={**request.body, "messages": request.body["messages"][1:]})

    assert other.sha256 == by_hand(other.body) != request.sha256


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_the_receipt_of_a_long_conversation_hashes_what_is_new_alone(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[object] = []
    written = digests.written

    def watched(value: object) -> bytes:
        hashed.append(value)
        return written(value)

    monkeypatch.setattr(digests, "written", watched)
    most = []
    for request in every_request(session_log(3, 600), "coder", api=api):
        hashed.clear()
        assert request.receipt
        most.append(len(hashed))

    assert sum(most) < 42 * len(most)


def test_threads_that_ask_at_once_get_the_same() -> None:
    requests = [*every_request(session_log(5, 200), "coder")]
    with ThreadPoolExecutor(8) as threads:
        digests = [*threads.map(lambda request: request.sha256, reversed(requests))]

    assert digests == [by_hand(request.body) for request in reversed(requests)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda request: pickle.loads(pickle.dumps(request))])
def test_a_copy_of_a_request_is_the_request(copied: Callable[[Request], Request]) -> None:
    for request in every_request(session_log(5, 60), "coder", api="anthropic"):
        other = copied(request)
        other.body["messages"].append({})
        assert other.body != request.body
        del other.body["messages"][-1]
        assert (other, other.receipt) == (request, request.receipt)
