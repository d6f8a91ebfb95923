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
from typing import TYPE_CHECKING

from stenolog.domain.errors import InvalidPolicy, MissingExtra
from stenolog.projections.requests.tokens import COUNTERS as ESTIMATES
from stenolog.projections.requests.tokens import Counter

if TYPE_CHECKING:
    from tiktoken import Encoding

TIKTOKEN = "tiktoken:"
PIECE = 16_384
"""A longer text is counted in pieces of so many characters, each at most a token or two too many: what has
no blanks takes a tokenizer the square of its length."""
REMEMBERED = 1_024
"""So many pieces keep their counts: a window that is built again is not tokenized again."""
PATIENCE_S = 60.0
"""How long an encoding may take to arrive."""


class Counters(Mapping[str, Counter]):
    """Every counter there is, as a mapping that loads what is asked for.

    `counters[name]` raises `InvalidPolicy` for a name that is not known and for an encoding that cannot be
    had, `MissingExtra` where tiktoken is not installed. Iterating names all that could be asked for.
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
            yield from (TIKTOKEN + name for name in sorted(_tiktoken().list_encoding_names()))
        except MissingExtra:
            return

    def __len__(self) -> int:
        return sum(1 for _ in self)


COUNTERS = Counters()


def tiktoken_counter(encoding: Encoding) -> Counter:
    """The counter of an encoding. What looks like a special token in a text is counted as the text it is."""

    @lru_cache(maxsize=REMEMBERED)
    def of_piece(piece: str) -> int:
        return len(encoding.encode_ordinary(piece))

    def count(text: str) -> int:
        return sum(of_piece(text[begin : begin + PIECE]) for begin in range(0, len(text), PIECE))

    return Counter(f"{TIKTOKEN}{encoding.name}@{_tiktoken().__version__}", count)


@cache
def _loaded(encoding: str) -> Counter:
    tiktoken = _tiktoken()
    if encoding not in tiktoken.list_encoding_names():
        raise _unknown(TIKTOKEN + encoding)
    return tiktoken_counter(_in_time(encoding, lambda: tiktoken.get_encoding(encoding)))


def _tiktoken() -> ModuleType:
    try:
        import tiktoken
    except ImportError:
        raise MissingExtra("tiktoken", "tiktoken") from None
    return tiktoken


def _in_time(name: str, load: Callable[[], Encoding]) -> Encoding:
    """The encoding, if it arrives in time: tiktoken downloads without a deadline, so a thread is waited for.

    Raises `InvalidPolicy`, which says how to provide the file.
    """
    arrived: list[Encoding] = []
    failed: list[Exception] = []

    def fetch() -> None:
        try:
            arrived.append(load())
        except Exception as error:
            failed.append(error)

    thread = Thread(target=fetch, name=f"stenolog-{name}", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if arrived:
        return arrived[0]
    reason = type(failed[0]).__name__ if failed else f"nothing came within {PATIENCE_S:g} s"
    raise InvalidPolicy(
        f"counter {TIKTOKEN + name!r}: its file is not here and cannot be downloaded ({reason}). With a "
        f"network, run TIKTOKEN_CACHE_DIR=folder python -c 'import tiktoken; "
        f'tiktoken.get_encoding("{name}")\'; bring the folder here, and name it in TIKTOKEN_CACHE_DIR'
    )


def _unknown(name: str) -> InvalidPolicy:
    known = list(COUNTERS)
    rest = "" if len(known) > len(ESTIMATES) else f', and with "stenolog[tiktoken]" {TIKTOKEN}<encoding>'
    return InvalidPolicy(f"counter {name!r}: expected one of {', '.join(known)}{rest}")
