"""A model behind one HTTP call: `http-model:llama3`, with its URL as an option."""

import asyncio
import json
from collections.abc import AsyncGenerator
from urllib.request import Request, urlopen

from stenolog import TextPart
from stenolog.models import MODELS, Model, ModelError, ModelRequest, ModelResponse, StreamItem, Transport


class ChatServer(Model):
    """A server that takes the body of Chat Completions and answers at once."""

    def __init__(self, name: str, *, url: str = "http://127.0.0.1:8080/v1/chat/completions") -> None:
        self.name, self.url = name, url

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        yield (sent := prompt.outgoing(Transport("POST", "/v1/chat/completions")))
        request = Request(self.url, sent.content, {"Content-Type": "application/json"})
        try:
            with await asyncio.to_thread(urlopen, request) as answer:
                said = json.load(answer)["choices"][0]["message"]["content"]
        except OSError as error:
            raise ModelError("network", str(error)) from error
        yield ModelResponse((TextPart(text=said),), model=self.name)


MODELS.add("http-model", ChatServer)
