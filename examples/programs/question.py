"""A tool that asks a person: the answer may come days later, to another process."""

import asyncio

import stenolog
from stenolog.tools import ToolContext, tool


@tool
async def book(seats: int, call: ToolContext) -> str:
    """Book seats in a train."""
    return f"{seats} seats at {await call.ask('Which train?')}"


async def main() -> None:
    team = stenolog.Team([stenolog.Agent("clerk", llm="openai:gpt-5.2", tools=[book])])
    chat = stenolog.open("chat.db")["chat"]
    result = await team.run_to_end(chat, "Book seats")
    for waiting in result.pending:
        await team.answer(chat, waiting.call, input("Which train? "))
    print(await team.ask(chat))


asyncio.run(main())
