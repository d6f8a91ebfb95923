"""A table of SQL, and search, as projections that the library's own runner keeps up with the log."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from eventsourcing.persistence import Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.store.contract.values import CommittedRow, Stream
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.adapters.tables.sql import Committed, Intake, inherit, make, prepare
from stenolog.adapters.tables.sqlite import InSQLite
from tests.stores.conftest import said
from tests.tables.given import lines

WAIT = 20.0
LAST = "the last"


class Followed(POPOTrackingRecorder):
    """What a projection of `log` has come to."""

    log: ClassVar[Log]

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()


class WithTable(Followed):
    """The table `lines`, in another database than the log's."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.database = InSQLite(self.connection)
        self.connection.execute("CREATE TABLE conversations (stream INTEGER PRIMARY KEY, name TEXT)")
        prepare(self.database)
        make(self.database, lines)

    def take(self, row: CommittedRow, tracking: Tracking) -> None:
        begun = "INSERT OR IGNORE INTO conversations VALUES (?, ?) RETURNING stream"
        if self.database.run(begun, (row.key, row.name)):
            *parents, own = self.log.recorder.lineage(Stream(row.name, row.key))
            inherit(self.database, row.key, parents[-1].key if parents else None, own.after)
        Intake(self.database, lines).take([Committed(row.notification, row.key, reader.decoded(row))])
        self.insert_tracking(tracking)


class LinesProjection(Projection[WithTable]):
    topics = ("mode_switch@1", "user_message@1")

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        (row,) = self.view.log.recorder.committed_at([tracking.notification_id])
        self.view.take(row, tracking)
        if getattr(domain_event.event, "text", "") == LAST:
            self.view.done.set()


class FoundProjection(Projection[Followed]):
    """What each message is found by, at the moment at which it comes."""

    topics = ("user_message@1",)

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        text = domain_event.event.text
        hits = self.view.log.search(f'"{text}"')
        assert (domain_event.originator_id, domain_event.originator_version) in {
            (hit.conversation, hit.position) for hit in hits
        }
        self.view.insert_tracking(tracking)
        if text == LAST:
            self.view.done.set()


def follow(path: Path, log: Log, projection: Any, view: Any) -> Any:
    """Have the library's runner follow a log that is written to meanwhile; the view afterwards."""
    view.log = log
    said(log["demo"], "one", "two")
    runner: Any = ProjectionRunner(
        application_class=SqliteLogApplication,
        projection_class=projection,
        view_class=view,
        env={"SQLITE_DBNAME": str(path)},
    )
    with runner:
        fork = log["demo"].fork(after=2, name="fork")
        said(fork, "three\nfour")
        log["demo"].append(UserMessage(text=LAST))
        assert runner.projection.view.done.wait(WAIT)
        return runner.projection.view


def test_a_table_of_sql_is_a_projection_that_the_librarys_runner_keeps(path: Path) -> None:
    with stenolog.open(path) as log:
        view = follow(path, log, LinesProjection, WithTable)

    with closing(view.connection) as connection:
        rows = connection.execute("SELECT talk, at, line FROM lines ORDER BY talk DESC, at, line").fetchall()
    assert rows == [
        ("fork", 2, "one"),
        ("fork", 4, "four"),
        ("fork", 4, "three"),
        ("demo", 2, "one"),
        ("demo", 3, "two"),
        ("demo", 4, LAST),
    ]
    assert view.max_tracking_id("stenolog") == 6


def test_search_finds_each_entry_as_soon_as_the_librarys_runner_meets_it(path: Path) -> None:
    with stenolog.open(path) as log:
        view = follow(path, log, FoundProjection, Followed)
        assert view.max_tracking_id("stenolog") == log.recorder.max_notification_id()
