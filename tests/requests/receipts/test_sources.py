"""Law 2: model-visible is what is in the log. Each text of a body has a source; what is hidden is not read.

Every free text of a generated log is replaced by a word of its own, in letters that nothing else uses. So a
body tells where each of its texts is from: a planted word belongs to one entry, and all that remains without
the planted words must be a constant that stands in `golden/constants.txt`, which a person reads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from stenolog import Entry, Request
from stenolog.domain.codec import REGISTRY
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import BlobText
from stenolog.projections.requests import LaneId, build, lanes
from stenolog.projections.requests.builder import ReadView, request_of, take
from stenolog.projections.requests.sendable import takes_part
from tests.requests.histories import BLOBS, history
from tests.requests.policies import SMALL
from tests.requests.sessions import session_log

CONSTANTS = Path(__file__).parents[1] / "golden" / "constants.txt"
LETTERS = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"
PLANTED = re.compile(f"[{LETTERS}]+")
TEXTS = frozenset(
    ("text", "persona", "description", "message", "directive", "brief", "context", "handoff", "base", "raw")
)
"""The keys of a stored event whose values are somebody's words."""
NAMES = frozenset(
    [
        "agent",
        "author",
        "name",
        "id",
        "call_id",
        "model",
        "task",
        "to",
        "media_type",
        "url",
        "namespace",
        "filename",
        "joins",
        "category",
        "banner",
        "mode",
        "signature",
        "encrypted",
        "session",
    ]
)
"""The keys whose values are names."""
SECRET = ("not-addressed", "private-purpose", "hidden", "reset", "erased", "not-in-context")
"""The rules by which an entry is hidden from a lane."""
SEEDS = int(os.environ.get("STENOLOG_EXAMPLES", "100"))


class Planted(NamedTuple):
    """A log in which each text is a word of its own, and the position of each word."""

    entries: list[Entry]
    owners: dict[str, int]


def word(number: int) -> str:
    """Return a word for a number, of at least three letters."""
    letters = ""
    while number or len(letters) < 3:
        number, letter = divmod(number, len(LETTERS))
        letters += LETTERS[letter]
    return letters


def plant(log: list[Entry], *, first: int = 0) -> Planted:
    """Replace each free text of a log by a word, from the word of number `first` on."""
    owners: dict[str, int] = {}
    entries = []
    for entry in log:

        def new(entry: Entry = entry) -> str:
            made = word(first + len(owners))
            owners[made] = entry.position
            return made

        topic, payload = REGISTRY.dump(entry.event)
        event = REGISTRY.load(topic, json.dumps(_replaced(json.loads(payload), new)).encode())
        entries.append(Entry(entry.conversation, entry.position, entry.id, entry.time, entry.digest, event))
    return Planted(entries, owners)


def _replaced(value: Any, new: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _replaced(inner, new, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, new, key) for inner in value]
    if isinstance(value, str) and value.strip():
        if key in TEXTS:
            return new()
        if key == "arguments":
            return json.dumps({"x": new()}, ensure_ascii=False)
    return value


def leaves(value: Any) -> Iterator[str]:
    """Yield every string of a body, keys too; blobs are replaced by their hash."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str) and not isinstance(value, BlobText):
        yield value


def names_of(log: list[Entry]) -> re.Pattern[str]:
    """Return the names in entries and on cards (agents, tools, calls, models, files); longest first."""
    names = {entry.id for entry in log}
    for entry in log:
        names.update(_named(json.loads(REGISTRY.dump(entry.event)[1])))
    longest = sorted(filter(str.strip, names), key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z])")


def _named(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if key in ("cards", "parameters"):
                yield name
            yield from _named(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, key)
    elif isinstance(value, str) and key in NAMES:
        yield value
        yield from value.split("/")


def constants(request: Request) -> set[str]:
    """Return the rest of a body's texts without planted words; numbers are all the same."""
    found: set[str] = set()
    for leaf in leaves(request.body):
        rest = re.sub(r"[0-9a-f]{6,}|\d[\d,]*", "#", PLANTED.sub("·", leaf))
        found.update(line.strip() for line in rest.splitlines() if re.search(r"[A-Za-z]", line))
    return found


def every_request(log: list[Entry], lane: LaneId, seed: int) -> Iterator[Request]:
    """Yield the lane's request after each entry under a policy that the seed chooses, on the APIs in turn."""
    chosen = Random(seed).choice([*SMALL.values()])
    view = ReadView(lane, chosen, blobs=BLOBS)
    for entry in log:
        take(view, entry)
        if view.state.blocked is not None:
            return
        if takes_part(view):
            yield request_of(view, [*FORMATS][(seed + entry.position) % len(FORMATS)], BLOBS)


def logs(seeds: range) -> Iterator[tuple[int, list[Entry]]]:
    """Yield teams' sessions and damaged histories in turn."""
    for seed in seeds:
        yield seed, session_log(seed, 40) if seed % 3 == 0 else history(seed, longest=20)


def check_sources(seeds: range) -> None:
    """Assert of every request that its words are from entries that it read, none of them hidden."""
    for seed, log in logs(seeds):
        planted = plant(log)
        for lane in lanes(planted.entries):
            for request in every_request(planted.entries, lane, seed):
                words = {word for leaf in leaves(request.body) for word in PLANTED.findall(leaf)}
                where = (seed, lane, request.at, request.api)

                assert words <= planted.owners.keys(), where
                assert {planted.owners[each] for each in words} <= request.read, where
                for run in request.omissions:
                    if run.rule in SECRET and not run.what:
                        assert request.read.isdisjoint(range(run.first, run.last + 1)), (where, run)


def test_each_word_of_a_body_is_from_an_entry_that_was_read_and_no_hidden_entry_was() -> None:
    check_sources(range(30))


@pytest.mark.slow
def test_so_it_is_in_many_logs() -> None:
    check_sources(range(30, 30 + 2 * SEEDS))


def test_other_words_in_hidden_entries_give_the_same_bytes() -> None:
    compared = 0
    for seed, log in logs(range(25)):
        one, other = plant(log), plant(log, first=100_000)
        for lane in lanes(log):
            for request in every_request(one.entries, lane, seed):
                hidden = {
                    position
                    for run in request.omissions
                    if run.rule in ("not-addressed", "private-purpose") and not run.what
                    for position in range(run.first, run.last + 1)
                } - request.read
                if not hidden or request.at != len(log):
                    continue
                mixed = [
                    changed if entry.position in hidden and entry.event.kind != "mode_switch" else entry
                    for entry, changed in zip(one.entries, other.entries, strict=True)
                ]
                chosen = Random(seed).choice([*SMALL.values()])
                api = request.api.partition("@")[0]
                again = build(mixed, lane.agent, task=lane.task, api=api, policy=chosen, blobs=BLOBS)
                assert again.bytes == request.bytes, (seed, lane)
                compared += 1

    assert compared > 3


def test_what_is_from_no_entry_is_a_constant_that_a_person_has_read() -> None:
    found = set()
    for seed, log in logs(range(25)):
        planted = plant(log)
        names = names_of(planted.entries)
        for lane in lanes(planted.entries):
            for request in every_request(planted.entries, lane, seed):
                found |= {names.sub("¤", line) for line in constants(request)}
    if os.environ.get("STENOLOG_GOLDEN"):
        CONSTANTS.write_text("\n".join(sorted(found)) + "\n")

    # A format may bring those of its own.
    read = {
        line for file in CONSTANTS.parent.glob("*constants.txt") for line in file.read_text().splitlines()
    }
    assert sorted(found - read) == []
