"""The eventsourcing library's own tests of recorders, run on ours with a real SQLite file.

Two things that they do contradict a guarantee of the log, and are given to it in other words:

- Their ids are UUIDs where nobody says otherwise. A conversation's id is its name, a text: `Named`.
- Their tests of concurrency number versions from 0 (`range(n)`). A position counts from 1, and 0 is "before
  the first entry": for a conversation that begins at 0, `FromZero` hands on each version as one more. (None
  of these tests looks at the versions that come back.)

Nothing of theirs is left out but `AggregateRecorderTestCase`: it is for recorders without notifications, and
expects `insert_events` to return None.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from eventsourcing.persistence import StoredEvent

from stenolog.adapters.store.eventsourcing_app import LogApplication
from stenolog.adapters.store.sqlite_recorder import SqliteLogRecorder

CIPHER = ModuleType("eventsourcing.cipher")
CIPHER.AESCipher = None  # type: ignore[attr-defined]
with patch.dict(sys.modules, {CIPHER.__name__: CIPHER}):
    # Its tests of ciphers, which are not run here, would need another library for what we never encrypt.
    from eventsourcing.tests import persistence as suites


class FromZero(SqliteLogRecorder):
    """A conversation whose versions begin at 0 begins at position 1 of the log."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        if any(event.originator_version == 0 for event in stored_events):
            stored_events = [replace(e, originator_version=e.originator_version + 1) for e in stored_events]
        return super().insert_events(stored_events, **kwargs)


class Named(suites.RecorderTestCase):
    """Recorders of logs in files of their own; an originator id is a name."""

    def setUp(self) -> None:
        super().setUp()
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.application = LogApplication({"SQLITE_DBNAME": str(Path(folder.name, "talks.db"))})
        self.addCleanup(self.application.close)

    def new_originator_id(self) -> UUID | str:
        return str(uuid4())

    def create_recorder(self) -> SqliteLogRecorder:
        recorder = self.application.recorder
        assert isinstance(recorder, SqliteLogRecorder)
        return FromZero(recorder.datastore)


class TestApplicationRecorder(Named, suites.ApplicationRecorderTestCase[SqliteLogRecorder]):
    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestNonInterleavingNotifications(Named, suites.NonInterleavingNotificationIDsBaseCase):
    pass


class TestTrackingRecorder(Named, suites.TrackingRecorderTestCase):
    pass


class TestProcessRecorder(Named, suites.ProcessRecorderTestCase):
    pass
