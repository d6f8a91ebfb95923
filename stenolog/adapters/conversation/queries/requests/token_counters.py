"""Counters of tokens by the name that a budget gives: `bytes4`, or `tiktoken:<encoding>` with the extra.

    build(entries, "coder", policy=Budget(tokens=16_000, counter="tiktoken:o200k_base"), counters=COUNTERS)

An encoding is loaded when it is first asked for. Its file is not part of tiktoken, which looks for it in the
folder TIKTOKEN_CACHE_DIR and else downloads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from stenolog.domain.errors import InvalidPolicyError, MissingExtraError
from stenolog.projections.messages.sizes import COUNTERS as ESTIMATES
from stenolog.projections.messages.sizes import Counter

if TYPE_CHECKING:
    from tiktoken import Encoding

T = TypeVar("T")
TIKTOKEN = "tiktoken:"
PIECE = 16_384
"""A longer text is counted in pieces of so many characters, each at most a token or two too many: what has
no blanks takes a tokenizer the square of its length."""
REMEMBERED = 4_096
"""So many pieces keep their counts: a window that is built again is not tokenized again."""
TO_PROVIDE = (
    "where there is a network, run TIKTOKEN_CACHE_DIR=folder python -c 'import tiktoken; "
    'tiktoken.get_encoding("{}")\'; then bring the folder here, and name it in TIKTOKEN_CACHE_DIR'
)
PATIENCE_S = 60.0
"""The number of seconds that loading an encoding may take."""


class Counters(Mapping[str, Counter]):
    """Every token counter, loaded on demand.

    `counters[name]` raises `InvalidPolicyError` for an unknown name or an unavailable encoding,
    `MissingExtraError` without tiktoken. Iterates over all possible names.
    """

    def __getitem__(self, name: str) -> Counter:
        if name in ESTIMATES:
            return ESTIMATES[name]
        if name.startswith(TIKTOKEN):
            return _loaded(name.removeprefix(TIKTOKEN))
        raise _unknown(name)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        yield from ESTIMATES
        try:
            yield from (TIKTOKEN + name for name in _encodings())
        except MissingExtraError:
            return

    def __len__(self) -> int:
        return sum(1 for _ in self)


COUNTERS = Counters()


def tiktoken_counter(encoding: Encoding) -> Counter:
    """Return an encoding's counter; special tokens in a text count as plain text."""

    @lru_cache(maxsize=REMEMBERED)
    def of_piece(piece: str) -> int:
        return len(encoding.encode_ordinary(piece))

    def count(text: str) -> int:
        return sum(of_piece(text[begin : begin + PIECE]) for begin in range(0, len(text), PIECE))

    return Counter(f"{TIKTOKEN}{encoding.name}@{_tiktoken().__version__}", count)


@cache
def _loaded(encoding: str) -> Counter:
    if (known := _encodings()) and encoding not in known:
        raise _unknown(TIKTOKEN + encoding)
    tiktoken = _tiktoken()
    try:
        return tiktoken_counter(_in_time(lambda: tiktoken.get_encoding(encoding)))
    except Exception as error:
        raise InvalidPolicyError(
            f"counter {TIKTOKEN + encoding!r}: its file is not here and cannot be downloaded "
            f"({type(error).__name__}); {TO_PROVIDE.format(encoding)}"
        ) from None


def _encodings() -> list[str]:
    try:
        return sorted(_in_time(_tiktoken().list_encoding_names))
    except TimeoutError:
        return []


def _tiktoken() -> ModuleType:
    try:
        import tiktoken
    except ImportError:
        raise MissingExtraError("tiktoken", "tiktoken") from None
    return tiktoken


def _in_time(call: Callable[[], T]) -> T:
    """Return the call's result or raise its error, or `TimeoutError`.

    tiktoken downloads without a deadline, and blocks all callers meanwhile.
    """
    given: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            given.append(call())
        except Exception as error:
            failed.append(error)

    thread = Thread(target=run, name="stenolog-tiktoken", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if failed:
        raise failed[0]
    if not given:
        raise TimeoutError
    return given[0]


def _unknown(name: str) -> InvalidPolicyError:
    known = list(COUNTERS)
    rest = "" if len(known) > len(ESTIMATES) else f', and with "stenolog[tiktoken]" {TIKTOKEN}<encoding>'
    return InvalidPolicyError(f"counter {name!r}: expected one of {', '.join(known)}{rest}")
