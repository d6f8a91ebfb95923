"""Frameworks are given what is in context: an edit in the place of what it edits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, UserMessage
from stenolog.frameworks import OpenAIAgentsSession, to_pydantic_ai


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    """Yield an edited question with its answer, a regenerated answer, and a new question."""
    with stenolog.open(":memory:") as log:
        conversation = log["demo"]
        conversation.append(UserMessage(text="v1"))
        conversation.append(AssistantMessage(agent="assistant", text="w1"))
        conversation.append(UserMessage(text="next"))
        conversation.append(UserMessage(text="v2", replaces=2))
        conversation.append(AssistantMessage(agent="assistant", text="w2", replaces=3))
        yield conversation


def items(conversation: Conversation) -> list[Any]:
    return asyncio.run(OpenAIAgentsSession(conversation).get_items())


def words(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_a_session_gives_each_edit_once_in_its_place(conversation: Conversation) -> None:
    assert [words(item) for item in items(conversation)] == ["v2", "w2", "next"]


def test_a_history_gives_each_edit_once_in_its_place(conversation: Conversation) -> None:
    messages: list[Any] = to_pydantic_ai(conversation)

    assert [part.content for message in messages for part in message.parts] == ["v2", "w2", "next"]


def test_what_is_popped_does_not_bring_back_what_it_edited(conversation: Conversation) -> None:
    session = OpenAIAgentsSession(conversation)
    popped = [words(asyncio.run(session.pop_item())) for _ in range(3)]

    assert popped == ["next", "w2", "v2"]
    assert items(conversation) == []
    assert len([*conversation.entries()]) == 9
