"""Conversations of agents with a provider that bills each call (see `provider_account`), from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    ModeSwitch,
    NewEntry,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, LastN, Prompt, policy
from stenolog.events import Tool
from stenolog.requests import every_request
from tests.analysis.provider_account import Account, Bill

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
WORDS = (
    "the",
    "oven",
    "holds",
    "four",
    "loaves",
    "and",
    "a",
    "crate",
    "of",
    "rye",
    "while",
    "Anna",
    "weighs",
)


class Story(NamedTuple):
    """A conversation: the agents' cards, their calls' bills, and who sent each when."""

    log: Sequence[Entry]
    cards: dict[str, AgentCard]
    bills: dict[int, Bill]
    models: dict[str, str]

    @property
    def cost(self) -> float:
        return sum(bill.cost for bill in self.bills.values())


def text(dice: random.Random, tokens: int) -> str:
    """Return prose, code or figures of about so many tokens."""
    match dice.randrange(3):
        case 0:
            return " ".join(dice.choice(WORDS) for _ in range(tokens * 2 // 3))
        case 1:
            return "\n".join(
                f"    if x{dice.randrange(99)} > {dice.random():.3f}: pass" for _ in range(tokens // 12)
            )
        case _:
            return ", ".join(f'"{dice.choice(WORDS)}": {dice.randrange(10**5)}' for _ in range(tokens // 6))


def story(seed: int) -> Story:
    """Return the conversation of a seed."""
    dice = random.Random(seed)
    model = dice.choice(["claude-sonnet-4-5"] * 3 + ["claude-opus-4-5", "claude-haiku-4-5", "gpt-5"])
    names = ["coder", "tester"][: dice.choice([1, 1, 2])]
    tools = [
        Tool(name=f"tool{n}", description=text(dice, dice.choice([30, 200])), parameters={"type": "object"})
        for n in range(dice.choice([0, 3, 12]))
    ]
    persona = text(dice, dice.choice([50, 900, 3_000, 6_000]))
    chosen = _policy(dice)
    parameters: dict[str, Any] = {"max_tokens": 500}
    if model.startswith("claude") and dice.random() < 0.3:
        parameters["cache"] = dice.choice([False, "1h", {"prefix": "1h"}, {"turns": 2}])
    cards = {
        name: AgentCard(
            model=model, persona=persona, tools=tools, parameters=parameters, policy=policy(chosen).json
        )
        for name in names
    }
    pauses = dice.choice([[5, 20], [20, 120], [200, 400], [350, 900], [700, 4_000], [10, 20, 30, 2_000]])
    return played(dice, cards, pauses, dice.choice([1, 2, 6, 25]), dice.choice([80, 700, 3_000]))


def _policy(dice: random.Random) -> Any:
    modes = Prompt(modes={"agent": text(dice, 400)}, place="first")
    return dice.choice(
        [None] * 5
        + [LastN(8), LastN(12, step=4), Budget(tokens=9_000), Budget(tokens=9_000, cut_to=90), modes]
    )


def played(
    dice: random.Random,
    cards: dict[str, AgentCard],
    pauses: Sequence[int],
    parallel: int,
    size: int,
    *,
    turns: int = 0,
    switches: float = 0.15,
    daily: str = "",
) -> Story:
    """Return a conversation of so many turns; `daily` is a line of the instructions for each."""
    account, bills = Account(), dict[int, Bill]()
    with stenolog.open(":memory:") as log:
        talk, now = log["t"], START

        def tell(event: Any) -> int:
            talk.extend([NewEntry(event, None, now)], expected=talk.position)
            return talk.position

        tell(ModeSwitch(joins=tuple(cards), cards=dict(cards)))
        for turn in range(turns or dice.randrange(4, 12)):
            name = dice.choice([*cards])
            if dice.random() < switches:
                tell(ModeSwitch(mode=dice.choice(["agent", "chat"])))
            if daily:
                persona = f"{cards[name].persona}\n{daily.format(turn)}"
                tell(ModeSwitch(cards={name: replace(cards[name], persona=persona)}))
            tell(UserMessage(text=text(dice, size), to=[name]))
            for step in range(dice.choice([1, 2, 3])):
                api = "anthropic" if cards[name].model.startswith("claude") else "openai-chat"
                request = talk.request(name, api=api)
                if not request.sendable:
                    break
                wait, took = dice.choice([1.0, 3.0]), dice.choice([4.0, 15.0])
                bill = account.ask(request.body, now.timestamp(), wait)
                calls = [
                    ToolCall(id=f"c{turn}-{step}-{n}", name="tool0", arguments=f'{{"n": {n}}}')
                    for n in range(dice.randrange(1, parallel + 1) if cards[name].tools and step < 2 else 0)
                ]
                now += timedelta(seconds=took)
                answer = AssistantMessage(
                    agent=name,
                    model=cards[name].model,
                    text=text(dice, 60),
                    tool_calls=calls,
                    receipt=request.receipt,
                    usage=bill.usage,
                    duration_ms=round(took * 1_000),
                    first_token_ms=round(wait * 1_000),
                )
                bills[tell(answer)] = bill
                for call in calls:
                    tell(ToolResult(call_id=call.id, text=text(dice, size // parallel + 5)))
                now += timedelta(seconds=dice.choice(pauses) if not calls else dice.choice([1, 2, pauses[0]]))
                if not calls:
                    break
        entries = [*talk.entries()]
    return Story(entries, cards, bills, {name: card.model for name, card in cards.items()})


def replayed(told: Story, agent: str, patch: dict[str, Any]) -> float:
    """Return the bill of all the calls again, with a patch on an agent's card."""
    log = [_patched(entry, agent, patch) for entry in told.log]
    bodies = dict[tuple[str, int], Any]()
    for name, card in told.cards.items():
        api = "anthropic" if card.model.startswith("claude") else "openai-chat"
        bodies |= {(name, request.at): request.body for request in every_request(log, name, api=api)}
    account = Account()
    return sum(
        account.ask(bodies[name, view], begun, wait).cost for begun, wait, name, view in sorted(calls_of(log))
    )


def calls_of(log: Sequence[Entry]) -> Iterator[tuple[float, float, str, int]]:
    """Yield when each call was sent, when its answer began, its agent, and its request's position."""
    for entry in log:
        event = entry.event
        if isinstance(event, AssistantMessage) and event.receipt is not None:
            begun = entry.time.timestamp() - (event.duration_ms or 0) / 1_000
            yield begun, (event.first_token_ms or 0) / 1_000, event.agent, event.receipt.view


def _patched(entry: Entry, agent: str, patch: dict[str, Any]) -> Entry:
    event = entry.event
    if not isinstance(event, ModeSwitch) or agent not in event.cards:
        return entry
    card = event.cards[agent]
    assert card is not None
    return entry._replace(event=replace(event, cards={**event.cards, agent: replace(card, **patch)}))
