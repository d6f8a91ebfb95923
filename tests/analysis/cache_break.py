"""A change from one request of a program to the next, and what it should be found to be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

from tests.recording.programs import BODIES, WORDS, Json, said, tool

LONG = WORDS * 8
TOOLS = ("Alpha", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot")
TEXTS = [f"Message {n} of the talk. {WORDS * 3}" for n in range(7)]
REPLY = f"All the loaves are baked. {WORDS}"
NEXT = f"And what comes next, then? {WORDS}"
MARK = {"type": "ephemeral"}
APIS = ("anthropic", "openai-chat", "openai-responses", "gemini")


class Expected(NamedTuple):
    """The cause that should be found; `entry` says how its entry is known: see `test_cache_misses`."""

    kind: str = ""
    how: str = ""
    pointer: str = ""
    offset: int = -1
    entry: str = ""


class Break(NamedTuple):
    """A change from the first body to the second, so many seconds later, and what it should be found to be.

    `before` changes both of them first.
    """

    api: str
    name: str
    change: Callable[[Json], object]
    expected: Expected = Expected()
    seconds: float = 10
    before: Callable[[Json], object] = lambda body: None
    least: int = 1_024


def bodies(one: Break) -> tuple[Json, Json]:
    """Return the two bodies of a break."""
    first = base(one.api, TEXTS)
    second = base(one.api, [*TEXTS, REPLY, NEXT])
    one.before(first)
    one.before(second)
    one.change(second)
    return copy.deepcopy(first), copy.deepcopy(second)


def base(api: str, texts: list[str]) -> Json:
    """Return a body of an API with six tools, a system prompt and these messages."""
    messages = [said(api, text, "assistant" if n % 2 else "user") for n, text in enumerate(texts)]
    tools = [tool(api, name, f"{name}: {LONG}") for name in TOOLS]
    body: Json = BODIES[api](messages)
    match api:
        case "anthropic":
            body["tools"] = tools
            body["system"] = [
                {"type": "text", "text": f"billing: cc_version=2.1.0.abc; {WORDS}"},
                {"type": "text", "text": f"You are an agent. The date is 2026-01-05. {LONG}"},
                {"type": "text", "text": f"gitStatus: clean, on main. {LONG}", "cache_control": MARK},
            ]
            messages[-1]["content"][-1]["cache_control"] = MARK
        case "gemini":
            body["tools"] = [{"functionDeclarations": tools}]
            body["systemInstruction"]["parts"][0]["text"] = f"The date is 2026-01-05. {LONG}"
        case "openai-chat":
            body["tools"] = tools
            body["messages"][0]["content"] = f"The date is 2026-01-05. {LONG}"
        case _:
            body["tools"] = tools
            body["instructions"] = f"The date is 2026-01-05. {LONG}"
    return copy.deepcopy(body)


class Form(NamedTuple):
    """Where an API has its tools and messages: the list, and the pointer of it."""

    api: str

    def tools(self, body: Json) -> list[Json]:
        found: list[Json] = (
            body["tools"][0]["functionDeclarations"] if self.api == "gemini" else body["tools"]
        )
        return found

    def tool_pointer(self, nth: int, inner: str = "") -> str:
        base = "/tools/0/functionDeclarations" if self.api == "gemini" else "/tools"
        function = "/function" if self.api == "openai-chat" and inner else ""
        return f"{base}/{nth}{function}{inner}"

    def function(self, body: Json, nth: int) -> Json:
        found = self.tools(body)[nth]
        return found["function"] if self.api == "openai-chat" else found

    @property
    def schema(self) -> str:
        return {"anthropic": "input_schema", "gemini": "parametersJsonSchema"}.get(self.api, "parameters")

    @property
    def key(self) -> str:
        return {"openai-responses": "input", "gemini": "contents"}.get(self.api, "messages")

    @property
    def first(self) -> int:
        return 1 if self.api == "openai-chat" else 0

    def messages(self, body: Json) -> list[Json]:
        found: list[Json] = body[self.key]
        return found

    def message_pointer(self, depth: int) -> str:
        inner = {"anthropic": "/content/0", "gemini": "/parts/0"}.get(self.api, "")
        return f"/{self.key}/{depth + self.first}{inner}"

    def text_pointer(self, depth: int) -> str:
        inner = {"openai-chat": "/content", "openai-responses": "/content/0/text"}.get(self.api, "/text")
        return f"{self.message_pointer(depth)}{inner}"

    def set_text(self, body: Json, depth: int, change: Callable[[str], str]) -> None:
        message = self.messages(body)[depth + self.first]
        if isinstance(message.get("content"), str):
            message["content"] = change(message["content"])
        else:
            part = (message.get("content") or message["parts"])[0]
            part["text"] = change(part["text"])
