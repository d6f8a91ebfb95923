"""Several conversations at once."""

import asyncio

from agents import Agent, Runner, SQLiteSession


async def main() -> None:
    agent = Agent("guide", model="gpt-5.2")
    sessions = {city: SQLiteSession(city, "chat.db") for city in ("Paris", "London", "Rome")}
    runs = (Runner.run(agent, f"Hello from {city}", session=each) for city, each in sessions.items())
    print([result.final_output for result in await asyncio.gather(*runs)])


asyncio.run(main())
