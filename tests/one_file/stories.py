"""Conversations that are made up of words, the same each time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget

TEXT = (
    "the parser reads dates as local time but one test fails when zone changes so we mend it and run again "
    "file line report mail cron order review plan merge branch commit result empty value number list index "
    "error trace found missing wrong right first last next small large"
)


def long_story(count: int, seed: int = 7, budget: int = 8_000) -> Iterator[Event]:
    """Yield some `count` events of three agents under a budget, made up of words."""
    chance, agents, vocabulary = random.Random(seed), ["planner", "coder", "reviewer"], TEXT.split()

    def words(most: int) -> str:
        return " ".join(chance.choice(vocabulary) for _ in range(chance.randint(3, most)))

    card = AgentCard(model="gpt-5.2", provider="openai", policy=Budget(tokens=budget))
    yield ModeSwitch(joins=agents, cards=dict.fromkeys(agents, card))
    position = 1
    while position < count:
        agent = chance.choice(agents)
        yield UserMessage(text=words(25), to=[agent])
        position += 1
        cause = position
        for _ in range(chance.randint(0, 4)):
            call = ToolCall(id=f"c{position}", name="shell", arguments=f'{{"cmd": "pytest {words(5)}"}}')
            yield AssistantMessage(agent=agent, cause=cause, text=words(15), tool_calls=[call])
            yield ToolResult(call_id=call.id, name="shell", text=words(60))
            position += 2
            cause = position
        yield AssistantMessage(agent=agent, cause=cause, text=words(40))
        position += 1
