"""Twelve short histories as programs really leave them behind: valid and lossless on every API."""

from __future__ import annotations

import json

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.context import Policy
from stenolog.requests import build
from tests.requests.corpus import Talk, damaged, requests
from tests.requests.judging import HERE, MODELS, complaints, faults, needs_judges
from tests.requests.lossless import unaccounted
from tests.requests.policies import SMALL

HISTORIES = {conversation.name: conversation for conversation in damaged()} if HERE else {}
pytestmark = needs_judges
each_history = pytest.mark.parametrize("conversation", HISTORIES.values(), ids=HISTORIES)


@pytest.mark.parametrize("api", MODELS)
@each_history
def test_a_damaged_history_gives_a_valid_request_that_has_lost_nothing(conversation: Talk, api: str) -> None:
    request = build(conversation.entries, "agent", api=api)

    assert complaints(api, request.body) == []
    assert list(unaccounted(conversation.entries, request)) == []
    sent = json.dumps(request.body)
    for entry in conversation.entries:
        if isinstance(entry.event, UserMessage | AssistantMessage | ToolResult):
            assert entry.event.text in sent
        if isinstance(entry.event, AssistantMessage):
            assert all(f'"{call.name}"' in sent for call in entry.event.tool_calls)


@pytest.mark.parametrize("policy", SMALL.values(), ids=SMALL)
@each_history
def test_every_prefix_of_a_damaged_history_is_valid_under_every_policy(
    conversation: Talk, policy: Policy
) -> None:
    for _, api, request in requests(conversation, policy):
        assert list(faults(api, request)) == []
