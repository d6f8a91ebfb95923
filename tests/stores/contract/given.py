"""Helpers of the contract: events on their way in, and short ways to call a recorder."""

from __future__ import annotations

from stenolog.adapters.store.contract.appends import Sources, prepare
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Claim, Head, PendingEntry, Stream
from stenolog.domain.entry import NewEntry
from stenolog.domain.events import Event, UserMessage


def item(event: Event | str, id: str | None = None) -> PendingEntry:
    """Return an event, or words of a user, on their way in."""
    said = UserMessage(text=event) if isinstance(event, str) else event
    return prepare(Sources(), NewEntry(said, id))


def put(recorder: LogRecorder, stream: Stream, *texts: str, expected: int | None = None) -> list[int]:
    """Append words; the positions they come to."""
    records = recorder.append([item(text) for text in texts], stream, expected)
    return [record.position for record in records]


def fork(recorder: LogRecorder, parent: Stream, at: int, name: str | None = None) -> Stream:
    """Fork a conversation at a position; the fork has one entry of its own."""
    digest = recorder.digest_at(parent, at)
    assert digest is not None
    return recorder.conversations.fork(parent, Head(at, digest), name, [item("forked")])


def key_of(recorder: LogRecorder, stream: Stream) -> int:
    """Return the key of a conversation that has entries."""
    key = recorder.resolve(stream)
    assert key is not None
    return key


def positions(recorder: LogRecorder, stream: Stream | str) -> list[int]:
    """Return the positions of a conversation as the library reads them."""
    return [event.originator_version for event in recorder.select_events(stream)]


def claim(effect: str = "model", lane: str = "coder", owner: str = "one") -> Claim:
    """Return a claim that is to be taken."""
    return Claim(0, lane, effect, 2, 1, "key", owner, 0)


def taken(recorder: LogRecorder, stream: Stream, wanted: Claim | None = None) -> Claim:
    """Take a claim at the conversation's head."""
    (found,) = recorder.claims.take(stream, [wanted or claim()], recorder.head(stream).position)
    assert found is not None
    return found
