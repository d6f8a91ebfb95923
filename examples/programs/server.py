"""A web server with a stop button; start it with `uvicorn server:app`."""

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import stenolog
from stenolog.engine import StreamDelta

app = FastAPI()
log = stenolog.open("chat.db")
team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2")])


@app.post("/{name}")
async def say(name: str, words: str) -> StreamingResponse:
    events = team.run(log[name], words)
    return StreamingResponse(event.text async for event in events if isinstance(event, StreamDelta))


@app.delete("/{name}")
async def stop(name: str) -> None:
    await team.cancel(log[name])
