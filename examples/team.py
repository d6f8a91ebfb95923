"""Three agents in turn, one of them with a tool, until all have passed; then the log, as a person sees it.

The models are scripts, so that this runs without a key. With one, put `OpenAIChat("gpt-5.2")` in their place.
"""

from __future__ import annotations

import asyncio

import stenolog
from stenolog import Agent, Team, ToolCall
from stenolog.engine import EntryAppended, RoundRobin, StreamDelta
from stenolog.models import Scripted

PASS = "....."


def measure(room: str) -> str:
    """Measure a room, in square metres."""
    return f"the {room} has 12 m²"


def team() -> Team:
    """Return an architect who can measure, a buyer and a critic."""
    look = ToolCall(id="c1", name="measure", arguments='{"room": "kitchen"}')
    agents = [
        Agent("architect", llm=Scripted([look], "Twelve square metres: one table.", PASS), tools=[measure]),
        Agent("buyer", llm=Scripted("I order one table.", PASS)),
        Agent("critic", llm=Scripted(PASS, PASS)),
    ]
    return Team(agents, turns=RoundRobin(pass_token=PASS))


async def main() -> None:
    """Ask one question, and print the answers."""
    with stenolog.open(":memory:") as log:
        conversation = log["kitchen"]
        async for happened in team().run(conversation, "How do we furnish the kitchen?"):
            match happened:
                case StreamDelta(lane, text=text, kind="text"):
                    print(f"{lane} … {text}")
                case EntryAppended(entry):
                    print(entry.position, entry.event.kind)
                case _:
                    pass
        print(conversation.transitions()[-1].decision.reason)
        for item in conversation.timeline():
            print(f"{item.author:<10}", item.text or item.detail)


if __name__ == "__main__":
    asyncio.run(main())
