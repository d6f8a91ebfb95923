"""The few words around a hit: the work grows with the text, not with the square of its hits."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from stenolog import Log, UserMessage
from stenolog.adapters.conversation.search.lookup import CUT, LONGEST, Snippet, snippets
from stenolog.adapters.store.sidecar.search_index import folded

MEGABYTE = 1_000_000
QUADRATIC = 10_000
"""Characters that FTS5's `snippet()` may be given: it compares each hit with every other."""


class Counting(sqlite3.Connection):
    """Counts the characters that each function of FTS5 may look at."""

    longest: dict[str, int] = {}  # noqa: RUF012 - one test at a time

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.texts = [0]
        self.set_authorizer(self._note)

    def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
        held = list(rows)
        self.texts += [len(value) for row in held for value in row if isinstance(value, str)]
        return super().executemany(sql, held)

    def _note(self, action: int, _: str | None, name: str | None, *__: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION and name:
            self.longest[name] = max(self.longest.get(name, 0), *self.texts)
        return sqlite3.SQLITE_OK


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    monkeypatch.setattr(Counting, "longest", {})
    connect = sqlite3.connect

    def counting(path: str, **given: Any) -> sqlite3.Connection:
        return connect(path, **({"factory": Counting} | given))

    monkeypatch.setattr("stenolog.adapters.store.sidecar.index_checks.sqlite3.connect", counting)
    return Counting.longest


def snippet(query: str, text: str) -> Snippet:
    return snippets(query, [(1, folded(text))])[1]


def marked(found: Snippet) -> list[str]:
    return [found.text[begin:end] for begin, end in found.marks]


def test_a_megabyte_of_one_word_is_not_given_to_what_compares_all_hits(looked_at: dict[str, int]) -> None:
    found = snippet("lorem", "lorem ipsum dolor " * (MEGABYTE // 18))

    assert max(looked_at.get("snippet", 0), looked_at.get("highlight", 0)) <= QUADRATIC
    assert set(marked(found)) == {"lorem"}
    assert found.text.startswith("lorem ipsum dolor lorem")
    assert found.text.endswith(CUT)
    assert len(found.text) <= LONGEST + 2


def test_a_long_text_is_cut_to_the_words_around_its_first_hit() -> None:
    found = snippet("needle", "hay " * 5_000 + "here is the (needle) that was lost " + "hay " * 5_000)

    assert found.text.startswith(CUT)
    assert found.text.endswith(CUT)
    assert "here is the (needle) that was lost" in found.text
    assert marked(found) == ["needle"]


def test_a_phrase_and_both_of_two_words_are_found_in_a_long_text() -> None:
    text = "hay " * 5_000 + "the failing test of oven.py " + "hay " * 5_000 + "broken"

    assert marked(snippet('"failing test"', text)) == ["failing test"]
    assert marked(snippet("broken failing", text)) == ["failing"]


@pytest.mark.parametrize(
    ("text", "query", "word"),
    [("и " * 9_000 + "йод " * 9_000, "йод", "йод"), ("干草" * 9_000 + "针在这里", "针在", "针在"),
     ("x" * 40_000 + " needle", "needle", "needle"), ("café " * 9_000, "cafe", "café"),
     ("needle" + "x" * 40_000, "needle*", "needle" + "x" * 5)],
)  # fmt: skip
def test_long_texts_of_any_script_have_a_short_snippet_with_its_hits_marked(
    text: str, query: str, word: str
) -> None:
    found = snippet(query, text)

    assert len(found.text) <= LONGEST + 2
    assert marked(found)[0].startswith(word)


def test_a_search_finds_the_word_in_a_message_of_a_megabyte(looked_at: dict[str, int], log: Log) -> None:
    log["x"].append(UserMessage(text="ERROR in line 7\n" * (MEGABYTE // 16)))

    (hit,) = log.search("error")
    assert hit.snippet.startswith("ERROR in line 7 ERROR")
    assert looked_at.get("snippet", 0) <= QUADRATIC
