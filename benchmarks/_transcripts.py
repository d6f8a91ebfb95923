"""Make transcripts from a seed, in the shapes and sizes of those that programs leave behind.

Many are short and a few long; one has almost a third of them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, TypeAlias

Json: TypeAlias = dict[str, Any]
Talk: TypeAlias = Callable[["Maker"], Iterator[Json]]

MB = 1_000_000
SHARES = (0.3, 0.05, 0.05, 0.05)
"""What the long files take of all bytes; the others are of 20 kB to 2 MB."""
VOCABULARY = 4_000
LENGTHS = ("cut", "run", "test", "file", "error", "line", "строка", "ошибка", '"name": ', "\n    ", "\\d+")


class Maker:
    """Words, ids and times, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        words = [*LENGTHS, *("".join(self.random.choices("etaoinshrdlu_", k=6)) for _ in range(200))]
        self._text = " ".join(self.random.choices(words, k=VOCABULARY * 10))
        self._at = datetime(2026, 1, 2, tzinfo=UTC)

    def words(self, about: int) -> str:
        """Return a text of `about` so many characters."""
        length = min(int(self.random.expovariate(1 / about)) + 1, len(self._text))
        start = self.random.randrange(len(self._text) - length + 1)
        return self._text[start : start + length]

    def id(self) -> str:
        return f"{self.random.getrandbits(128):032x}"

    def time(self) -> str:
        self._at += timedelta(milliseconds=self.random.randrange(20_000))
        return self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def claude_code(make: Maker) -> Iterator[Json]:
    """Yield the records of a Claude Code session, without end."""
    session, parent = make.id(), None

    def record(kind: str, **fields: Any) -> Json:
        nonlocal parent
        before, parent = parent, make.id()
        about = {"parentUuid": before, "isSidechain": False, "userType": "external", "cwd": "/home/user/shop"}
        known = {"sessionId": session, "version": "2.1.9", "gitBranch": "main", "type": kind, "uuid": parent}
        return {**about, **known, **fields, "timestamp": make.time()}

    def answer(id: str, block: Json) -> Json:
        usage = {"input_tokens": 4, "cache_read_input_tokens": 20_000, "output_tokens": 310}
        message = {"model": "claude-x", "id": id, "type": "message", "role": "assistant", "content": [block]}
        return record(
            "assistant", message={**message, "stop_reason": None, "usage": usage}, requestId=make.id()
        )

    while True:
        yield {
            "type": "file-history-snapshot",
            "messageId": make.id(),
            "snapshot": {"files": make.words(300)},
        }
        yield record("user", message={"role": "user", "content": make.words(400)})
        for _ in range(make.random.randrange(1, 12)):
            message, call = f"msg_{make.id()}", f"toolu_{make.id()}"
            yield answer(
                message, {"type": "thinking", "thinking": make.words(300), "signature": make.words(300)}
            )
            yield answer(message, {"type": "text", "text": make.words(250)})
            input = {"command": make.words(80), "description": make.words(40)}
            yield answer(message, {"type": "tool_use", "id": call, "name": "Bash", "input": input})
            yield record(
                "progress", data={"type": "bash_progress", "output": make.words(700)}, toolUseID=call
            )
            output = make.words(3_500)
            result = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
            told = {"stdout": output, "stderr": "", "interrupted": False}
            yield record("user", message={"role": "user", "content": [result]}, toolUseResult=told)
        yield answer(f"msg_{make.id()}", {"type": "text", "text": make.words(900)})


def codex(make: Maker) -> Iterator[Json]:
    """Yield the records of a Codex rollout, without end."""

    def record(kind: str, **payload: Any) -> Json:
        return {"timestamp": make.time(), "type": kind, "payload": payload}

    def said(role: str, words: str) -> Json:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": words}
        return record("response_item", type="message", role=role, content=[part])

    instructions = {"text": make.words(8_000)}
    yield record("session_meta", id=make.id(), cwd="/home/user/shop", base_instructions=instructions)
    while True:
        yield record("turn_context", model="gpt-x", approval_policy="on-request", cwd="/home/user/shop")
        words = make.words(300)
        yield said("user", words)
        yield record("event_msg", type="user_message", message=words)
        for _ in range(make.random.randrange(1, 12)):
            call, words = f"call_{make.id()}", make.words(200)
            yield record("response_item", type="reasoning", summary=[], encrypted_content=make.words(300))
            yield said("assistant", words)
            yield record("event_msg", type="agent_message", message=words)
            arguments = json.dumps({"command": ["bash", "-lc", make.words(150)]}, ensure_ascii=False)
            fields = {"name": "shell", "arguments": arguments, "call_id": call}
            yield record("response_item", type="function_call", **fields)
            usage = {"last_token_usage": {"input_tokens": 9_000, "output_tokens": 210}}
            yield record(
                "event_msg", type="token_count", info=usage, rate_limits={"primary": make.words(300)}
            )
            yield record("response_item", type="function_call_output", call_id=call, output=make.words(3_000))


def openai(make: Maker) -> Iterator[Json]:
    """Yield OpenAI chat messages, without end."""
    yield {"role": "system", "content": make.words(2_000)}
    while True:
        yield {"role": "user", "content": make.words(300)}
        for _ in range(make.random.randrange(0, 6)):
            function = {"name": "look", "arguments": json.dumps({"at": make.words(80)})}
            call = {"id": f"call_{make.id()}", "type": "function", "function": function}
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
            yield {"role": "tool", "tool_call_id": call["id"], "content": make.words(2_000)}
        yield {"role": "assistant", "content": make.words(600)}


TALKS: tuple[Talk, ...] = (claude_code, claude_code, claude_code, codex, openai)
"""How many of each there are among the short ones; the long ones are Claude Code's, Codex's and a list."""


def write(folder: Path, size: int, seed: int = 6) -> int:
    """Fill a folder with so many bytes of transcripts; how many files there are."""
    make = Maker(seed)
    number = count()
    left = size
    for share, talk in zip(SHARES, (claude_code, codex, openai, claude_code), strict=True):
        left -= file(folder / f"{next(number)}.jsonl", make, talk, int(size * share))
    while left > 0:
        left -= short_file(folder, make, next(number), max(left, 20_000))
    return next(number)


def short_file(folder: Path, make: Maker, number: int, most: int = 2 * MB) -> int:
    """Write a short transcript in a project's folder; return its bytes."""
    short = min(int(make.random.lognormvariate(11.5, 1.2)) + 20_000, 2 * MB, most)
    place = folder / f"project-{make.random.randrange(20)}"
    place.mkdir(exist_ok=True)
    return file(place / f"{number}.jsonl", make, make.random.choice(TALKS), short)


def file(path: Path, make: Maker, talk: Talk, size: int) -> int:
    """Write one transcript of about so many bytes; how many there are."""
    with path.open("wb") as stream:
        return written(stream, talk(make), size)


def written(stream: BinaryIO, records: Iterator[Json], size: int) -> int:
    """Write records until so many bytes are written; how many there are."""
    done = 0
    while done < size:
        done += stream.write(json.dumps(next(records), ensure_ascii=False, separators=(",", ":")).encode())
        done += stream.write(b"\n")
    return done
