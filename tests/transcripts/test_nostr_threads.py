"""Threads of replies that name no root: the way up is gone once, and is longer when more of it is there."""

from __future__ import annotations

from stenolog.contrib.nostr.events import NostrEvent, event_of, roots_of
from stenolog.contrib.nostr.participants import LONGEST_QUOTE
from tests.transcripts.given import Import
from tests.transcripts.signing import Json, entity, event


def chain(length: int) -> list[Json]:
    """Return messages that each reply to the one before it."""
    made = [event("ann", "0", kind=1)]
    for nth in range(1, length):
        made.append(event("ann", str(nth), ["e", made[-1]["id"], "", "reply"], kind=1, at=nth))
    return made


class Counted(dict[str, NostrEvent]):
    """Events by their ids, and how often one was looked up."""

    lookups = 0

    def __getitem__(self, id: str) -> NostrEvent:
        self.lookups += 1
        return super().__getitem__(id)


def test_the_way_up_from_each_event_is_gone_once() -> None:
    events = [event_of(each) for each in chain(40)]
    for order in (events, events[::-1]):
        known = Counted({each.id: each for each in order})

        assert roots_of(known) == dict.fromkeys(known, events[0].id)
        assert known.lookups < len(events)


def test_a_thread_whose_middle_comes_late_is_whole_under_its_root_then(into: Import) -> None:
    root, middle, leaf = chain(3)
    into.records(root, leaf)
    parts = {name: into.log[name].position for name in into.log}
    into.records(root, middle, leaf)

    assert parts == {root["id"]: 2, middle["id"]: 2}
    assert {name: into.log[name].position for name in into.log} == {root["id"]: 4, middle["id"]: 2}
    assert [found.appended for found in into.records(root, middle, leaf).report.conversations] == [0]


def test_a_long_event_is_quoted_by_its_beginning(into: Import) -> None:
    root = event("ann", "x" * 10_000, kind=1)
    again = event("ann", f"nostr:{entity('note', bytes.fromhex(root['id']))}", under=root["id"], at=1)
    into.records(root, again)

    assert [len(getattr(said, "text", "")) for said in into.said] == [10_000, len("> ") + LONGEST_QUOTE + 1]
