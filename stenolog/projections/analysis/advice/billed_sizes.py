"""Tokens of a prompt's blocks, learned from bills: a provider counts otherwise than an estimate.

A call's usage says what its whole prompt is, and mostly where it ends that it read, and that it wrote. Blocks
that were seen before are known; new ones share the rest by their estimates.
"""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.domain.values import Usage
from stenolog.projections.formats.caching import Block

from ..cache.prompts import Prompt

WIDEST = 4.0
"""Times by which a bill may differ from an estimate; beyond that it is of something else."""


class BilledSizes:
    """Tokens of blocks, by their text."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._estimated = self._billed = 0.0

    def learn(self, prompt: Prompt, usage: Usage, read: int) -> list[float]:
        """Return a prompt's sizes, which add up to its bill; `read` is the number of blocks read."""
        ends = {len(prompt.blocks): usage.input}
        written = usage.cache_read + usage.cache_write
        if prompt.is_marked and prompt.marks and written:
            ends[prompt.last] = min(written, usage.input)
        if read and usage.cache_read and prompt.is_marked:
            ends[read] = min(usage.cache_read, usage.input)
        first, before = 0, 0
        for number, tokens in sorted(ends.items()):
            part = prompt.blocks[first:number]
            if part and tokens >= before and self._is_likely(part, tokens - before):
                self._share(part, tokens - before)
                first, before = number, tokens
        self._fit(prompt.blocks[first:], usage.input - before)
        return [*map(self.of, prompt.blocks)]

    def has(self, block: Block) -> bool:
        """Return whether a block was part of a bill."""
        return block.key in self._known

    def of(self, block: Block) -> float:
        """Return a block's tokens; those of an unknown one as estimated, at the rate of the others."""
        known = self._known.get(block.key)
        return block.tokens() * self._rate if known is None else known

    @property
    def _rate(self) -> float:
        return self._billed / self._estimated if self._estimated and self._billed else 1.0

    def _is_likely(self, blocks: Sequence[Block], tokens: int) -> bool:
        estimate = sum(map(self.of, blocks))
        return estimate / WIDEST <= tokens <= estimate * WIDEST or tokens < 200 > estimate

    def _share(self, blocks: Sequence[Block], tokens: float) -> None:
        new = [block for block in blocks if block.key not in self._known and block.tokens()]
        rest = tokens - sum(self._known.get(block.key, 0.0) for block in blocks)
        estimate = sum(block.tokens() for block in new)
        if new and estimate * self._rate / WIDEST <= rest <= estimate * self._rate * WIDEST:
            self._estimated += estimate
            self._billed += rest
            for block in new:
                self._known[block.key] = block.tokens() * rest / estimate
        else:
            self._fit(blocks, tokens)

    def _fit(self, blocks: Sequence[Block], tokens: float) -> None:
        """Scale blocks to their tokens."""
        total = sum(map(self.of, blocks))
        for block in blocks if total else ():
            self._known[block.key] = self.of(block) * tokens / total
