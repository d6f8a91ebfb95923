"""An answer that is printed while it streams, in a chat that is on disk."""

import asyncio
from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter


async def main() -> None:
    file = Path("chat.json")
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    async with Agent("openai:gpt-5.2").run_stream("Hello", message_history=history) as result:
        async for text in result.stream_text(delta=True):
            print(text, end="", flush=True)
    file.write_bytes(result.all_messages_json())


asyncio.run(main())
