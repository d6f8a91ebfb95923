"""Holds: while one is in force nothing that it covers is erased, deleted or collected, by any door."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.verifying.report import Report
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.adapters.store.sqlite.turn import durable_head
from stenolog.domain.entry import content_hash
from stenolog.errors import HeldError, InvalidEventError
from stenolog.importers import import_file
from stenolog.maintenance import hold, holds, release, salvage, verify
from tests.stores.conftest import said, texts

DAY = timedelta(days=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_hold_outlives_renames_forks_reopening_and_salvage(path: Path, tmp_path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a", "b")
        made = hold(log, "demo", reason="case", by="Ann")
        log["demo"].rename("other")
        log["other"].fork(name="branch")
        said(log["branch"], "c")
        said(log["free"], "d")
    salvage(path, tmp_path / "saved.db")

    for each in (path, tmp_path / "saved.db"):
        with stenolog.open(each) as log:
            (found,) = holds(log)
            assert found._replace(number=made.number) == made._replace(conversation="other")
            for name in ("other", "branch"):
                with pytest.raises(HeldError, match="Ann: case"):
                    log[name].erase(log[name].position)
            with pytest.raises(HeldError):
                log["branch"].delete()
            log["free"].delete()
            assert texts(log["branch"]) == ["a", "b", "c"]
            release(log, found.number)
            log["branch"].delete()
            assert verify(log).ok


@pytest.mark.parametrize("damage", ["digest = x'00'", "name = 'x'", "value = 7, parent = 3"])
def test_a_hold_whose_record_is_damaged_is_salvaged_and_named(path: Path, damage: str) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        said(log["free"], "b")
        made = [hold(log, "demo", reason="case", by="Ann"), hold(log, younger_than=DAY, reason="kept")]
        release(log, hold(log, reason="over").number)
        with log.datastore.writing() as connection:
            connection.execute(f"UPDATE history SET {damage} WHERE what IN ('held', 'kept')")
    saved = salvage(path, path.with_name("saved.db"))

    with stenolog.open(path.with_name("saved.db")) as log:
        found = holds(log)
        assert [(one.conversation, one.is_in_force) for one in found] == [("demo", True), (None, True)]
        assert verify(log).ok
    assert [any(note.startswith(f"hold {one.number} by") for note in saved.notes) for one in made] == [
        True
    ] * 2


def test_what_is_kept_for_a_time_is_free_afterwards() -> None:
    days = iter(range(1_000))
    with stenolog.open(":memory:", clock=lambda: NEW_YEAR + DAY * next(days)) as log:
        said(log["demo"], "a")
        hold(log, younger_than=20 * DAY, reason="kept", by="Ann")
        refused = 0
        while True:
            try:
                log["demo"].delete()
                break
            except HeldError:
                refused += 1

    assert 15 <= refused <= 20


def test_all_of_a_log_under_hold_is_not_collected(log: Log) -> None:
    blob = log.blobs.put(b"nobody names it")
    made = hold(log, reason="case")
    with pytest.raises(HeldError):
        log.collect()

    assert blob in log.blobs
    release(log, made.number, by="Ann", reason="over")
    (shown,) = holds(log)
    assert (shown.is_in_force, shown.released_by, shown.release_reason) == (False, "Ann", "over")
    log.collect()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda log: hold(log, reason=" "),
        lambda log: hold(log, reason="a", by="two\nlines"),
        lambda log: hold(log, reason="a", younger_than=DAY, since=NEW_YEAR),
        lambda log: hold(log, reason="a", younger_than=-DAY),
        lambda log: hold(log, reason="a", since=NEW_YEAR, until=NEW_YEAR - DAY),
        lambda log: release(log, 1),
    ],
)
def test_a_hold_that_means_nothing_is_refused(log: Log, wrong: Callable[[Log], object]) -> None:
    said(log["demo"], "a")
    with pytest.raises(InvalidEventError):
        wrong(log)

    assert holds(log) == []


EDITS = {
    "removed": "DELETE FROM history WHERE what = 'held'",
    "made another's": "UPDATE history SET stream = 99 WHERE what = 'held'",
    "shortened": "UPDATE history SET value = 1 WHERE what = 'held'",
    "released": "INSERT INTO history VALUES (3, 1, 'released', 2, 0, x'', '', x'', NULL)",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_hold_that_is_changed_past_the_log_is_a_fault(path: Path, edit: str) -> None:
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a"))
        hold(log, "demo", reason="case")
        head = verify(log).head
    connection = sqlite3.connect(path)
    connection.execute(edit)
    connection.commit()
    connection.close()
    durable_head.forget(path)

    with stenolog.open(path) as log:
        assert not verify(log, head=head).ok


def test_a_head_shows_what_was_released_since(log: Log) -> None:
    said(log["demo"], "a")
    made = hold(log, "demo", reason="case")
    head = verify(log).head
    assert verify(log, head=head).notes == ()
    release(log, made.number)

    report = verify(log, head=head)
    assert (report.ok, report.notes) == (True, (f"hold {made.number} was released since that head",))


@pytest.mark.parametrize("hidden_as", ["withheld", "imported withheld", "erased", "imported erased"])
def test_words_that_are_gone_past_the_log_are_a_fault_whatever_the_history_is_made_to_say(
    path: Path, hidden_as: str
) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a", "b", "c")
        if "erased" in hidden_as:
            log["demo"].fork(name="branch")
            hold(log, "branch", reason="case")
        published = line(verify(log))
        (record,) = (one for one in log["demo"].records() if one.position == 2)
        with log.datastore.writing() as connection:
            connection.execute(
                "UPDATE stored_events SET salt = x'', state = x'', erased = ?, size = ? "
                "WHERE originator_version = 2",
                (content_hash(record.salt, record.payload), len(record.payload)),
            )
            for what in hidden_as.split():
                is_import = what == "imported"
                shared.add_change(
                    connection, log["demo"].key or 0, what, value=2, parent=2 if is_import else 0
                )

        assert not verify(log, head=published).ok
        assert verify(log).ok == ("imported" in hidden_as)  # such a chain is found with the head alone


def test_what_was_erased_elsewhere_comes_into_a_log_under_hold_without_a_fault(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "other.db") as other, stenolog.open(tmp_path / "here.db") as log:
        said(other["demo"], "a", "b", "c")
        hold(log, reason="all")
        for erased in (2, 6):
            other["demo"].erase(erased)
            head = line(verify(log))
            import_file(log, tmp_path / "other.db")

            assert verify(log, head=head).problems == ()
            said(other["demo"], "d", "e")


@pytest.mark.parametrize("seed", range(12))
def test_a_published_head_holds_after_all_that_is_lawful_and_nothing_else(path: Path, seed: int) -> None:
    chance, names = Random(seed), ["a", "b", "c", "d"]
    with stenolog.open(path) as log:
        for name in names:
            said(log[name], *"xyz"[: chance.randrange(1, 4)])
        published = line(verify(log))
        erased, deleted = chance.sample(names, k=2)
        log[erased].erase(2)
        number = log[deleted].key
        log[deleted].delete()
        log[erased].rename("renamed")
        said(log["renamed"], "more")
        log["renamed"].fork(name="fork")
        kept = verify(log, head=published)
        assert kept.problems == ()
        assert {f"conversation {number} was deleted since that head"} < {*kept.notes}
        assert "'renamed' at position 2: erased since that head" in kept.notes
        assert not verify(log, head=json.loads(published)["head"]).ok
        assert verify(log, head=line(verify(log))).ok
        forged = json.loads(published)
        end = next(end for end in forged["ends"] if end[0] == number)
        end[:] = chance.choice([[number, end[1] + 1, end[2]], [number, end[1], "00" * 32], [99, *end[1:]]])
        assert not verify(log, head=json.dumps(forged)).ok
    connection = sqlite3.connect(path)
    (rowid,) = chance.choice(
        connection.execute("SELECT rowid FROM stored_events WHERE originator_version = 2").fetchall()
    )
    connection.execute("UPDATE stored_events SET at = at + 1 WHERE rowid = ?", (rowid,))
    connection.commit()
    connection.close()
    durable_head.forget(path)

    with stenolog.open(path) as log:
        assert not verify(log, head=published).ok


def line(report: Report) -> str:
    return json.dumps({"head": report.head, "ends": report.ends})
