"""Simulation of a provider's prompt cache: what recorded calls, or changed ones, read and write there.

The rules are those of the API's `cache`: order, breakpoints, least tokens, lifetimes. A provider keeps one
cache for all agents and conversations of an account. What a call writes can be read once its answer begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from stenolog.domain.lanes.limits import Tokens
from stenolog.projections.formats.caching import HOUR, Block

from ..cache.prompts import Prompt, minimum_of

PIECE = 256
"""Characters of a text that a provider without marks compares at once."""
STEP = 128
"""The step in which providers without marks count what they read."""
ERROR = 0.25
"""The part by which an estimate may be wrong."""
NO_ERRORS: Mapping[bytes, float] = {}


class SentPrompt(NamedTuple):
    """A call as a provider's cache sees it, in seconds.

    `keys` name the beginnings of the prompt, one longer than the other, and `ends` are their tokens. `marks`
    are numbers of beginnings, each with the seconds that it is kept; without marks, all beginnings are kept
    for `idle` seconds. `guessed` are tokens at the end that no bill states. `begun` is when it was sent,
    `answered` when what it wrote can be read.
    """

    model: str
    begun: float
    answered: float
    keys: Sequence[bytes]
    ends: Sequence[int]
    marks: Sequence[tuple[int, int]]
    lookback: int
    idle: int
    output: int = 0
    guessed: float = 0.0

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def error(self, number: int) -> float:
        """Return the tokens by which a beginning may be longer or shorter, as only the whole is billed."""
        return ERROR * min(self.ends[number - 1], self.tokens - self.ends[number - 1])


class CacheOutcome(NamedTuple):
    """The tokens of a call as billed, and the number of the beginning that it read."""

    used: Tokens
    read: int


class _Write(NamedTuple):
    key: bytes
    seconds: int


class SharedCache:
    """A provider's cache of one model, through time; `errors` and `doubt` as in `simulated`."""

    def __init__(self, least: int, errors: Mapping[bytes, float] = NO_ERRORS, doubt: int = 0) -> None:
        self._least, self._errors, self._doubt = least, errors, doubt
        self._until: dict[bytes, tuple[float, int]] = {}
        self._coming: list[tuple[float, int, list[_Write]]] = []
        self._taken = 0

    def take(self, call: SentPrompt) -> CacheOutcome:
        """Return what a call reads and writes. Calls come in the order in which they were sent."""
        self._advance(call.begun)
        outcome = self._marked(call) if call.lookback else self._unmarked(call)
        self._taken += 1
        return outcome

    def _advance(self, now: float) -> None:
        while self._coming and self._coming[0][0] <= now:
            when, _, writes = heappop(self._coming)
            for write in writes:
                self._keep(write, when)

    def _marked(self, call: SentPrompt) -> CacheOutcome:
        marks = [(number, seconds) for number, seconds in call.marks if self._is_kept(call, number)]
        read = next((n for mark, _ in reversed(marks) for n in self._before(call, mark)), 0)
        if read:
            # What is read is kept anew, for its own lifetime.
            self._keep(_Write(call.keys[read - 1], self._until[call.keys[read - 1]][1]), call.begun)
        hour = max((number for number, seconds in marks if seconds >= HOUR), default=0)
        hour, last = max(hour, read), max(read, marks[-1][0] if marks else 0)
        self._write(call, [_Write(call.keys[n - 1], seconds) for n, seconds in marks])
        at_read, at_hour, at_last = (self._size(call, n) if n else 0 for n in (read, hour, last))
        return CacheOutcome(
            Tokens(
                call.tokens + round(self._doubt * ERROR * call.guessed),
                call.output,
                at_read,
                at_last - at_read,
                cache_write_hour=at_hour - at_read,
            ),
            read,
        )

    def beginnings_kept(self, call: SentPrompt) -> list[int]:
        """Return the beginnings of a call that its marks find in the cache."""
        self._advance(call.begun)
        return [n for mark, _ in call.marks for n in self._before(call, mark)]

    def _before(self, call: SentPrompt, mark: int) -> Iterator[int]:
        """Yield the beginnings near a mark that the cache has, the longest first."""
        for number in range(mark, max(mark - call.lookback, 0), -1):
            known = self._until.get(call.keys[number - 1])
            if known is not None and known[0] >= call.begun and self._is_kept(call, number):
                yield number

    def _unmarked(self, call: SentPrompt) -> CacheOutcome:
        read = 0
        for number, key in enumerate(call.keys, 1):
            known = self._until.get(key)
            if known is None or known[0] < call.begun:
                break
            read = number
        tokens = call.ends[read - 1] // STEP * STEP if read else 0
        tokens = tokens if tokens >= self._least else 0
        self._write(call, [_Write(key, call.idle) for key in call.keys])
        return CacheOutcome(Tokens(call.tokens, call.output, tokens), read if tokens else 0)

    def _is_kept(self, call: SentPrompt, number: int) -> bool:
        size = self._size(call, number)
        if self._doubt and call.keys[number - 1] not in self._errors:
            size += round(self._doubt * call.error(number))
        return size >= self._least

    def _size(self, call: SentPrompt, number: int) -> int:
        """Return the tokens of a beginning, with the possible error of a recorded one."""
        error = self._errors.get(call.keys[number - 1], 0.0) if self._doubt else 0.0
        return call.ends[number - 1] + round(self._doubt * error)

    def _write(self, call: SentPrompt, writes: list[_Write]) -> None:
        if call.answered > call.begun:
            heappush(self._coming, (call.answered, self._taken, writes))
        else:
            for write in writes:
                self._keep(write, call.begun)

    def _keep(self, write: _Write, now: float) -> None:
        until, seconds = self._until.get(write.key, (0.0, 0))
        # A longer lifetime that is still running stays.
        kept = max(seconds, write.seconds) if until >= now else write.seconds
        self._until[write.key] = max(until, now + kept), kept


def simulated(
    calls: Iterable[SentPrompt], errors: Mapping[bytes, float] = NO_ERRORS, doubt: int = 0
) -> list[CacheOutcome]:
    """Return the outcome of each call, in the given order; each model has a cache of its own.

    `doubt`: beginnings are so many times their possible error longer.
    """
    given = list(calls)
    caches: dict[str, SharedCache] = {}
    found: list[CacheOutcome] = [CacheOutcome(Tokens(), 0)] * len(given)
    for number in sorted(range(len(given)), key=lambda n: (given[n].begun, n)):
        call = given[number]
        if call.model not in caches:
            caches[call.model] = SharedCache(minimum_of(call.model), errors, doubt)
        found[number] = caches[call.model].take(call)
    return found


def sent(prompt: Prompt, sizes: Sequence[float], begun: float, answered: float) -> SentPrompt:
    """Return a prompt as its provider's cache sees it, with the tokens of its blocks."""
    lookback, marks = prompt.rules.lookback, list[tuple[int, int]]()
    if lookback:
        marks = [(n, block.keeps) for n, block in enumerate(prompt.blocks, 1) if block.keeps]
        keys, counts = [*_chain(block.key for block in prompt.blocks)], sizes
    else:
        pieces = [*_pieces(prompt.blocks, sizes)]
        keys, counts = [*_chain(text for text, _ in pieces)], [tokens for _, tokens in pieces]
    ends = [round(total) for total in accumulate(counts)]
    return SentPrompt(prompt.model, begun, answered, keys, ends, marks, lookback, prompt.idle)


def _pieces(blocks: Sequence[Block], sizes: Sequence[float]) -> Iterator[tuple[str, float]]:
    # A provider without marks keeps tokens, not blocks: the beginning of a changed text is read, too.
    for block, tokens in zip(blocks, sizes, strict=True):
        text = block.key
        for at in range(0, max(len(text), 1), PIECE):
            piece = text[at : at + PIECE]
            yield piece, tokens * len(piece) / max(len(text), 1)


def _chain(texts: Iterable[str]) -> Iterator[bytes]:
    so_far = b""
    for text in texts:
        so_far = sha256(so_far + text.encode("utf-8", "surrogatepass")).digest()
        yield so_far
