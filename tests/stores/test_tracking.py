"""How far a follower has come is kept with what it did, or after it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.adapters.store.contract.values import Cursor
from stenolog.adapters.store.sqlite.statements.dialect import shared


def test_a_follower_begins_at_the_beginning_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log, log.datastore.writing() as connection:
        assert shared.load_cursor(connection, "table") == Cursor(0, 0)
        shared.save_cursor(connection, "table", Cursor(7))
        shared.save_cursor(connection, "outlet", Cursor(3, 2), key=1)

    with stenolog.open(tmp_path / "talks.db") as log, log.datastore.reading() as connection:
        assert shared.load_cursor(connection, "table") == Cursor(7, 0)
        assert shared.load_cursor(connection, "outlet", key=1) == Cursor(3, 2)
        assert shared.load_cursor(connection, "outlet", key=2) == Cursor(0, 0)


def test_what_was_not_committed_was_not_done(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        with pytest.raises(RuntimeError), log.datastore.writing() as connection:
            _advance_and_fail(connection)
        with log.datastore.reading() as connection:
            assert shared.load_cursor(connection, "table") == Cursor(0, 0)


def _advance_and_fail(connection: sqlite3.Connection) -> None:
    shared.save_cursor(connection, "table", Cursor(7))
    raise RuntimeError


def test_a_follower_that_is_forgotten_begins_again_everywhere(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log, log.datastore.writing() as connection:
        shared.save_cursor(connection, "table", Cursor(7), key=1)
        shared.forget(connection, "table")

        assert shared.load_cursor(connection, "table", key=1) == Cursor()


def test_a_deleted_conversation_leaves_no_mark_to_a_later_one(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        conversation = log["demo"]
        conversation.append(UserMessage(text="Hello"))
        assert conversation.stream.key is not None
        with log.datastore.writing() as connection:
            shared.save_cursor(connection, "outlet", Cursor(2), key=conversation.stream.key)
        conversation.delete()
        with log.datastore.reading() as connection:
            assert shared.load_cursor(connection, "outlet", key=conversation.stream.key) == Cursor()
