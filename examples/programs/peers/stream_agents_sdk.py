"""An answer that is printed while it streams."""

import asyncio

from agents import Agent, Runner, SQLiteSession
from openai.types.responses import ResponseTextDeltaEvent


async def main() -> None:
    session = SQLiteSession("chat", "chat.db")
    result = Runner.run_streamed(Agent("guide", model="gpt-5.2"), "Hello", session=session)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="", flush=True)


asyncio.run(main())
