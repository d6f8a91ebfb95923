"""Prompts as sent, and their beginnings that a provider's cache should have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from stenolog.domain.values import Usage
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.caching import IDLE, UNKNOWN, Block, CacheRules
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.requests import Request


class Prompt(NamedTuple):
    """A prompt as its provider reads it: its blocks, the tokens up to each, when, and the tokens it read.

    `ends[n]` are the tokens of the first n blocks, `rules` those of the API's cache. `read` is what the
    provider states, None if nothing.
    """

    model: str
    blocks: Sequence[Block]
    ends: Sequence[int]
    rules: CacheRules = UNKNOWN
    idle: int = IDLE
    time: datetime = datetime.min
    read: int | None = None

    @property
    def is_marked(self) -> bool:
        """True if the provider keeps only what is marked."""
        return self.rules.lookback > 0

    @property
    def tokens(self) -> int:
        return self.ends[-1]

    @property
    def marks(self) -> list[int]:
        """The numbers of blocks up to each cache mark, in order; without marks all."""
        if not self.is_marked:
            return [len(self.blocks)]
        return [n for n, block in enumerate(self.blocks, 1) if block.keeps]

    @property
    def last(self) -> int:
        """The number of blocks up to the last mark; without marks of all."""
        return (self.marks or [len(self.blocks)])[-1]

    @property
    def keeps(self) -> int:
        """The seconds for which its beginning is kept at the longest."""
        return max((block.keeps for block in self.blocks), default=0) if self.is_marked else self.idle

    def tokens_in(self, numbers: Iterable[int]) -> int:
        return sum(self.ends[number + 1] - self.ends[number] for number in numbers)

    def with_blocks(self, blocks: Sequence[Block]) -> Prompt:
        """Return the prompt with other blocks, of as many tokens."""
        return self._replace(blocks=blocks, ends=_ends(blocks, self.tokens))


def prompt_of(request: Request, usage: Usage | None = None, time: datetime = datetime.min) -> Prompt:
    """Return a request's prompt. Its tokens are those billed, else as a budget counts them."""
    body = request.body
    name = request.api.partition("@")[0]
    rules = rules_by_api(name) if name in FORMATS else UNKNOWN
    found = rules.split(body, request.messages_key)
    ends = _ends(found, request.tokens if usage is None else usage.input)
    read = None if usage is None else usage.cache_read
    return Prompt(str(body.get("model") or ""), found, ends, rules, rules.lifetime(body), time, read)


def _ends(found: Iterable[Block], tokens: int) -> list[int]:
    counts = [block.tokens() for block in found]
    scale = tokens / max(sum(counts), 1)
    return [0, *(round(total * scale) for total in accumulate(counts))]


def rules_by_api(name: str) -> CacheRules:
    """Return an API's cache rules."""
    load = FORMATS[name].cache
    return UNKNOWN if load is None else load()


def rules_of(model: str) -> CacheRules:
    """Return the cache rules of a model's provider."""
    found = map(rules_by_api, FORMATS)
    return next((one for one in found if any(fnmatchcase(model, each) for each in one.models)), UNKNOWN)


def minimum_of(model: str) -> int:
    """Return the least tokens that a model's provider keeps."""
    return rules_of(model).minimum(model)


def causes_of(verdict: str) -> tuple[str, ...]:
    """Return the causes of a miss that a provider's word means, if known."""
    found = (rules_by_api(name).verdicts for name in FORMATS) if verdict else ()
    return next((one[verdict] for one in found if verdict in one), ())


class PromptCache:
    """Beginnings that a provider should have of a lane's calls, by what these were."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}
        self._last: Prompt | None = None
        self._last_hashes: list[str] = []

    def take(self, prompt: Prompt) -> int:
        """Return the tokens that a prompt should read; then add its own beginnings."""
        hashes = [*_chain(prompt.blocks)]
        read = self._read(prompt, hashes)
        if prompt.is_marked:
            self._keep(prompt, hashes, read)
        self._last, self._last_hashes = prompt, hashes
        return prompt.ends[read]

    def _read(self, prompt: Prompt, hashes: Sequence[str]) -> int:
        least = minimum_of(prompt.model)
        if prompt.is_marked:
            for mark in reversed(prompt.marks):
                for number in range(mark, max(mark - prompt.rules.lookback, 0), -1):
                    until = self._until.get(hashes[number - 1])
                    if until is not None and until >= prompt.time and prompt.ends[number] >= least:
                        return number
            return 0
        if self._last is None or prompt.time - self._last.time > timedelta(seconds=self._last.idle):
            return 0
        same = same_from_start(hashes, self._last_hashes)
        return same if prompt.ends[same] >= least else 0

    def _keep(self, prompt: Prompt, hashes: Sequence[str], read: int) -> None:
        least = minimum_of(prompt.model)
        for number in prompt.marks:
            if prompt.ends[number] >= least:
                seconds = prompt.blocks[number - 1].keeps
                self._until[hashes[number - 1]] = prompt.time + timedelta(seconds=seconds)
        if read and (found := self._until.get(hashes[read - 1])) is not None:
            # What is read is kept anew.
            self._until[hashes[read - 1]] = max(found, prompt.time + timedelta(seconds=prompt.keeps))


def _chain(blocks: Sequence[Block]) -> Iterator[str]:
    so_far = b""
    for block in blocks:
        so_far = sha256(so_far + block.key.encode("utf-8", "surrogatepass")).digest()
        yield so_far.hex()
