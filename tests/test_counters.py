"""Counters by name: the estimate, and tiktoken's encodings; no test needs a network.

The encodings are real ones of tiktoken, made of a few ranks of our own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import registry

from stenolog.adapters.conversation.queries.requests import token_counters
from stenolog.adapters.conversation.queries.requests.token_counters import (
    COUNTERS,
    PIECE,
    tiktoken_counter,
)
from stenolog.domain.errors import InvalidPolicyError
from stenolog.errors import MissingExtraError
from stenolog.projections.messages.sizes import COUNTERS as ESTIMATES

MERGES = [b"th", b"the", b" the", b"er", b"\xd0\xb0"]
RANKS = {bytes([n]): n for n in range(256)} | {merge: 256 + nth for nth, merge in enumerate(MERGES)}
PATTERN = r" ?\p{L}+|\s+|[^\s\p{L}]+"
END = "<|endoftext|>"


def small(name: str = "small") -> dict[str, Any]:
    """Return the data of an encoding of 261 tokens and a special one."""
    special = {END: len(RANKS)}
    return {"name": name, "pat_str": PATTERN, "mergeable_ranks": RANKS, "special_tokens": special}


SMALL = tiktoken.Encoding(**small())


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Yield the encodings that tiktoken knows of: only those that a test puts in here."""
    known: dict[str, Any] = {"small": small}
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", known)
    monkeypatch.setattr(registry, "ENCODINGS", {})
    token_counters._loaded.cache_clear()
    yield known
    token_counters._loaded.cache_clear()


def test_the_estimate_is_there_without_tiktoken() -> None:
    assert COUNTERS["bytes4"] is ESTIMATES["bytes4"]


def test_an_encoding_counts_its_tokens_and_its_id_has_its_version(plugins: dict[str, Any]) -> None:
    counter = COUNTERS["tiktoken:small"]

    assert counter.id == f"tiktoken:small@{tiktoken.__version__}"
    assert [counter.count(text) for text in ("", "the", " the the", "theer", "\u0430", "\u0431")] == [
        0,
        1,
        2,
        2,
        1,
        2,
    ]
    assert COUNTERS["tiktoken:small"] is counter


def test_the_names_are_those_that_could_be_asked_for(plugins: dict[str, Any]) -> None:
    assert list(COUNTERS) == ["bytes4", "tiktoken:small"]
    assert len(COUNTERS) == 2
    assert "tiktoken:small" in COUNTERS
    assert "tiktoken:large" not in COUNTERS


@pytest.mark.parametrize("name", ["", "bytes", "tiktoken", "tiktoken:", "tiktoken:large", "TIKTOKEN:small"])
def test_an_unknown_counter_is_refused_with_those_that_are_known(plugins: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidPolicyError) as caught:
        COUNTERS[name]

    assert str(caught.value) == f"counter {name!r}: expected one of bytes4, tiktoken:small"


def test_without_tiktoken_the_error_is_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    token_counters._loaded.cache_clear()

    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[tiktoken\]"'):
        COUNTERS["tiktoken:small"]
    with pytest.raises(
        InvalidPolicyError, match=r'one of bytes4, and with "stenolog\[tiktoken\]" tiktoken:<enc'
    ):
        COUNTERS["bytes5"]
    assert list(COUNTERS) == ["bytes4"]


@pytest.mark.parametrize("error", [OSError("no route to host"), ValueError("Hash mismatch"), KeyError("x")])
def test_an_encoding_that_cannot_be_downloaded_says_how_to_provide_it(
    plugins: dict[str, Any], error: Exception
) -> None:
    def unreachable() -> None:
        raise error

    plugins["far"] = unreachable

    with pytest.raises(
        InvalidPolicyError, match=r"'tiktoken:far': its file is not here .*TIKTOKEN_CACHE_DIR"
    ) as caught:
        COUNTERS["tiktoken:far"]
    assert type(error).__name__ in str(caught.value)
    plugins["far"] = lambda: small("far")
    assert COUNTERS["tiktoken:far"].count("the") == 1  # the failure is not remembered


def test_a_download_that_never_ends_is_given_up(
    plugins: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def slow() -> dict[str, Any]:
        go_on.wait()
        return small("slow")

    plugins["slow"] = slow
    monkeypatch.setattr(token_counters, "PATIENCE_S", 0.01)

    try:
        with pytest.raises(InvalidPolicyError, match=r"cannot be downloaded \(TimeoutError\)"):
            COUNTERS["tiktoken:slow"]
    finally:
        go_on.set()


def test_what_looks_like_a_special_token_is_text(plugins: dict[str, Any]) -> None:
    assert COUNTERS["tiktoken:small"].count(END) == len(SMALL.encode(END, disallowed_special=())) > 1


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_counted_and_costs_a_token_a_byte_at_most(text: str) -> None:
    counted = tiktoken_counter(SMALL).count(text)

    assert counted == len(SMALL.encode_ordinary(text)) <= len(text.encode(errors="replace")) * 3


def test_a_long_text_is_counted_in_pieces_at_the_cost_of_a_few_tokens() -> None:
    text = "the theer " * 10_000
    exact, counted = len(SMALL.encode_ordinary(text)), tiktoken_counter(SMALL).count(text)

    assert exact <= counted <= exact + 2 * (len(text) // PIECE + 1)


def test_a_text_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Noting:
        name = "noting"

        def encode_ordinary(self, text: str) -> list[int]:
            asked.append(text)
            return [0] * len(text)

    counter = tiktoken_counter(Noting())  # type: ignore[arg-type]
    text = "a" * PIECE + "b" * 10

    assert [counter.count(text), counter.count(text), counter.count("b" * 10)] == [PIECE + 10, PIECE + 10, 10]
    assert asked == ["a" * PIECE, "b" * 10]


def test_tiktoken_is_imported_by_whoever_asks_for_it_alone() -> None:
    code = (
        "import sys; from stenolog.adapters.conversation.queries.requests import token_counters as c; "
        "c.COUNTERS['bytes4']; "
        "print('tiktoken' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"
