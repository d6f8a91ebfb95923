"""An answer that is printed while it streams, in a chat that is on disk."""

import asyncio

import stenolog
from stenolog.engine import StreamDelta


async def main() -> None:
    team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2")])
    async for event in team.run(stenolog.open("chat.db")["chat"], "Hello"):
        if isinstance(event, StreamDelta):
            print(event.text, end="", flush=True)


asyncio.run(main())
