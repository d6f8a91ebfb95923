"""A short conversation that is kept in a log, each request made from what the log holds."""

from __future__ import annotations

import asyncio

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, ToolCall, ToolResult
from stenolog.models import Model, ModelRequest, ModelResponse
from tests.llms.listening import HI, SHELL, heard


def talked(model: Model, requests: int = 2) -> list[ModelResponse]:
    """Return the model's answers to so many requests; each call has a result; the user only says hi."""
    with stenolog.open(":memory:") as log:
        conversation = log["talk"]
        conversation.append(
            ModeSwitch(cards={"coder": AgentCard(model=model.name, persona="You code.", tools=[SHELL])})
        )
        conversation.append(HI)
        return [_turn(model, conversation) for _ in range(requests)]


def _turn(model: Model, conversation: stenolog.Conversation) -> ModelResponse:
    body = conversation.request("coder", api=model.api).body
    answer = asyncio.run(_answer(model, ModelRequest(body, "effect-1", "coder", conversation.name)))
    conversation.append(
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
            conversation.append(ToolResult(call_id=part.id, name=part.name, text="a.py"))
    return answer


async def _answer(model: Model, asked: ModelRequest) -> ModelResponse:
    try:
        return (await heard(model, asked)).answer
    finally:
        await model.close()
