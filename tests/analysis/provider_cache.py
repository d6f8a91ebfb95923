"""A small model of providers' prompt caches, which shares nothing with the analysis of what they missed.

It counts four characters as a token; what it reads is what a provider would state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.recording.programs import Json


class Provider:
    """The prompt cache of a provider: Anthropic's keeps what is marked, the others' the last prompt."""

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}
        self.last: tuple[list[str], float] = [], 0.0

    def usage(self, api: str, body: Json, now: float, least: int = 1_024) -> tuple[int, int, int]:
        """Return the tokens of a request, those that it reads from the cache, and those that it writes."""
        found = [*pieces(api, body)]
        texts = [text for text, _ in found]
        total = _tokens(texts)
        if api != "anthropic":
            return total, self._longest(texts, now, least), 0
        marks = [n for n, (_, seconds) in enumerate(found, 1) if seconds]
        read = self._marked(texts, marks, now, least)
        for n in marks:
            if _tokens(texts[:n]) >= least:
                self.kept["".join(texts[:n])] = now + found[n - 1][1]
        wrote = max(0, _tokens(texts[: marks[-1]]) - read) if marks else 0
        return total, read, wrote

    def _marked(self, texts: list[str], marks: list[int], now: float, least: int) -> int:
        for mark in reversed(marks):
            for n in range(mark, max(0, mark - 20), -1):
                if self.kept.get("".join(texts[:n]), 0) >= now and _tokens(texts[:n]) >= least:
                    return _tokens(texts[:n])
        return 0

    def _longest(self, texts: list[str], now: float, least: int) -> int:
        before, when = self.last
        self.last = texts, now
        same = 0
        while same < min(len(before), len(texts)) and before[same] == texts[same]:
            same += 1
        read = _tokens(texts[:same]) if now - when <= 600 else 0
        return read // 128 * 128 if read >= least else 0


def _tokens(texts: list[str]) -> int:
    return sum((len(text) + 3) // 4 for text in texts)


def pieces(api: str, body: Json) -> Iterator[tuple[str, int]]:
    """Yield the pieces of a prompt in the order of the provider, and the seconds that a mark keeps it."""
    model, tools = str(body.get("model", "")), body.get("tools", [])
    yield f"<{model}>", 0
    match api:
        case "anthropic":
            yield from map(_piece, tools)
            yield _setting(body, "speed"), 0
            yield from map(_piece, body["system"])
            yield _setting(body, "tool_choice") + _setting(body, "thinking"), 0
            for message in body["messages"]:
                content = message["content"]
                blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
                for block in blocks:
                    text, seconds = _piece(block)
                    yield f"{message['role']}:{text}", seconds
        case "gemini":
            yield from map(_piece, body["systemInstruction"]["parts"])
            yield from map(_piece, tools[0]["functionDeclarations"])
            yield _setting(body, "toolConfig"), 0
            for message in body["contents"]:
                for part in message["parts"]:
                    yield f"{message['role']}:{_piece(part)[0]}", 0
        case _:
            yield _setting(body, "prompt_cache_key") + _setting(body, "response_format"), 0
            yield json.dumps(body.get("text")), 0
            messages: list[Json] = body.get("messages") or body["input"]
            system = [messages[0]] if messages[0]["role"] == "system" else [body["instructions"]]
            yield from map(_piece, [*system, *tools])
            yield from map(_piece, messages[1:] if messages[0]["role"] == "system" else messages)


def _setting(body: Json, key: str) -> str:
    return f"[{json.dumps(body.get(key))}]" if body.get(key) is not None else ""


def _piece(value: Any) -> tuple[str, int]:
    mark = value.get("cache_control") if isinstance(value, dict) else None
    bare = {k: v for k, v in value.items() if k != "cache_control"} if mark else value
    return json.dumps(bare, separators=(",", ":")), 0 if not mark else 3_600 if mark.get(
        "ttl"
    ) == "1h" else 300
