"""What a person may type, and that no character of it is an error of SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stenolog import Log, UserMessage
from stenolog.adapters.conversation.search.lookup import CUT, LONGEST, Snippet, snippets
from stenolog.adapters.store.sidecar.search_index import TOKENIZER, expression, folded, unfolded
from stenolog.errors import InvalidEventError

SYNTAX = ['"', "'", "*", "-", "+", "^", ":", "(", ")", "{", "}", "\\", "\0", "\ud800", "%", ";", "--", "/*"]
WORDS = ["OR", "AND", "NOT", "NEAR", "rowid", "said", "fail", "ё", "会議", "\u0301", "\ue000", "½", "💥"]


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE words USING fts5 (said, {TOKENIZER})")
        connection.execute("INSERT INTO words VALUES ('the failing test')")
        yield connection


Found = Callable[[str, str], bool]


@pytest.fixture
def found() -> Found:
    """Return whether a text contains the words of a query."""
    return lambda query, text: bool(snippets(query, [(1, folded(text))]))


@given(st.one_of(st.text(), st.lists(st.sampled_from([*SYNTAX, *WORDS, " "])).map("".join)))
def test_any_text_is_a_query_or_is_refused_for_having_no_word(table: sqlite3.Connection, query: str) -> None:
    try:
        match = expression(query)
    except InvalidEventError:
        return

    table.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchall()


@given(st.text())
@example("\ufdd0")
@example("a\ufdd1b\u2060c")
def test_a_text_that_is_quoted_is_found_by_itself(text: str) -> None:
    word = f"x {text}".replace('"', " ")

    assert snippets(f'"{word}"', [(1, folded(word.encode(errors="replace").decode()))])


@pytest.mark.parametrize("query", ["", "   ", "!?", '""', '"', "*", "-", "-flaky", '-"a b" -c', "OR", "💥"])
def test_a_query_without_a_word_to_look_for_is_refused(query: str) -> None:
    with pytest.raises(InvalidEventError, match="expected a word to look for"):
        expression(query)


def test_a_query_of_very_many_words_is_refused_and_one_of_many_is_not(table: sqlite3.Connection) -> None:
    table.execute("SELECT 1 FROM words WHERE words MATCH ?", (expression("fail OR test " * 33),)).fetchall()
    with pytest.raises(InvalidEventError, match="at most 100 words, found 101"):
        expression("fail " * 101)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("failing test", "the test that is failing"),
        ('"failing test"', "the failing test"),
        ('"failing test', "a quote left open: the failing test"),
        ("fail*", "it failed"),
        ('"failing te"*', "the failing test"),
        ("failing OR broken", "it is broken"),
        ("one two OR three", "one three"),
        ("test -flaky", "a good test"),
        ('test -"at times"', "at no times a test"),
        ("--all-prefixes", "run fsck with --all-prefixes"),
        ("re-run", "a re-run of it"),
        ("test_dates", "FAILED test_dates"),
        ("it's", "it's so"),
        ("a.b:c", "see a.b:c"),
        ("C++", "in C and so on"),
    ],
)
def test_it_is_found(found: Found, query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("failing test", "the failing one"),
        ('"failing test"', "the test is failing"),
        ("fail", "it failed"),
        ("one two OR three", "two three"),
        ("test -flaky", "a flaky test"),
        ('test -"at times"', "a test at times"),
        ("and", "or"),
    ],
)
def test_it_is_not_found(found: Found, query: str, text: str) -> None:
    assert not found(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "Café"),
        ("CAFÉ", "cafe\u0301"),
        ("елка", "Ёлка"),
        ("ещё", "ЕЩЕ"),
        ("ελλας", "ΕΛΛΆΣ"),
        ("会議", "東京の会議は明日です"),
        ("カイギ", "明日カイギです"),
        ("明日で", "会議は明日です"),
        ("배워", "한국어를 배워요"),
        ("สวัสดี", "พูดสวัสดีครับ"),
        ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
    ],
)
def test_case_accents_and_scripts_without_blanks_do_not_matter(found: Found, query: str, text: str) -> None:
    assert found(query, text)


def test_letters_that_only_look_accented_are_letters(found: Found) -> None:
    assert not found("мои", "мой")
    assert not found("議会", "会議")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\u2060\ufdd0\ufdd1")))
def test_what_is_shown_again_is_the_text(text: str) -> None:
    from unicodedata import normalize

    assert unfolded(folded(text)) in (text, normalize("NFC", text))


def test_hits_are_marked_with_their_accents() -> None:
    text = "Ещё одна ёлка; 会議は明日です。"
    (shown,) = snippets("елка 明日で", [(1, folded(text))]).values()

    assert shown.text == text
    assert [text[first:end] for first, end in shown.marks] == ["ёлка", "明日で"]


def test_a_snippet_is_a_line_around_the_hits() -> None:
    text = "word\n" * 500 + "the\nneedle\n" + "word " * 500
    (shown,) = snippets("needle", [(1, text)]).values()

    assert "the needle word" in shown.text
    assert shown.text.startswith("…")
    assert shown.text.endswith("…")
    assert len(shown.text) < 150


def test_a_snippet_of_very_long_words_is_cut() -> None:
    text = f"{'a' * 1000} needle {'b' * 1000}"
    (shown,) = snippets("needle", [(1, text)]).values()

    assert [shown.text[first:end] for first, end in shown.marks] == ["needle"]
    assert len(shown.text) < 250


# The few words around a hit: the work grows with the text, not with the square of its hits.


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
