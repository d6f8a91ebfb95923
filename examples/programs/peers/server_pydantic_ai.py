"""A web server with a stop button, for runs of this process; start it with `uvicorn server:app`."""

from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic_ai import Agent, ModelMessagesTypeAdapter

app = FastAPI()
agent = Agent("openai:gpt-5.2")
stopped: set[str] = set()


@app.post("/{name}")
async def say(name: str, words: str) -> StreamingResponse:
    return StreamingResponse(pieces(name, words))


async def pieces(name: str, words: str) -> AsyncIterator[str]:
    stopped.discard(name)
    file = Path(f"{name}.json")
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    async with agent.run_stream(words, message_history=history) as result:
        async for text in result.stream_text(delta=True):
            if name in stopped:
                break
            yield text
    file.write_bytes(result.all_messages_json())


@app.delete("/{name}")
async def stop(name: str) -> None:
    stopped.add(name)
