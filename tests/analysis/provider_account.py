"""A provider's prompt cache for an account, by its documentation; it shares nothing with the simulation.

It counts tokens in its own way, keeps one cache for all who call it, and bills by the documented prices: what
it reads at a tenth, what it keeps for five minutes at 1.25 times, for an hour at twice the price of input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from stenolog.events import Usage

Json = dict[str, Any]
LEAST = {"claude-sonnet-4-5": 1_024, "claude-opus-4-5": 4_096, "claude-haiku-4-5": 4_096}
INPUT = {"claude-sonnet-4-5": 3.0, "claude-opus-4-5": 5.0, "claude-haiku-4-5": 1.0, "gpt-5": 1.25}
"""USD per million tokens; micro-dollars per token."""
PIECE = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|\s+|[^A-Za-z0-9\s]")


class Bill(NamedTuple):
    """The tokens of a call, and the cost of its prompt in micro-dollars."""

    usage: Usage
    cost: float


class Account:
    """All calls of an account, in the order of time: seconds, and the seconds until an answer begins."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, float, int]] = {}
        self._prompts: list[tuple[str, float, float]] = []

    def ask(self, body: Json, now: float, wait: float = 1.0) -> Bill:
        """Return the bill of a call."""
        model = body["model"]
        anthropic = model.startswith("claude")
        read, five, hour, total = (self._marked if anthropic else self._plain)(body, now, wait)
        usage = Usage(input=total, cache_read=read, cache_write=five + hour, cache_write_hour=hour, output=0)
        plain = total - read - five - hour
        return Bill(usage, INPUT[model] * (plain + 0.1 * read + 1.25 * five + 2 * hour))

    def _marked(self, body: Json, now: float, wait: float) -> tuple[int, int, int, int]:
        blocks = [*anthropic_blocks(body)]
        texts, ends, so_far = list[str](), list[int](), 0
        for text, _ in blocks:
            texts.append((texts[-1] if texts else body["model"]) + "\x00" + text)
            so_far += tokens(text)
            ends.append(so_far)
        marks = [(n, ttl) for n, (_, ttl) in enumerate(blocks) if ttl and ends[n] >= LEAST[body["model"]]]
        assert len([ttl for _, ttl in blocks if ttl]) <= 4, "at most four breakpoints"
        lifetimes = [ttl for _, ttl in blocks if ttl]
        assert lifetimes == sorted(lifetimes, reverse=True), "the longer lifetimes first"
        hit = next(
            (
                n
                for mark, _ in reversed(marks)
                for n in range(mark, max(mark - 20, -1), -1)
                if self._has(texts[n], now)
            ),
            None,
        )
        read = 0 if hit is None else ends[hit]
        if hit is not None:
            _, begun, ttl = self._kept[texts[hit]]
            self._kept[texts[hit]] = now + ttl, begun, ttl
        last_hour = max((ends[n] for n, ttl in marks if ttl > 300), default=0)
        last = max((ends[n] for n, _ in marks), default=0)
        hour = max(last_hour - read, 0)
        for n, ttl in marks:
            if self._has(texts[n], now):
                until, begun, before = self._kept[texts[n]]
                self._kept[texts[n]] = max(until, now + max(ttl, before)), begun, max(ttl, before)
            else:
                self._kept[texts[n]] = now + wait + ttl, now + wait, ttl
        return read, max(last - max(read, last_hour), 0), hour, so_far

    def _has(self, text: str, now: float) -> bool:
        until, begun, _ = self._kept.get(text, (0.0, 0.0, 0))
        return begun <= now <= until

    def _plain(self, body: Json, now: float, wait: float) -> tuple[int, int, int, int]:
        text = "\x00".join(openai_texts(body))
        keeps = 86_400 if body.get("prompt_cache_retention") == "24h" else 600
        alive = [each for each, begun, until in self._prompts if begun <= now <= until]
        same = max((_same(text, each) for each in alive), default=0)
        read = tokens(text[:same]) // 128 * 128
        self._prompts.append((text, now + wait, now + wait + keeps))
        return (read if read >= 1_024 else 0), 0, 0, tokens(text)


def _same(one: str, other: str) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def tokens(text: str) -> int:
    """Count a text as no estimate of stenolog's does."""
    return len(PIECE.findall(text))


def anthropic_blocks(body: Json) -> Iterator[tuple[str, int]]:
    """Yield the blocks of a prompt in Anthropic's order, and the seconds for which one is kept."""
    for tool in body.get("tools", ()):
        yield _block(tool)
    system = body.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield _block(block)
    found = [
        (f"{message['role']}:{text}", ttl)
        for message in body["messages"]
        for text, ttl in map(_block, message["content"])
    ]
    if "cache_control" in body:
        found[-1] = found[-1][0], _ttl(body)
    yield from found


def _block(block: Json) -> tuple[str, int]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return bare["text"] if bare.get("type") == "text" else json.dumps(bare), _ttl(block)


def _ttl(block: Json) -> int:
    mark = block.get("cache_control")
    return 0 if mark is None else 3_600 if mark.get("ttl") == "1h" else 300


def openai_texts(body: Json) -> Iterator[str]:
    """Yield the texts of a prompt in OpenAI's order: instructions, tools, messages."""
    first, *rest = body["messages"]
    yield json.dumps(first)
    for each in (*body.get("tools", ()), *rest):
        yield json.dumps(each)
