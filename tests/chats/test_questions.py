"""Questions of tools in a chat: a plain text answers the one that was shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stenolog import Agent, Log, Team, ToolCall, ToolResult, UserMessage
from stenolog.apps.chats.commands import DECIDED
from stenolog.errors import InvalidEventError
from stenolog.models import Scripted
from stenolog.tools import ToolContext, tool

from .given import until
from .test_approvals import answering, chatting


def asking(*questions: dict[str, Any]) -> Team:
    """Return a team of one whose tool asks these questions."""

    @tool
    async def book(call: ToolContext) -> str:
        """Book."""
        return ", ".join([str(await call.ask(**question)) for question in questions])

    return Team(
        [Agent("coder", llm=Scripted(answering(ToolCall(id="b", name="book")), endless=True), tools=[book])]
    )


def test_a_plain_text_answers_the_one_question_that_was_shown(log: Log) -> None:
    team = asking({"question": "Which train?", "choices": ["8:15", "9:40"]}, {"question": "Who?"})

    async def main() -> str:
        async with chatting(log, team, 1, words="asks: ") as chat:
            [first] = chat.waits
            assert chat.texts[-1].startswith("coder asks: Which train?\n1. 8:15\n2. 9:40\n")
            with pytest.raises(InvalidEventError, match="expected one of '8:15', '9:40', found 'noon'"):
                await chat.room.receive(UserMessage(text="noon", author="Ann"), id="2")
            for _ in range(2):  # delivered again
                await chat.room.receive(UserMessage(text="2", author="Ann"), id="3")
            await until(lambda: "coder asks: Who?" in chat.texts[-1])
            assert await chat.tell(f"/answer {first.code} 8:15") == DECIDED
            unseen = [each.code for each in await team.pending_approvals(log["talk"])]
            assert await chat.tell("/status") != ""
            assert "asks: Who?" in await chat.tell(f"/approve {unseen[0]}")
            assert await chat.tell(f"/answer {unseen[0]} Ann and Bob") == "It runs: book."
            await until(lambda: chat.texts[-1] == "Done.")
        [result] = [e.event for e in log["talk"].entries() if isinstance(e.event, ToolResult)]
        return result.text

    assert asyncio.run(main()) == "9:40, Ann and Bob"


def test_words_that_were_written_before_the_question_was_shown_do_not_answer_it(log: Log) -> None:
    team = asking({"question": "Who?"})

    async def main() -> str:
        async with chatting(log, team, 1, words="asks: ") as chat:
            [asked] = chat.waits
            said = UserMessage(text="Hurry up", author="Ann")
            await chat.room.receive(said, id="2", unseen=[asked.code])
            await until(lambda: chat.texts[-1] == "Done.")
        [result] = [e.event for e in log["talk"].entries() if isinstance(e.event, ToolResult)]
        return result.text

    assert asyncio.run(main()).startswith("The user did not answer the question")
