"""A prompt in blocks: all that a model reads is in one of them, in the order in which its provider reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from stenolog import AgentCard, ModeSwitch, Tool
from stenolog.projections.analysis.cache.prompts import rules_by_api
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.caching import Block
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.requests import Request, every_request, lanes
from stenolog.testing import entries
from tests.requests.histories import history

ORDER = {
    "anthropic": ("tools", "setting", "system", "setting", "messages"),
    "gemini": ("setting", "system", "tools", "setting", "messages"),
    "openai-chat": ("setting", "system", "tools", "messages"),
    "openai-responses": ("setting", "system", "tools", "messages"),
    "plain": ("messages",),
}
DOCUMENTED = [api for api, format in FORMATS.items() if format.cache or format.messages == PROMPT]
"""The formats of which it is known in what order their providers read."""
UNREAD = frozenset(
    {
        "model", "max_tokens", "max_completion_tokens", "max_output_tokens", "temperature", "top_p", "stop",
        "stop_sequences", "store", "include", "tool_choice", "reasoning", "reasoning_effort", "effort",
        "responseMimeType", "stopSequences", "thinkingConfig",
    }
)  # fmt: skip
"""The keys of a body, and of its settings, that no model reads, or in no words of the prompt."""
SETTINGS = ("output_config", "generationConfig")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"loaves": {"type": "integer", "description": "How many"}},
}
CARD = AgentCard(
    model="m-1",
    persona="You bake.",
    tools=[Tool(name="look", description="Look about"), Tool(name="bake", description="Bake it")],
    parameters={"temperature": 0.5, "max_tokens": 50, "output": {"name": "loaves", "schema": SCHEMA}},
)


@cache
def sent(api: str) -> list[Request]:
    """Return requests of random histories, of agents with and without a card."""
    histories = [[entry.event for entry in history(seed, longest=20)] for seed in range(25)]
    cards = ModeSwitch(cards={"a": CARD, "b": CARD})
    logs = [log for events in histories for log in (entries(*events), entries(cards, *events))]
    series = (every_request(log, one.agent, task=one.task, api=api) for log in logs for one in lanes(log))
    return [[*requests][-1] for requests in series]


def split(request: Request) -> list[Block]:
    return rules_by_api(request.api.partition("@")[0]).split(request.body, request.messages_key)


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model reads of a body."""
    found = {key: value for key, value in body.items() if key not in UNREAD}
    return found | {key: read(found[key]) for key in SETTINGS if key in found}


@pytest.mark.parametrize("api", DOCUMENTED)
def test_all_that_a_model_reads_is_in_one_block(api: str) -> None:
    for request in sent(api):
        values = [one.value for one in split(request) if one.section != "model"]
        if api == "plain":
            assert "\n\n".join(values) == request.body["prompt"]
        else:
            assert Counter(texts(read(request.body))) == Counter(texts(values)), request.body


@pytest.mark.parametrize("api", DOCUMENTED)
def test_blocks_stand_in_the_order_in_which_their_provider_reads(api: str) -> None:
    for request in sent(api):
        found = split(request)
        assert found[0].section == "model"
        places = iter(ORDER[api])
        sections = [one.section for one in found[1:]]
        assert all(one == last or one in places for last, one in zip(["", *sections], sections, strict=False))
        messages = [one.message for one in found if one.message >= 0]
        assert messages == sorted(messages)
        assert len({one.pointer for one in found}) == len(found)
