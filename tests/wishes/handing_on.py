"""Programs that hand on: one keeps the person with the other, in the other the turn comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import BaseModel

from stenolog import Conversation
from stenolog.context import LastN
from stenolog.domain.lanes.handoffs import is_of_handoff, taking_over
from stenolog.engine import Agent, ByHandoff, Handoff, Runtime, Team
from stenolog.events import AssistantMessage, ToolResult, UserMessage

from .world import Asked, Program, World, call


class Order(BaseModel):
    """An order, as it is handed on."""

    number: int


def handing_on(world: World, runtime: Runtime) -> Team:
    """Return a team whose clerk hands on, with a payload and a shorter context."""

    def clerk(asked: Asked) -> object:
        if asked.has("Thanks"):
            return "You are welcome."
        return (
            call("transfer_to_desk", "c2", number=7) if asked.knows("c1") else call("transfer_to_desk", "c1")
        )

    def desk(asked: Asked) -> object:
        if asked.has("Thanks"):
            return call("transfer_to_clerk", "c3", message="They are happy.")
        return "On Friday." if asked.has("When") else "Twelve euro are on their way."

    agents = [
        Agent("clerk", llm=world.model(clerk), handoffs=[Handoff("desk", payload=Order, filter=LastN(8))]),
        Agent("desk", llm=world.model(desk), handoffs=["clerk"]),
    ]
    return Team(agents, turns=ByHandoff("clerk"), world=runtime)


def handing_back(world: World, runtime: Runtime) -> Team:
    """Return a team whose clerk asks two others in turn, and is given the turn back."""

    def clerk(asked: Asked) -> object:
        if asked.has("Both are right"):
            return "It is right."
        return call("transfer_to_second", "c1", message="Is it right?")

    def second(asked: Asked) -> object:
        return "Both are right." if asked.has("I agree") else call("transfer_to_third", "c2")

    agents = [
        Agent("clerk", llm=world.model(clerk), handoffs=["second"]),
        Agent("second", llm=world.model(second), handoffs=["third"]),
        Agent("third", llm=world.model(lambda asked: "I agree.")),
    ]
    return Team(agents, turns=ByHandoff("clerk", returns=True), world=runtime)


def turns_handed(*speakers: str) -> Callable[[Conversation, World], Iterator[str]]:
    """Return a check that these have answered, in this order, and that each hand-off has its message."""

    def holds(conversation: Conversation, world: World) -> Iterator[str]:
        events = [entry.event for entry in conversation.entries()]
        spoke = [each.agent for each in events if isinstance(each, AssistantMessage)]
        if spoke != [*speakers]:
            yield f"answered by {spoke}"
        handed = [each.text for each in events if isinstance(each, ToolResult) and taking_over(each)]
        told = [each for each in events if isinstance(each, UserMessage) and is_of_handoff(each)]
        if len(handed) != len(told):
            yield f"{handed} have {len(told)} messages"

    return holds


HANDING_ON = [
    Program(
        "hand-off",
        handing_on,
        ("Where is my money?", "When?", "Thanks"),
        "You are welcome.",
        holds=turns_handed("clerk", "clerk", "desk", "desk", "desk", "clerk"),
    ),
    Program(
        "hand-back",
        handing_back,
        ("Is it right?",),
        "It is right.",
        holds=turns_handed("clerk", "second", "third", "second", "clerk"),
        claims=True,
    ),
]
