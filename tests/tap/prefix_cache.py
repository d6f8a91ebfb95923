"""A provider's own cache of prefixes: the part of a request that an earlier one has begun with.

Canonical order is tools, system, messages. Anthropic's stores end at `cache_control` and are looked for up to
20 blocks before each; the others take the longest common prefix in steps of 128 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

BYTES_PER_TOKEN = 4
STEP_TOKENS = 128
LEAST_TOKENS = 1024
LOOKBACK = 20


class Used(NamedTuple):
    """Input tokens: from the cache, into it, beside it. `new_from` points to the first new part."""

    read: int
    written: int
    fresh: int
    new_from: str

    @property
    def total(self) -> int:
        return self.read + self.written + self.fresh


class Block(NamedTuple):
    """A part of a request in canonical order. `ends` tells whether a `cache_control` is at it."""

    pointer: str
    content: bytes
    ends: bool = False


class PrefixCache:
    """The prefixes that one provider has met, by model."""

    def __init__(self) -> None:
        self._stored: set[bytes] = set()
        self._met: set[bytes] = set()

    def messages(self, body: dict[str, Any]) -> Used:
        """Count a request of Anthropic's API, and store its prefixes."""
        blocks = list(_messages(body))
        chain, sizes = self._chain(str(body.get("model")), blocks)
        ends = [nth for nth, block in enumerate(blocks) if block.ends and sizes[nth] >= LEAST_TOKENS]
        read = 0
        for end in reversed(ends):
            tries = range(end, max(end - LOOKBACK, -1), -1)
            read = max(read, next((sizes[nth] for nth in tries if chain[nth] in self._stored), 0))
        last = sizes[ends[-1]] if ends else 0
        self._stored.update(chain[end] for end in ends)
        return Used(read, max(last - read, 0), sizes[-1] - max(last, read), self._new_from(blocks, chain))

    def steps(self, body: dict[str, Any], earlier: list[Any]) -> Used:
        """Count a request of OpenAI's and Gemini's APIs, and store its prefixes."""
        blocks = [*_others(body, earlier)]
        model = str(body.get("model"))
        chain, sizes = self._chain(model, blocks)
        content = b"".join(block.content for block in blocks)
        step, read, digest, common = STEP_TOKENS * BYTES_PER_TOKEN, 0, model.encode(), True
        for start in range(0, len(content) - step + 1, step):
            digest = sha256(digest + content[start : start + step]).digest()
            if common and digest in self._stored:
                read = (start + step) // BYTES_PER_TOKEN
            else:
                common = False
                self._stored.add(digest)
        read = read if read >= LEAST_TOKENS else 0
        return Used(read, 0, sizes[-1] - read, self._new_from(blocks, chain))

    def _chain(self, model: str, blocks: list[Block]) -> tuple[list[bytes], list[int]]:
        digest, size = model.encode(), 0
        chain, sizes = [], []
        for block in blocks:
            digest = sha256(digest + block.content).digest()
            size += len(block.content)
            chain.append(digest)
            sizes.append(size // BYTES_PER_TOKEN)
        return chain, sizes or [0]

    def _new_from(self, blocks: list[Block], chain: list[bytes]) -> str:
        """Return the pointer of the first block that no earlier request had there; empty: each was met."""
        first = next((nth for nth, digest in enumerate(chain) if digest not in self._met), len(chain))
        self._met.update(chain[first:])
        return blocks[first].pointer if first < len(blocks) else ""


def canonical(value: Any) -> bytes:
    """Return a value as compact JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _messages(body: dict[str, Any]) -> Iterator[Block]:
    for nth, tool in enumerate(body.get("tools") or ()):
        yield _block(f"/tools/{nth}", "", tool)
    system = body.get("system") or []
    for nth, part in enumerate([{"type": "text", "text": system}] if isinstance(system, str) else system):
        yield _block(f"/system/{nth}" if isinstance(body["system"], list) else "/system", "", part)
    for name in ("tool_choice", "thinking"):
        if name in body:
            yield _block(f"/{name}", name, body[name])
    messages = body.get("messages") or []
    for nth, message in enumerate(messages):
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for inner, part in enumerate(listed):
            pointer = f"/messages/{nth}/content" + ("" if isinstance(content, str) else f"/{inner}")
            block = _block(pointer, message["role"], part)
            automatic = "cache_control" in body and nth == len(messages) - 1 and inner == len(listed) - 1
            yield block._replace(ends=block.ends or automatic)


def _block(pointer: str, role: str, part: Any) -> Block:
    ends = isinstance(part, dict) and part.get("cache_control") is not None
    bare = {key: value for key, value in part.items() if key != "cache_control"} if ends else part
    return Block(pointer, role.encode() + canonical(bare), ends)


def _others(body: dict[str, Any], earlier: list[Any]) -> Iterator[Block]:
    for nth, tool in enumerate(body.get("tools") or ()):
        yield Block(f"/tools/{nth}", canonical(tool))
    for name in ("instructions", "systemInstruction"):
        if body.get(name):
            yield Block(f"/{name}", canonical(body[name]))
    yield from (Block(f"(stored)/{nth}", canonical(item)) for nth, item in enumerate(earlier))
    for name in ("messages", "input", "contents"):
        supplied = body.get(name) or ()
        for nth, item in enumerate([supplied] if isinstance(supplied, str) else supplied):
            yield Block(f"/{name}/{nth}", canonical(item))
