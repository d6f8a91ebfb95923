"""The eventsourcing library's own tests of recorders, run on ours: an SQLite file, and PostgreSQL.

Three things that they do contradict a guarantee of the log, and are given to it in other words:

- Their ids are UUIDs where nobody says otherwise. A conversation's id is its name, a text: `Named`.
- Their tests of concurrency number versions from 0 (`range(n)`). A position counts from 1, and 0 is "before
  the first entry": for a conversation that begins at 0, `from_zero` hands on each version as one more. (None
  of these tests looks at the versions that come back.)
- They expect the notification ids 1, 2, 3 … What followers are promised is that ids grow; those of PostgreSQL
  have gaps, and `Counted` gives each as its place among all.

Nothing of theirs is left out but `AggregateRecorderTestCase`: it is for recorders without notifications, and
expects `insert_events` to return None.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from eventsourcing.persistence import Notification, StoredEvent

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST
from tests.postgres.server import NEWEST, VERSIONS
from tests.stores.contract.stores import Servers, opened

CIPHER = ModuleType("eventsourcing.cipher")
CIPHER.AESCipher = None  # type: ignore[attr-defined]
with patch.dict(sys.modules, {CIPHER.__name__: CIPHER}):
    # Its tests of ciphers, which are not run here, would need another library for what we never encrypt.
    from eventsourcing.tests import persistence as suites


def from_zero(insert: Callable[..., Any], stored_events: Sequence[StoredEvent], **kwargs: Any) -> Any:
    """Append to a conversation whose versions begin at 0 from position 1 of the log on."""
    if any(event.originator_version == 0 for event in stored_events):
        stored_events = [replace(e, originator_version=e.originator_version + 1) for e in stored_events]
    return insert(stored_events, **kwargs)


class Counted:
    """Notifications of a recorder whose ids are the numbers 1, 2, 3 …, as many as there are."""

    def __init__(self, recorder: LogRecorder) -> None:
        self._insert = recorder.insert_events
        self._select = recorder.select_notifications
        for name in ("insert_events", "select_notifications", "max_notification_id"):
            setattr(recorder, name, getattr(self, name))

    def _ids(self) -> list[int]:
        return [notification.id for notification in self._select(None, 10**9)]

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Append; return the numbers of the notifications."""
        given = self._insert(stored_events, **kwargs)
        ids = self._ids()
        # While others write, an id that was just given is behind all that followers can see.
        return None if given is None else [bisect_left(ids, id) + 1 for id in given]

    def select_notifications(
        self, start: int | None, limit: int, stop: int | None = None, *args: Any, **kwargs: Any
    ) -> Sequence[Notification]:
        """Return notifications with their numbers, between two of them."""
        ids = self._ids()
        # A number that none has yet stands for an id behind all.
        first, last = ((ids[n - 1] if 0 < n <= len(ids) else n and LAST) for n in (start or 0, stop or 0))
        found = self._select(first, limit, last or None, *args, **kwargs)
        ids = self._ids()  # others may have appended since
        return [replace(each, id=bisect_left(ids, each.id) + 1) for each in found]

    def max_notification_id(self) -> int | None:
        """Return the number of the last notification."""
        return len(self._ids()) or None


class Named(suites.RecorderTestCase):
    """Recorders of logs of their own; an originator id is a name."""

    implementation = "sqlite file"

    @pytest.fixture(autouse=True)
    def log(self, tmp_path: Path, postgres: Servers) -> Iterator[None]:
        with opened(self.implementation, tmp_path, postgres) as self.store:
            yield

    def new_originator_id(self) -> UUID | str:
        return str(uuid4())

    def create_recorder(self) -> LogRecorder:
        recorder = self.store.open()
        if self.implementation != "sqlite file":
            Counted(recorder)
        setattr(recorder, "insert_events", partial(from_zero, recorder.insert_events))  # noqa: B010
        return recorder


class ApplicationSuite(Named, suites.ApplicationRecorderTestCase[LogRecorder]):
    """What the library asks of the recorder of an application."""

    __test__ = False

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class OrderSuite(Named, suites.NonInterleavingNotificationIDsBaseCase):
    """What it asks of the order of notifications."""

    __test__ = False


class TrackingSuite(Named, suites.TrackingRecorderTestCase):
    """What it asks of a recorder of tracking."""

    __test__ = False


class ProcessSuite(Named, suites.ProcessRecorderTestCase):
    """What it asks of the recorder of a projection that appends."""

    __test__ = False


for suite in (ApplicationSuite, OrderSuite, TrackingSuite, ProcessSuite):
    for name in ("sqlite file", *VERSIONS):
        title = f"Test{suite.__name__}On{name.title().replace(' ', '')}"
        made = type(title, (suite,), {"implementation": name, "__test__": True})
        globals()[title] = made if name in ("sqlite file", NEWEST) else pytest.mark.slow(made)
