"""After an automatic retry the answer is whole, and nothing of the broken attempt is part of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, LlmError, Team, UserMessage
from stenolog.chats import Delivery, OutgoingMessage
from stenolog.contrib.workflow import messages_in
from stenolog.engine import RetryPolicy
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta, Scripted

WHOLE = "Dear Ann, we owe you 412,000 dollars. Yours, Acme"


class Breaking(Scripted):
    """Says all that was not said yet, as an answer that goes on would; its line breaks off `breaks` times."""

    def __init__(self, breaks: int) -> None:
        super().__init__(lambda prompt: _rest(prompt), endless=True, piece=22)
        self.breaks = breaks

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        async for said in super().stream(prompt):
            yield said
            if self.breaks:
                self.breaks -= 1
                raise ModelError("network", "reset")


def _rest(prompt: ModelRequest) -> str:
    before = [m["content"] for m in prompt.body["messages"] if m["role"] == "assistant"]
    return WHOLE.removeprefix("".join(before))


def attempts(number: int) -> RetryPolicy:
    return RetryPolicy(attempts={"network": number}, base=0.0)


def test_an_answer_that_is_retried_by_itself_is_whole_in_the_log_for_its_caller_in_tables_and_chats(
    tmp_path: Path,
) -> None:
    async def main(log: stenolog.Log) -> str:
        async with Team(
            [Agent("a", llm=Breaking(2), retries=attempts(3)), Agent("b", llm=Scripted("I see."))]
        ) as team:
            answer = await team.ask(log["t"], "How much?", to="a")
            await team.ask(log["t"], "And you?", to="b")
            return answer

    with stenolog.open(tmp_path / "a.db") as log:
        answer = asyncio.run(main(log))
        entries = [*log["t"].entries()]
        rows = [
            row["content"] for entry in entries for row in messages_in(entry) if row["role"] == "assistant"
        ]
        shown = str(log["t"].request("b").body)
        chat = list[OutgoingMessage]()

        async def send(piece: OutgoingMessage) -> None:
            chat.append(piece)

        asyncio.run(Delivery(log["t"], "chat:ann", send).deliver())
        answers = [
            item.text for item in log["t"].timeline() if item.kind == "message" and item.author in ("a", "b")
        ]

    assert [piece.text for piece in chat] == answers == [WHOLE, "I see."]
    assert answer == WHOLE
    assert [e.event.text for e in entries if isinstance(e.event, AssistantMessage)] == [WHOLE, "I see."]
    assert [e.event.text for e in entries if isinstance(e.event, LlmError)] == [WHOLE[:22]] * 2
    assert rows == [WHOLE, "I see."]
    assert shown.count("Dear Ann") == 1


def test_where_it_fails_for_good_the_part_is_the_anchor_of_a_continue(tmp_path: Path) -> None:
    async def main(log: stenolog.Log) -> str:
        async with Team([Agent("a", llm=Breaking(2), retries=attempts(2))]) as team:
            with pytest.raises(ModelError):
                await team.ask(log["t"], "How much?")
            return await team.ask(log["t"], "continue")

    with stenolog.open(tmp_path / "a.db") as log:
        assert asyncio.run(main(log)) == WHOLE[22:]


def test_who_asks_again_by_the_same_id_has_the_answer_that_is_there_and_no_model_is_asked(
    tmp_path: Path,
) -> None:
    async def main(log: stenolog.Log, *answers: str) -> str:
        async with Team([Agent("a", llm=Scripted(*answers))]) as team:
            return await team.ask(log["t"], "How much?", id="how-much")

    with stenolog.open(tmp_path / "a.db") as log:
        first = asyncio.run(main(log, WHOLE))
        log["t"].append(AssistantMessage(agent="a", purpose="summary", text="Money."))
        again = asyncio.run(main(log))
        log["t"].append(UserMessage(text="Thanks.", to=["b"]))
        log["t"].append(AssistantMessage(agent="b", text="You are welcome."))
        later = asyncio.run(main(log))

    assert [first, again, later] == [WHOLE] * 3
