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
def talk() -> Iterator[Conversation]:
    """A question that was edited after its answer, an answer that was made anew, a new question."""
    with stenolog.open(":memory:") as log:
        talk = log["demo"]
        talk.append(UserMessage(text="v1"))
        talk.append(AssistantMessage(agent="assistant", text="w1"))
        talk.append(UserMessage(text="next"))
        talk.append(UserMessage(text="v2", replaces=2))
        talk.append(AssistantMessage(agent="assistant", text="w2", replaces=3))
        yield talk


def items(talk: Conversation) -> list[Any]:
    return asyncio.run(OpenAIAgentsSession(talk).get_items())


def words(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_a_session_gives_each_edit_once_in_its_place(talk: Conversation) -> None:
    assert [words(item) for item in items(talk)] == ["v2", "w2", "next"]


def test_a_history_gives_each_edit_once_in_its_place(talk: Conversation) -> None:
    messages: list[Any] = to_pydantic_ai(talk)

    assert [part.content for message in messages for part in message.parts] == ["v2", "w2", "next"]


def test_what_is_popped_does_not_bring_back_what_it_edited(talk: Conversation) -> None:
    session = OpenAIAgentsSession(talk)
    popped = [words(asyncio.run(session.pop_item())) for _ in range(3)]

    assert popped == ["next", "w2", "v2"]
    assert items(talk) == []
    assert len([*talk.entries()]) == 9
