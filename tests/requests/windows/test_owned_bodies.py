"""A body's list of messages is its owner's: what he does with it changes no other, and no later one."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from stenolog import AssistantMessage, Event, ToolCall, ToolResult, UserMessage
from stenolog.domain.policy import policy
from stenolog.projections.messages.message import Body
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.sendable import takes_part
from stenolog.testing import entries

APIS = ("openai-chat", "openai-responses", "anthropic", "gemini")
KEYS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "gemini": "contents"}


def turn(number: int) -> list[Event]:
    return [
        UserMessage(text=f"Question {number}"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id=f"c{number}", name="look", arguments="{}")]),
        ToolResult(call_id=f"c{number}", name="look", text=f"result {number}"),
        AssistantMessage(agent="coder", text=f"Answer {number}"),
    ]


LOG = entries(*(event for number in range(12) for event in turn(number)))


def requested(api: str, after: Callable[[list[Body]], object]) -> list[list[Body]]:
    """Return the messages of the request after each entry, copied, then changed by `after`."""
    window = Window(LaneId("coder"), policy(None))
    live = RequestSession(window, api)
    said = []
    for entry in LOG:
        window.take(entry)
        if not takes_part(window):
            continue
        messages: list[Body] = live.request().body[KEYS[api]]
        said.append(copy.deepcopy(messages))
        after(messages)
        del messages
    return said


def append(messages: list[Body]) -> None:
    messages.append({"role": "user", "content": "the owner's own"})


def put_first(messages: list[Body]) -> None:
    messages.insert(0, {"role": "system", "content": "the owner's own"})


def replace_first(messages: list[Body]) -> None:
    messages[0] = {**messages[0], "mine": True}


def replace_last(messages: list[Body]) -> None:
    messages[-1] = {"role": "user", "content": "the owner's own"}


CHANGES: list[Callable[[list[Body]], object]] = [
    append,
    put_first,
    replace_first,
    replace_last,
    list.clear,
    list.reverse,
    lambda messages: messages.pop(0),
    lambda messages: messages.pop(len(messages) // 2),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: getattr(change, "__name__", ""))
def test_what_an_owner_does_with_his_list_shows_in_no_later_one(
    api: str, change: Callable[[list[Body]], Any]
) -> None:
    assert requested(api, change) == requested(api, lambda messages: None)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kept", [1, 2, 3, 100])
def test_a_list_that_somebody_has_stays_as_it_is(api: str, kept: int) -> None:
    held: deque[tuple[list[Body], list[Body]]] = deque(maxlen=kept)

    def hold(messages: list[Body]) -> None:
        held.append((messages, copy.deepcopy(messages)))
        assert [mine for mine, _ in held] == [as_it_was for _, as_it_was in held]

    assert requested(api, hold) == requested(api, lambda messages: None)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: getattr(change, "__name__", ""))
def test_nor_in_the_request_that_is_asked_for_again(api: str, change: Callable[[list[Body]], object]) -> None:
    window = Window(LaneId("coder"), policy(None))
    live = RequestSession(window, api)
    for entry in LOG:
        window.take(entry)
    defined = RequestSession(window, api).request()
    for request in (live.request(), live.request()):
        request.body["mine"] = True
        change(request.body[KEYS[api]])
        assert None not in (request.bytes, request.sha256, request.receipt, request.size)
    again = live.request()

    assert (again.bytes, again.sha256, again.size) == (defined.bytes, defined.sha256, defined.size)
    assert again.receipt == defined.receipt
