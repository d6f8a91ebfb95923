"""A conversation that a pack is made of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    ModeSwitch,
    UserMessage,
)

from .given import with_receipt


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(joins=("coder",), cards={"coder": AgentCard(model="m", persona="You code.")}))
        talk.append(UserMessage(text="yes", to=("coder",)))
        talk.append(with_receipt(talk, AssistantMessage(agent="coder", text="The tests are green again.")))
        talk.append(UserMessage(text="Say it: The tests are green again.", to=("coder",)))
        talk.append(with_receipt(talk, AssistantMessage(agent="coder", text="They are.")))
        yield talk
