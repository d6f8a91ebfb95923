"""The SDKs of OpenAI, Anthropic and Google as clients of the corpus: loops of agents in their own idiom."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
from google import genai
from google.genai import types

from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from tests.tap.answered import answered
from tests.tap.dialogues import PIXELS
from tests.tap.raw_client import Label, Observer, Sent
from tests.tap.reading import prose

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "limit": {"type": "number", "default": 1.0}},
    "required": ["command"],
}
THREADS = 4
PICTURE = b64encode(PIXELS).decode()


class Session(NamedTuple):
    """A session of an SDK: its seed, so many requests at least, and the faults that its provider has."""

    name: str
    requests: int
    stream: bool
    fault: str

    def phrase(self, turn: int) -> str:
        """Return what the user says in a turn."""
        fault = f"{self.fault} " if turn % 3 == 1 else ""
        return f"{self.name}: {fault}{prose(f'{self.name}/{turn}', 12)} LOOP «{turn % 4}» THINK «now {turn}»"

    def result(self, call: str) -> str:
        """Return what a tool answers."""
        return prose(f"{self.name}/{call}", 150)


class Capture(httpx2.BaseTransport):
    """A transport that notes the bytes which an SDK sends, and those that it gets."""

    def __init__(self, log: list[Sent], client: str, api: str, observer: Observer | None) -> None:
        self._inner, self._observer = httpx2.HTTPTransport(), observer
        self._log, self._client, self._api = log, client, api
        self.label = Label("")

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        content = request.read()
        digest = sha256(content).hexdigest()
        path = request.url.raw_path.decode()
        headers = [(name.decode(), value.decode()) for name, value in request.headers.raw]
        kind = "count-tokens" if "count" in path.rpartition("/")[2].lower() else ""
        label = self.label._replace(kind=kind)
        sent = Sent(label, self._client, request.method, path, headers, digest, digest, len(content))
        self._log.append(sent)
        if self._observer:
            now = datetime.now(UTC)
            self._observer(
                RecordedExchange("sdk", now, request.method, path, self._client, content=content), False
            )
        response = self._inner.handle_request(request)
        sent.status, sent.sees_chunks = response.status_code, False
        sent.answer_headers = {name.lower(): value for name, value in response.headers.items()}
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = Copy(response.stream, sent, self._api)
        return response

    def close(self) -> None:
        self._inner.close()


class Copy(httpx2.SyncByteStream):
    """A stream of bytes that is noted as it is read. Its close reads what an SDK leaves."""

    def __init__(self, inner: httpx2.SyncByteStream, sent: Sent, api: str) -> None:
        self._inner, self._sent, self._api = inner, sent, api
        self._pieces = iter(inner)

    def __iter__(self) -> Iterator[bytes]:
        for part in self._pieces:
            self._sent.answer += part
            yield part
        self._sent.complete = True

    def close(self) -> None:
        for _ in self:
            pass
        self._inner.close()
        if self._sent.status == 200:
            self._sent.answer_id = answered(self._api, self._sent.decoded).id


def openai_chat(url: str, client: httpx2.Client, session: Session) -> None:
    """Run a loop of an agent over Chat Completions."""
    sdk = openai.OpenAI(base_url=url, api_key="sk-planted-000000000000000000", http_client=client)
    messages: list[Any] = [{"role": "system", "content": prose(session.name, 300)}]
    function = {"name": "run", "description": "Runs a command.", "parameters": PARAMETERS}
    fixed: Any = {
        "model": "gpt-5-mini",
        "tools": [{"type": "function", "function": function}],
        "temperature": 1.0,
    }
    requested = turn = 0
    while requested < session.requests:
        content: Any = session.phrase(turn)
        if turn % 4 == 2:
            picture = {"url": f"data:image/png;base64,{PICTURE}"}
            content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": picture}]
        messages.append({"role": "user", "content": content})
        turn += 1
        while True:
            requested += 1
            if session.stream:
                with sdk.chat.completions.stream(messages=messages, **fixed) as stream:
                    message = stream.get_final_completion().choices[0].message
            else:
                message = sdk.chat.completions.create(messages=messages, **fixed).choices[0].message
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if not message.tool_calls:
                break
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": session.result(call.id)}
                for call in message.tool_calls
            ]


def openai_responses(url: str, client: httpx2.Client, session: Session) -> None:
    """Run a loop of an agent over Responses, each second one with stored responses."""
    sdk = openai.OpenAI(base_url=url, api_key="sk-planted-000000000000000000", http_client=client)
    tool = {
        "type": "function",
        "name": "run",
        "description": "Runs it.",
        "parameters": PARAMETERS,
        "strict": False,
    }
    stores = int(session.name.rpartition("-")[2]) % 2 == 1
    fixed: Any = {"model": "gpt-5", "instructions": prose(session.name, 300), "tools": [tool]}
    fixed |= {} if stores else {"store": False, "include": ["reasoning.encrypted_content"]}
    history: list[Any] = []
    requested = turn = 0
    while requested < session.requests:
        history.append({"role": "user", "content": session.phrase(turn)})
        turn += 1
        while True:
            requested += 1
            if session.stream:
                with sdk.responses.stream(input=history, **fixed) as stream:
                    response: Any = stream.get_final_response()
            else:
                response = sdk.responses.create(input=history, **fixed)
            if stores:
                history, fixed["previous_response_id"] = [], response.id
            else:
                unsent = {"parsed", "parsed_arguments"}
                history += [item.model_dump(exclude_none=True, exclude=unsent) for item in response.output]
                for item in history:
                    for part in item.get("content", ()) if isinstance(item.get("content"), list) else ():
                        part.pop("parsed", None)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            history += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": session.result(call.call_id),
                }
                for call in calls
            ]


def anthropic_messages(url: str, client: httpx2.Client, session: Session) -> None:
    """Run a loop of an agent over Messages; count the tokens at the end."""
    sdk = anthropic.Anthropic(base_url=url, api_key="sk-ant-planted-0000000000000000", http_client=client)
    tool = {"name": "run", "description": "Runs a command.", "input_schema": PARAMETERS}
    system = [{"type": "text", "text": prose(session.name, 300), "cache_control": {"type": "ephemeral"}}]
    fixed: Any = {"model": "claude-test", "tools": [tool], "system": system}
    messages: list[Any] = []
    requested = turn = 0
    while requested < session.requests:
        content: list[Any] = [{"type": "text", "text": session.phrase(turn)}]
        if turn % 4 == 2:
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            content.append({"type": "image", "source": source})
        messages.append({"role": "user", "content": content})
        turn += 1
        while True:
            requested += 1
            if session.stream:
                with sdk.messages.stream(messages=messages, max_tokens=1000, **fixed) as stream:
                    message: Any = stream.get_final_message()
            else:
                message = sdk.messages.create(messages=messages, max_tokens=1000, **fixed)
            blocks = [block.model_dump(exclude_none=True) for block in message.content]
            messages.append({"role": "assistant", "content": blocks})
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                break
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": session.result(call.id)}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})
    sdk.messages.count_tokens(messages=messages, **fixed)


def google_genai(url: str, client: httpx2.Client, session: Session) -> None:
    """Run a loop of an agent over Gemini."""
    codes = [429, 500, 503, 529]
    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02, http_status_codes=codes)
    options = types.HttpOptions(base_url=url, httpx_client=client, retry_options=retries)
    sdk = genai.Client(api_key="AIzaPlanted00000000000000000000000000", http_options=options)
    run = types.FunctionDeclaration(name="run", description="Runs it.", parameters_json_schema=PARAMETERS)
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(
        system_instruction=prose(session.name, 300),
        temperature=1.0,
        tools=[types.Tool(function_declarations=[run])],
        automatic_function_calling=off,
    )
    contents: list[Any] = []
    requested = turn = 0
    while requested < session.requests:
        parts = [types.Part(text=session.phrase(turn))]
        parts += [types.Part.from_bytes(data=PIXELS, mime_type="image/png")] if turn % 4 == 2 else []
        contents.append(types.Content(role="user", parts=parts))
        turn += 1
        while True:
            requested += 1
            spoken: list[Any] = []
            if session.stream:
                for chunk in sdk.models.generate_content_stream(
                    model="gemini-t", contents=contents, config=config
                ):
                    spoken += _parts_of(chunk)
            else:
                spoken = _parts_of(
                    sdk.models.generate_content(model="gemini-t", contents=contents, config=config)
                )
            contents.append(types.Content(role="model", parts=spoken))
            calls = [part.function_call for part in spoken if part.function_call]
            if not calls:
                break
            answers = [
                types.Part.from_function_response(
                    name=call.name, response={"output": session.result(call.id or "")}
                )
                for call in calls
            ]
            contents.append(types.Content(role="user", parts=answers))


def _parts_of(response: types.GenerateContentResponse) -> list[Any]:
    return [part for one in response.candidates or () if one.content for part in one.content.parts or ()]


Loop = Callable[[str, httpx2.Client, Session], None]
SDKS: Mapping[str, tuple[str, str, Loop]] = {
    "sdk-openai-chat": ("openai", "chat", openai_chat),
    "sdk-openai-responses": ("openai", "responses", openai_responses),
    "sdk-anthropic": ("anthropic", "messages", anthropic_messages),
    "sdk-google": ("gemini", "gemini", google_genai),
}


def sessions(seed: int, requests: int) -> Iterator[tuple[str, Session]]:
    """Yield sessions of all SDKs with so many requests together."""
    random, planned, nth = Random(seed), 0, 0
    while planned < requests:
        for name in SDKS:
            number = random.choice((4, 9, 16, 30))
            fault = random.choice(("", "", "ERROR 529", "ERROR 429"))
            yield name, Session(f"{name}-{seed}-{nth}", number, random.random() < 0.6, fault)
            planned += number
        nth += 1


def run_sdks(
    urls: Mapping[str, str], seed: int, requests: int, observer: Observer | None = None
) -> list[Sent]:
    """Run the SDKs in threads, and return what they sent."""
    log: list[Sent] = []

    def one(pair: tuple[str, Session]) -> None:
        name, session = pair
        upstream, api, loop = SDKS[name]
        transport = Capture(log, name, api, observer)
        transport.label = Label(session.name, feature=f"sdk {session.fault}".strip())
        with httpx2.Client(transport=transport) as client:
            loop(urls[upstream], client, session)

    with ThreadPoolExecutor(THREADS) as pool:
        finished: Sequence[None] = [*pool.map(one, sessions(seed, requests))]
        assert all(each is None for each in finished)
    return log
