"""Sessions of deepseek-harness, made up in each version of its format."""

from __future__ import annotations

from typing import Any

from tests.transcripts.given import Json, lines

START = 1785004180000
SYSTEM = "You are dsh, an agent that works in a folder."


class Session:
    """The lines of a session: a head, and events with their numbers and times."""

    def __init__(self, version: object, id: str = "s-1", **head: Any) -> None:
        self.version = version
        seeded = {"isSeeded": False} if version in (2, 3, 4) else {}
        told = {"version": version} if version is not None else {}
        self.lines: list[Json] = [
            {
                "type": "session",
                **told,
                "id": id,
                "createdAt": START,
                "cwd": "/home/user/shop",
                **seeded,
                **head,
            }
        ]

    def add(self, kind: str, data: Json, **frame: Any) -> int:
        """Add an event, and return its number."""
        seq = len(self.lines) - 1
        self.lines.append({"type": kind, "seq": seq, "time": START + seq * 1000, "data": data, **frame})
        return seq

    def user(self, text: str, id: str, instead: tuple[int, int] | None = None, **source: Any) -> int:
        message = {"role": "user", "id": id, "content": [{"type": "text", "text": text}]}
        return self.add(
            "user/message", {**message, "source": source or {"kind": "user"}}, **self._frame(instead)
        )

    def assistant(self, id: str, *blocks: Json, stream: list[Json] | None = None, **data: Any) -> int:
        source = {"kind": "model", "provider": "deepseek-official", "model": "deepseek-v4"}
        message = {"role": "assistant", "id": id, "content": list(blocks), "source": source}
        told = {"stream": stream or []} if self.version in (2, 3, 4) else {}
        return self.add(
            "assistant/message",
            {"turn": 1, "step": 1, "message": message, **told, **data},
            surfaceOp="append",
        )

    def result(self, id: str, call: str, text: str, *, failed: bool = False) -> int:
        """Add a result: in a wrapper that a user's message holds, or from version 4 on in the message."""
        content = [{"type": "text", "text": text}]
        source = {"kind": "tool", "callId": call}
        if self.version == 4:
            message: Json = {"role": "tool", "toolCallId": call, "content": content, "isError": failed}
        else:
            wrapper = {"type": "tool-result", "toolCallId": call, "content": content, "isError": failed}
            message = {"role": "user", "content": [wrapper]}
        told = {"turn": 1, "step": 1, "message": {**message, "id": id, "source": source}}
        return self.add("tool/result", told, surfaceOp="append")

    def header(self) -> None:
        """Add the head of a request: up to version 2 with the system prompt, which then is a message."""
        config = {"provider": "deepseek-official", "model": "deepseek-v4", "reasoningEffort": "high"}
        tools = [{"name": "read", "description": "Read a file.", "parameters": {"type": "object"}}]
        system = {} if self.version in (3, 4) else {"system": SYSTEM}
        if not system:
            message = {"role": "system", "id": "sys", "content": [{"type": "text", "text": SYSTEM}]}
            source = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt"}
            told = {"turn": 1, "step": 1, "message": {**message, "source": source}}
            self.add("system/message", told, surfaceOp="append")
        header = {"config": config, "tools": tools, **system}
        self.add("request/header", {"header": header, "reason": "initial"})

    def chunks(self, *texts: str) -> None:
        """Add the chunks of a text as they stream: an event each, or in a row."""
        for chunk in text_chunks(*texts):
            self.add("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})

    def packed(self, *texts: str) -> None:
        """Add a row that stands for several chunks, each with a number of its own."""
        seq = self._next()
        data = {"turn": 1, "step": 1, "index": 0, "dt": [1] * (len(texts) - 1), "texts": list(texts)}
        self.lines.append({"type": "text-chunks", "seq0": seq, "time0": START, "data": data})

    def bytes(self) -> bytes:
        return lines(*self.lines)

    def _next(self) -> int:
        return len(self.lines) - 1

    def _frame(self, instead: tuple[int, int] | None) -> Json:
        if instead is None:
            return {"surfaceOp": "append"}
        first, last = ("startSeq", "endSeq") if self.version in (3, 4) else ("start", "end")
        return {"surfaceOp": {"op": "replace", first: instead[0], last: instead[1]}}


def text_chunks(*texts: str) -> list[Json]:
    """Return a text as it streams."""
    return [
        {"type": "block-start", "index": 0, "blockType": "text"},
        *({"type": "text-delta", "index": 0, "text": text} for text in texts),
    ]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thought(words: str) -> Json:
    return {"type": "reasoning", "text": words}


def call(id: str, name: str, arguments: str) -> Json:
    return {"type": "tool-call", "id": id, "name": name, "arguments": arguments}


def told_in_all(version: object) -> Session:
    """Return a session with a question, two calls, an error and an answer, in a version of the format."""
    session = Session(version)
    session.add("turn/start", {"turn": 1})
    session.add("step/start", {"turn": 1, "step": 1})
    session.header()
    session.user("Which loaves are left?", "u1")
    session.user("Today is Monday.", "u2", kind="plugin", plugin="time-context")
    session.add("session/title", {"title": "Loaves", "messageSeqs": [4], "source": {"kind": "fallback"}})
    usage = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 100, "reasoningTokens": 2}
    calls = (call("c1", "read", '{"path": "shelf.txt"}'), call("c2", "read", '{"path": "oven.txt"}'))
    session.assistant("a1", thought("I look at the shelf."), text("A moment."), *calls, usage=usage)
    for each in calls:
        session.add("tool/call", {"callId": each["id"], "name": "read", "arguments": each["arguments"]})
    session.result("r1", "c1", "rye, spelt")
    session.result("r2", "c2", "no such file", failed=True)
    session.add("step/end", {"turn": 1, "step": 1})
    session.add("step/start", {"turn": 1, "step": 2})
    session.assistant("a2", text("Rye and spelt."))
    session.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return session
