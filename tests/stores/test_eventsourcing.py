"""The log is an application of the eventsourcing library: its own projections and runners work on it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from eventsourcing.persistence import Notification, StoredEvent, Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.utils import get_topic

import stenolog
from stenolog import Log, ModeSwitch, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.contract.application import Recorded
from stenolog.adapters.store.contract.values import StoredEntries
from stenolog.adapters.store.sqlite import application as sqlite_application
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.adapters.store.sqlite.recorder import SqliteLogRecorder
from stenolog.domain.entry import Record
from stenolog.domain.erasure import ERASED, SWITCH
from stenolog.errors import CorruptLogError, InvalidEventError
from stenolog.events import Unknown
from tests.stores.conftest import said, texts

WAIT = 20.0


class Words(POPOTrackingRecorder):
    """A view in memory: what was said, with its tracking."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.enough = threading.Event()

    def say(self, text: str, tracking: Tracking) -> None:
        with self._database_lock:
            self._assert_tracking_uniqueness(tracking)
            self._insert_tracking(tracking)
            self.said.append(text)
        if text == "last":
            self.enough.set()


class WordsProjection(Projection[Words]):
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        event = domain_event.event
        self.view.say(event.text if isinstance(event, UserMessage) else event.kind, tracking)


@pytest.fixture
def app(path: Path) -> Iterator[SqliteLogApplication]:
    with SqliteLogApplication(env={"SQLITE_DBNAME": str(path)}) as application:
        yield application


def hi(name: str, version: int, text: str = "hi") -> Recorded:
    return Recorded(name, version, UserMessage(text=text))


def test_the_librarys_projection_runner_runs_on_the_log(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "before")
        runner = ProjectionRunner(
            application_class=SqliteLogApplication,
            projection_class=WordsProjection,
            view_class=Words,
            env={"SQLITE_DBNAME": str(path)},
        )
        with runner:
            said(log["demo"], "after")
            said(log["other"], "last")
            assert runner.projection.view.enough.wait(WAIT)
            view = runner.projection.view

    assert view.said == ["mode_switch", "before", "after", "mode_switch", "last"]
    assert view.max_tracking_id("stenolog") == 5


def test_saved_events_are_entries_of_the_log(app: SqliteLogApplication, path: Path) -> None:
    recordings = app.save(Recorded("demo", 1, ModeSwitch(mode="chat")), hi("demo", 2), hi("other", 1))

    assert [recording.notification.id for recording in recordings] == [1, 2, 3]
    with stenolog.open(path) as log:
        assert texts(log["demo"]) == ["hi"]
        said(log["demo"], "ho")
        assert verify(log).ok
    assert list(app.events.get("demo", gt=1)) == [hi("demo", 2), hi("demo", 3, "ho")]


def test_a_fork_is_read_whole_by_the_librarys_api(log: Log) -> None:
    said(log["demo"], "a", "b", "c")
    fork = log["demo"].fork(after=3, name="other")
    said(fork, "d")
    again = fork.fork(name="again")
    said(again, "e")
    said(log["demo"], "later")

    for conversation in (fork, again):
        whole: list[Any] = [*log.application.events.get(conversation.name)]
        assert [(each.originator_version, each.event) for each in whole] == [
            (entry.position, entry.event) for entry in conversation.entries()
        ]
        assert {each.originator_id for each in whole} == {conversation.name}
    assert texts(again) == ["a", "b", "d", "e"]


def test_an_erased_switch_of_which_nothing_is_left_is_read_as_an_erased_entry() -> None:
    rows = [(1, "", b"", b"", SWITCH, left, b"", b"", 2) for left in (b"", b"{}")]

    assert [event.topic for event in StoredEntries("talk", rows)] == [ERASED, SWITCH]


class Counting(SqliteLogRecorder):
    """Counts the appends, and the reads through the library's method."""

    inserted = 0
    selected = 0

    def append(self, *args: Any, **kwargs: Any) -> list[Record]:
        self.inserted += 1
        return super().append(*args, **kwargs)

    def select_events(self, *args: Any, **kwargs: Any) -> StoredEntries:
        self.selected += 1
        return super().select_events(*args, **kwargs)


def test_every_append_and_every_read_goes_through_the_recorder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_application, "SqliteLogRecorder", Counting)
    with stenolog.open(path) as log:
        recorder = log.recorder
        assert isinstance(recorder, Counting)
        for number in range(40):
            log["demo"].append(UserMessage(text=str(number)))
        log["demo"].extend([UserMessage(text="a"), UserMessage(text="b")])

        assert recorder.inserted == 41
        assert len(list(log["demo"].entries())) == 43
        assert recorder.selected == 2  # a page, and a look behind it
        log["demo"].state()
        log["demo"].timeline()
        assert recorder.selected > 4


def test_tasks_append_by_the_same_recorder(path: Path) -> None:
    async def append() -> int:
        async with stenolog.open_async(path) as log:
            await asyncio.gather(*(log["demo"].append(UserMessage(text=str(n))) for n in range(20)))
            found = [n async for n in log["demo"].entries()]
            return len(found)

    assert asyncio.run(append()) == 21


def test_what_is_recorded_right_after_the_first_look_is_delivered(log: Log) -> None:
    said(log["demo"], "a")

    with log.application.recorder.subscribe(gt=0) as subscription:
        assert [next(subscription).id for _ in range(2)] == [1, 2]
        said(log["demo"], "b")
        assert next(subscription).id == 3
    assert not log.datastore.commit_notifier.listeners


def test_what_is_recorded_during_the_first_look_is_delivered(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(log["demo"], "a")
    select = SqliteLogRecorder.select_notifications

    def appended_meanwhile(recorder: SqliteLogRecorder, *args: Any, **options: Any) -> Sequence[Notification]:
        monkeypatch.undo()
        found = select(recorder, *args, **options)
        said(log["demo"], "meanwhile")
        return found

    monkeypatch.setattr(SqliteLogRecorder, "select_notifications", appended_meanwhile)
    with log.application.recorder.subscribe(gt=0) as subscription:
        assert [next(subscription).id for _ in range(3)] == [1, 2, 3]


def test_a_subscription_ends_when_it_is_stopped(app: SqliteLogApplication) -> None:
    app.save(hi("demo", 1))
    with app.recorder.subscribe() as subscription:
        assert next(subscription).id == 1
        subscription.stop()
        subscription.stop()
        assert list(subscription) == []


def test_nothing_is_imported_because_the_database_names_it(app: SqliteLogApplication) -> None:
    topic = get_topic(os.path.join.__class__).replace("function", "os:system")
    app.recorder.insert_events([StoredEvent("demo", 1, topic, b"{}")])

    (recorded,) = app.events.get("demo")
    assert isinstance(recorded, Recorded)
    assert recorded.event == Unknown(topic=topic, payload=b"{}")


def test_a_payload_that_looks_like_the_librarys_own_is_left_alone(app: SqliteLogApplication) -> None:
    hostile = UserMessage(text="x", meta={"_type_": "uuid_hex", "_data_": "nonsense"})
    app.save(Recorded("demo", 1, hostile))

    (recorded,) = app.events.get("demo")
    assert recorded == Recorded("demo", 1, hostile)


def test_the_environment_of_the_process_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSOR_TOPIC", "zlib")
    monkeypatch.setenv("SQLITE_DBNAME", "/nowhere/else.db")
    monkeypatch.setenv("IS_SNAPSHOTTING_ENABLED", "y")

    with stenolog.open(path) as log:
        said(log["demo"], "a")
        (_, record) = log["demo"].records()
    assert record.payload.startswith(b"{")


def test_what_is_no_event_of_ours_cannot_be_saved(app: SqliteLogApplication) -> None:
    class Foreign:
        originator_id = "demo"
        originator_version = 1

    with pytest.raises(InvalidEventError, match="Foreign"):
        app.save(Foreign())


def test_a_payload_that_does_not_decode_is_named_by_its_position(app: SqliteLogApplication) -> None:
    app.recorder.insert_events([StoredEvent("demo", 1, "user_message@1", b"nonsense")])

    with pytest.raises(CorruptLogError, match="'demo' at position 1"):
        list(app.events.get("demo"))


def test_no_function_of_the_library_runs_on_an_append(path: Path) -> None:
    ran: set[str] = set()

    def noted(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals["__name__"].startswith("eventsourcing"):
            ran.add(frame.f_code.co_qualname)

    with stenolog.open(path) as log:
        said(log["demo"], "first")
        gc.collect()  # what earlier tests left is not finished while functions are noted
        sys.setprofile(noted)
        try:
            said(log["demo"], "second")
        finally:
            sys.setprofile(None)

    assert ran == set()
