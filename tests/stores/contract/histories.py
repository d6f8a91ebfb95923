"""Random calls of a recorder, which a seed decides, and what any store must answer to them.

What a store may choose for itself (keys, fences, notification ids) is told as places in an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any

from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking

from stenolog.adapters.store.contract.appends import Sources, prepare
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import (
    LAST,
    Claim,
    Cursor,
    Head,
    PendingEntry,
    Share,
    Stream,
    Which,
    Written,
)
from stenolog.domain.entry import NewEntry, Record, microseconds
from stenolog.domain.errors import CallerError
from stenolog.domain.events import ModeSwitch, UserMessage
from stenolog.domain.history import EVERY_STREAM, Hold, Said, holds_of, release_of

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["alpha", "Beta", "ä", "😀", "alpha~1", "a_%"]


def sources() -> Sources:
    """Return times, ids and salts that are the same in every run."""
    ticks, ids, salts = count(), count(1), count(1)

    def entropy(size: int) -> bytes:
        return next(salts).to_bytes(size, "big")

    return Sources(lambda: START + timedelta(seconds=next(ticks)), lambda: f"e{next(ids)}", entropy)


class History:
    """One sequence of calls on one recorder; `answers` is what came back."""

    def __init__(self, recorder: LogRecorder, seed: int) -> None:
        self.recorder = recorder
        self.answers: list[Any] = []
        self._chance = Random(seed)
        self._edge = recorder.edge
        # Streams that the process has used before, whose keys and heads may be old.
        self._known: dict[str, Stream] = {}
        self._claims: list[tuple[str, Claim]] = []
        self._texts = count()

    def run(self, steps: int) -> None:
        """Make so many calls, and look at everything afterwards."""
        calls: list[tuple[int, Callable[[], Any]]] = [
            (10, self._append), (3, self._repeat), (3, self._library), (3, self._batch), (3, self._fork),
            (2, self._rename), (1, self._delete), (2, self._archive), (2, self._erase), (3, self._claim),
            (2, self._settle), (1, self._take_over), (1, self._release), (1, self._draft), (1, self._cursor),
            (1, self._blob), (1, self._hold), (1, self._free), (4, self._look),
        ]  # fmt: skip
        for _ in range(steps):
            (call,) = self._chance.choices([c for _, c in calls], [weight for weight, _ in calls])
            try:
                answer = call()
            except (CallerError, IntegrityError) as error:
                answer = type(error).__name__, getattr(error, "expected", None), getattr(error, "found", None)
            self.answers.append((call.__name__, answer))
        self.answers += everything(self.recorder)

    # What is called

    def _append(self) -> Any:
        stream, expected = self._stream(), self._expected()
        records = self.recorder.append(self._items(), stream, expected)
        return [(record.position, record.id, record.digest) for record in records]

    def _repeat(self) -> Any:
        """Append with ids of a few, which may stand there with the same words or others."""
        chance = self._chance
        items = [self._item(f"m-{chance.randrange(6)}", f"{chance.randrange(2)}") for _ in range(2)]
        return [record.digest for record in self.recorder.append(items, self._stream(), self._expected())]

    def _library(self) -> Any:
        name, other = self._chance.choices(NAMES, k=2)
        at = self.recorder.head(Stream(name)).position + self._chance.choice([1, 1, 1, 0, 2])
        events = [StoredEvent(name, at, "odd@1", b"x"), StoredEvent(name, at + 1, "odd@1", b"y")]
        if other != name:
            next_to = self.recorder.head(Stream(other)).position + 1
            events.append(StoredEvent(other, next_to, "odd@1", b"z"))
        tracking = (
            Tracking("upstream", self._chance.randrange(1, 30)) if self._chance.random() < 0.3 else None
        )
        return len(self.recorder.insert_events(events, tracking=tracking) or ())

    def _batch(self) -> Any:
        shares = []
        for name in self._chance.sample(NAMES, k=2):
            at = self.recorder.head(Stream(name)).position
            expected = at + self._chance.choice([0, 0, 0, 1])
            branches = [(f"{name}/{next(self._texts)}", at + 1)] if self._chance.random() < 0.3 else []
            shares.append(Share(Stream(name), self._items(), expected, branches, [f"mark {name}"]))
        ends = self.recorder.insert_batch(shares, [])
        return [end if isinstance(end, Written) else type(end).__name__ for end in ends]

    def _fork(self) -> Any:
        parent = Stream(self._chance.choice(NAMES))
        if self.recorder.resolve(parent) is None:
            return None
        at = self._chance.randrange(1, self.recorder.head(parent).position + 1)
        digest = self.recorder.digest_at(parent, at)
        assert digest is not None
        name = self._chance.choice([None, None, *NAMES])
        made = self.recorder.conversations.fork(parent, Head(at, digest), name, self._items())
        return made.name, self.recorder.head(made)

    def _rename(self) -> Any:
        key = self.recorder.conversations.find(self._chance.choice(NAMES))
        return key and self.recorder.conversations.rename(key, self._chance.choice(NAMES))

    def _archive(self) -> Any:
        key = self.recorder.conversations.find(self._chance.choice(NAMES))
        return key and self.recorder.conversations.archive(key, self._chance.choice([None, 5]))

    def _delete(self) -> Any:
        name = self._chance.choice(NAMES)
        key = self.recorder.conversations.find(name)
        return key and self.recorder.conversations.delete(key, name)

    def _erase(self) -> Any:
        stream = Stream(self._chance.choice(NAMES))
        key = self.recorder.resolve(stream)
        if key is None:
            return None
        position = self.recorder.lineage(stream)[-1].after + 1
        having = self.recorder.erasure.conversations_with(stream, position)
        wrong = self._chance.choice([0, 0, 1])
        written = {
            each: (self.recorder.head(Stream(name, each)).position + wrong, [self._item()])
            for each, name in having.items()
        }
        come_to = self.recorder.erasure.erase(stream, [position], having, written)
        streams, _, number = self.recorder.erasure.unfinished()
        self.recorder.erasure.end(number)
        return {having[each]: to for each, to in come_to.items()}, len(streams)

    def _claim(self) -> Any:
        stream = Stream(self._chance.choice(NAMES))
        if self.recorder.resolve(stream) is None:
            return None
        at = self.recorder.head(stream).position + self._chance.choice([0, 0, 0, 1])
        wanted = [
            Claim(0, "coder", f"tool {self._chance.randrange(3)}", at, 1, "key", "one", 0) for _ in range(2)
        ]
        found = self.recorder.claims.take(stream, wanted, at)
        self._claims += [(stream.name, each) for each in found if each]
        return [each is not None for each in found]

    def _settle(self) -> Any:
        if not self._claims:
            return None
        name, held = self._chance.choice(self._claims)
        records = self.recorder.append(self._items(), Stream(name), self._expected(), held.fence)
        return [record.digest for record in records]

    def _take_over(self) -> Any:
        if not self._claims:
            return None
        name, held = self._chance.choice(self._claims)
        stream = Stream(name)
        if self.recorder.resolve(stream) is None:
            return None
        found = self.recorder.claims.take_over(stream, held, "two")
        self._claims += [(name, found)] if found else []
        return found is not None and found.fence > held.fence

    def _release(self) -> None:
        if self._claims:
            self.recorder.claims.release(self._chance.choice(self._claims)[1])

    def _draft(self) -> Any:
        if not self._claims:
            return None
        fence = self._chance.choice(self._claims)[1].fence
        self.recorder.drafts.add([(fence, b"%d" % next(self._texts))])
        return self.recorder.drafts.of(fence)

    def _cursor(self) -> Any:
        self.recorder.save_cursor("follower", Cursor(next(self._texts), 1))
        return self.recorder.load_cursor("follower"), self.recorder.max_tracking_id("upstream")

    def _blob(self) -> Any:
        content = b"%d" % self._chance.randrange(3)
        self.recorder.blobs.put([(sha256(content).hexdigest(), content)])
        return self.recorder.blobs.shas()

    def _hold(self) -> Any:
        key = self.recorder.conversations.find(self._chance.choice(NAMES)) or EVERY_STREAM
        since, age = self._chance.choice([(0, 0), (microseconds(START), 0), (0, 5)])
        said = Said("boss", 1, "case")
        return self.recorder.erasure.note_hold(Hold(0, key, since, 0, age, said).record()) > 0

    def _free(self) -> Any:
        found = [each for each in holds_of(self.recorder.erasure.holds()) if self._chance.random() < 0.5]
        said = Said("boss", 2, "over")
        return [self.recorder.erasure.note_hold(release_of(each, said)) > 0 for each in found]

    def _look(self) -> Any:
        stream, (first, last) = self._stream(), sorted(self._chance.choices(range(20), k=2))
        found = self.recorder.select_events(
            stream.name, gt=first, lte=last, desc=self._chance.random() < 0.5, limit=5
        )
        stretch = self.recorder.stretch(Stream(stream.name), first, last)
        return found.rows, stretch, self.recorder.record_by_id(Stream(stream.name), "m-1")

    # What it is called with

    def _stream(self) -> Stream:
        name = self._chance.choice(NAMES)
        # A stream that this process knows may lead to a conversation that was renamed or deleted.
        return self._known.setdefault(name, Stream(name)) if self._chance.random() < 0.5 else Stream(name)

    def _expected(self) -> int | None:
        return self._chance.choice([None, None, None, 0, 2, 5])

    def _items(self) -> list[PendingEntry]:
        items = [self._item() for _ in range(self._chance.choice([1, 1, 2, 3]))]
        return [self._item(event=ModeSwitch(mode="agent")), *items] if self._chance.random() < 0.1 else items

    def _item(self, id: str | None = None, text: str = "", event: ModeSwitch | None = None) -> PendingEntry:
        said = event or UserMessage(text=text or f"text {next(self._texts)}")
        return prepare(self._edge, NewEntry(said, id, START if id else None))


def everything(recorder: LogRecorder) -> Iterator[Any]:
    """Yield all that is in a log, without what a store may choose for itself."""
    moment = recorder.moment(0, 0)
    names = {each.key: each.name for each in moment.conversations}
    yield [(each.name, names.get(each.parent or 0), each.fork_position) for each in moment.conversations]
    for order in ("oldest", "newest", "latest", "a-z", "z-a"):
        yield (
            order,
            recorder.conversations.names(Which(archived=True), order=order),
            recorder.conversations.names(Which(), order=order),
        )
    for name in names.values():
        stream, records = Stream(name), list[Record]()
        while page := recorder.select_records(stream, len(records), LAST):
            records += page
        yield (
            name,
            recorder.head(stream),
            records,
            [each._replace(fence=0) for each in recorder.claims.of(stream)],
        )
    rows = recorder.committed(0, limit=10**6)
    yield [(row.name, row.position, row.id, row.time, row.digest, row.topic, row.payload) for row in rows]
    ids = [row.notification for row in rows]
    assert ids == sorted(set(ids)) == [each.id for each in recorder.select_notifications(None, 10**6)]
    yield recorder.max_tracking_id("upstream"), recorder.load_cursor("follower"), recorder.blobs.shas()
    yield [name for name, _ in recorder.claims.everywhere()]
    yield [(names.get(stream), *told) for _, stream, *told in holds_of(recorder.erasure.holds())]
