"""Several conversations at once."""

import asyncio

import stenolog


async def main() -> None:
    team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2")])
    async with stenolog.open_async("chat.db") as log:
        cities = ("Paris", "London", "Rome")
        print(await asyncio.gather(*(team.ask(log[city], f"Hello from {city}") for city in cities)))


asyncio.run(main())
