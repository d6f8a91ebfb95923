"""The pure step in a loop of one's own, without a team: an entry goes in, a state and a decision come out.

A restart is the fold of the log. What a `Team` has beyond this: it streams, retries, checks arguments, runs
tools side by side, and takes a claim before each effect, so that none begins twice.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from functools import reduce
from typing import NamedTuple

from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    State,
    ToolResult,
    UserMessage,
    step,
)
from stenolog.engine import Decision, Limits, UsageByLane, limit_reached, track_usage
from stenolog.errors import ModelError
from stenolog.events import CallRef, Control
from stenolog.models import Model, ModelRequest, ModelResponse

from ..ends import failures
from .project import ls, read_file

TOOLS = {"ls": ls, "read_file": read_file}


class Standing(NamedTuple):
    """The state of the conversation, the usage of each lane, and the effects that are due next."""

    state: State = State()
    accounts: UsageByLane = UsageByLane()
    decision: Decision = Decision("wait")


def after(standing: Standing, entry: Entry) -> Standing:
    """Return the standing after one more entry. It is a new value, and nothing is kept elsewhere."""
    state, transitions = step(standing.state, entry)
    return Standing(state, track_usage(standing.accounts, entry), transitions[-1].decision)


async def work(
    conversation: Conversation, agent: str, model: Model, limits: Limits, *questions: str
) -> AsyncGenerator[Entry, None]:
    """Ask one question after the other, and go on after each until the agent waits for a person."""
    if not conversation.position:
        card = AgentCard(model=model.name, persona="You are a coder.", tools=[ls.spec, read_file.spec])
        conversation.append(ModeSwitch(mode="agent", joins=[agent], cards={agent: card}), expected=0)
    if failures(conversation):  # the model could not be asked: once more
        conversation.submit(UserMessage(control=Control(action="continue", agent=agent)))
    for number, question in enumerate(questions):
        conversation.append(
            UserMessage(text=question), id=f"question-{number}"
        )  # said once, however often it starts
        standing = reduce(after, conversation.entries(), Standing())
        while event := await _effect(conversation, agent, model, limits, standing):
            entry = conversation.append(event, expected=standing.state.position)
            standing = after(standing, entry)
            yield entry
        if failures(conversation):
            return


async def _effect(
    conversation: Conversation, agent: str, model: Model, limits: Limits, standing: Standing
) -> Event | None:
    """Carry out a decision and return its event; None if it waits for a person."""
    decision = standing.decision
    match decision.do:
        case "call_model":
            if why := limit_reached(limits, standing.accounts.lane(agent)):
                return LlmError(agent=agent, category="budget", message=why, cause=decision.cause)
            return await _answered(conversation, agent, model, decision)
        case "run_tools":
            call = decision.calls[0]
            (made,) = conversation.entries(call.position - 1, call.position)
            assert isinstance(made.event, AssistantMessage)
            given = json.loads(made.event.tool_calls[call.nth].arguments)
            text = TOOLS[call.name](**given)
            return ToolResult(
                call_id=call.id, call=CallRef(entry=call.entry, index=call.nth), name=call.name, text=text
            )
        case _:
            return None


async def _answered(
    conversation: Conversation, agent: str, model: Model, decision: Decision
) -> AssistantMessage | LlmError:
    """Return the model's answer to the agent's request, with the receipt of what it was shown."""
    request = conversation.request(agent, api=model.api).check()
    try:
        async for said in model.stream(ModelRequest(request.body, request.sha256, agent, conversation.name)):
            if isinstance(said, ModelResponse):
                answer = said
    except ModelError as failed:
        return LlmError(agent=agent, category="other", message=str(failed), cause=decision.cause)
    return AssistantMessage(
        agent=agent,
        parts=answer.parts,
        cause=decision.cause,
        model=model.name,
        usage=answer.usage,
        receipt=request.receipt,
    )
