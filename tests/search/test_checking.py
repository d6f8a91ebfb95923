"""`verify` compares the search index with the log, and one that differs is made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import Log, ToolResult, UserMessage
from stenolog.adapters.conversation.search import indexing
from stenolog.adapters.conversation.search.indexing import check_index
from stenolog.adapters.conversation.verifying.integrity import verify
from tests.search.conftest import places

WORDS = ("needle", "hay", "straw", "word13")


@pytest.fixture
def found(path: Path) -> dict[str, Any]:
    """Return the hits in a log with an index."""
    chance = Random(1)
    with stenolog.open(path) as log:
        for number in range(300):
            said = " ".join(chance.choices([*WORDS, f"word{number}"], k=12))
            log[f"talk {number % 3}"].append(UserMessage(text=said))
        return looked_for(log)


def looked_for(log: Log) -> dict[str, Any]:
    words = (*WORDS, "word7", "word200")
    return {word: places(log, word, limit=1000) for word in words}


@pytest.mark.parametrize("batch", [7, 4000])
def test_one_that_agrees_stays_whatever_was_deleted_and_appended_since(
    log: Log, batch: int, indexed: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH_ROWS", batch)
    for number in range(50):
        log[f"talk {number % 5}"].append(UserMessage(text=f"needle {number} hay"))
    log["talk 1"].append(ToolResult(call_id="c", text="cut", blob=log.blobs.put(b"all of the needle")))
    assert check_index(log)
    log.search("needle")
    log["talk 2"].delete()
    log["talk 4"].delete()
    log["talk 1"].append(UserMessage(text="not indexed yet"))
    indexed()

    report = verify(log)

    assert (report.ok, report.notes) == (True, ())
    indexed()
    log.search("needle")
    assert indexed() == 1


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 16))])
def test_after_verify_a_search_finds_all_there_is_whatever_bytes_of_the_index_were_damaged(
    seed: int, path: Path, found: dict[str, Any]
) -> None:
    beside = path.with_name(f"{path.name}-search")
    chance, content = Random(seed), bytearray(beside.read_bytes())
    for _ in range(1 if seed % 2 else 40):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    beside.write_bytes(content)

    with stenolog.open(path) as log:
        assert verify(log).ok
        assert looked_for(log) == found


def test_one_with_other_words_is_told_of_and_made_anew(path: Path, found: dict[str, Any]) -> None:
    with stenolog.open(path) as log:

        def change(connection: Any) -> None:
            (id,) = connection.execute("SELECT id FROM entries ORDER BY id LIMIT 1").fetchone()
            connection.execute("INSERT INTO words (rowid, said) VALUES (?, 'word999')", (id,))

        log.index.use(change)
        report = verify(log)

        assert report.ok
        assert report.notes == ("the search index was damaged and is deleted: the next search makes it anew",)
        assert looked_for(log) == found
        assert verify(log).notes == ()


def test_one_that_another_process_writes_to_is_left_alone(path: Path, found: dict[str, Any]) -> None:
    with stenolog.open(path) as log, stenolog.open(path) as other:
        log.index.patience = 0.01  # type: ignore[misc]
        with other.index.guard:
            other.index.open().execute("BEGIN IMMEDIATE")
            assert check_index(log)
            other.index.open().execute("ROLLBACK")
        assert path.with_name(f"{path.name}-search").exists()
