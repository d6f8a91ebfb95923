"""A web server with a stop button, for runs of this process; start it with `uvicorn server:app`."""

from agents import Agent, Runner, RunResultStreaming, SQLiteSession
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai.types.responses import ResponseTextDeltaEvent

app = FastAPI()
agent = Agent("guide", model="gpt-5.2")
running: dict[str, RunResultStreaming] = {}


@app.post("/{name}")
async def say(name: str, words: str) -> StreamingResponse:
    result = Runner.run_streamed(agent, words, session=SQLiteSession(name, "chat.db"))
    running[name] = result
    pieces = (event.data async for event in result.stream_events() if event.type == "raw_response_event")
    return StreamingResponse(data.delta async for data in pieces if isinstance(data, ResponseTextDeltaEvent))


@app.delete("/{name}")
async def stop(name: str) -> None:
    running[name].cancel()
