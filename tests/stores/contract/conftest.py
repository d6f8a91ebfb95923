"""The store's contract, told in sentences, for any implementation of `LogRecorder`.

An implementation is a function that takes a folder and a cleanup, and returns how to open its log: each call
gives a recorder of its own on the same log, as another process would have it. A new one is put into
`IMPLEMENTATIONS`, and passes without a change to any test here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from stenolog.adapters.store.appends import Sources, prepare
from stenolog.adapters.store.eventsourcing_app import LogApplication
from stenolog.adapters.store.recorder import LogRecorder
from stenolog.adapters.store.store_values import Claim, PendingEntry, Stream
from stenolog.domain.entry import NewEntry
from stenolog.domain.events import Event, UserMessage

Opening: TypeAlias = Callable[[], LogRecorder]


def in_sqlite(folder: Path, stack: ExitStack) -> Opening:
    def opening() -> LogRecorder:
        application = LogApplication({"SQLITE_DBNAME": str(folder / "talks.db")})
        stack.callback(application.close)
        stack.callback(application.recorder.close)
        return application.recorder

    return opening


IMPLEMENTATIONS: Mapping[str, Callable[[Path, ExitStack], Opening]] = {"sqlite": in_sqlite}


@pytest.fixture(params=IMPLEMENTATIONS)
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Return a function that opens a log, and the same log again."""
    with ExitStack() as stack:
        yield IMPLEMENTATIONS[request.param](tmp_path, stack)


@pytest.fixture
def recorder(opening: Opening) -> LogRecorder:
    return opening()


@pytest.fixture
def other(opening: Opening, recorder: LogRecorder) -> LogRecorder:
    """Return another recorder of the same log, as another process has it."""
    return opening()


def item(event: Event | str, id: str | None = None) -> PendingEntry:
    """Return an event, or words of a user, on their way in."""
    said = UserMessage(text=event) if isinstance(event, str) else event
    return prepare(Sources(), NewEntry(said, id))


def put(recorder: LogRecorder, stream: Stream, *texts: str, expected: int | None = None) -> list[int]:
    """Append words; the positions they come to."""
    records = recorder.append([item(text) for text in texts], stream, expected)
    return [record.position for record in records]


def positions(recorder: LogRecorder, stream: Stream | str) -> list[int]:
    return [event.originator_version for event in recorder.select_events(stream)]


def claim(effect: str = "model", lane: str = "coder", owner: str = "one") -> Claim:
    return Claim(0, lane, effect, 2, 1, "key", owner, 0)
