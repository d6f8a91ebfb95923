"""A short conversation that is kept in a log, each request made from what the log holds."""

from __future__ import annotations

import asyncio

import stenolog
from stenolog import AssistantMessage, Card, ModeSwitch, ToolCall, ToolResult
from stenolog.adapters.llms.port import Answer, Model, Prompt
from tests.llms.listening import HI, SHELL, heard


def talked(model: Model, requests: int = 2) -> list[Answer]:
    """What the model answers to so many requests; each call has a result; the user only says hi."""
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(cards={"coder": Card(model=model.name, persona="You code.", tools=[SHELL])}))
        talk.append(HI)
        return [_turn(model, talk) for _ in range(requests)]


def _turn(model: Model, talk: stenolog.Conversation) -> Answer:
    body = talk.request("coder", wire=model.wire).body
    answer = asyncio.run(_answer(model, Prompt(body, "effect-1", "coder", talk.name)))
    talk.append(
        AssistantMessage(
            agent="coder",
            parts=answer.parts,
            model=answer.model,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
        )
    )
    for part in answer.parts:
        if isinstance(part, ToolCall):
            talk.append(ToolResult(call_id=part.id, name=part.name, text="a.py"))
    return answer


async def _answer(model: Model, asked: Prompt) -> Answer:
    try:
        return (await heard(model, asked)).answer
    finally:
        await model.close()
