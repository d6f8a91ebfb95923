"""Would today's code still send what was sent? The digests of every request of a corpus, and two compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, InvalidEvent, LaterRelease, StenologError
from stenolog.domain.policy import Policy
from stenolog.projections.requests import PIPELINE, WIRES, Wire, lanes
from stenolog.projections.requests.build import from_window, takes_part, windows
from stenolog.projections.requests.sections import ORDER, first_difference, sections
from stenolog.projections.requests.tokens import COUNTERS, Counter
from stenolog.projections.requests.wires.sheet import EMPTY_BLOBS

FORM = "stenolog-gate@1"


class Place(NamedTuple):
    """Which request it is; places are in order in a file."""

    db: str
    conversation: str
    lane: str
    position: int
    wire: str


class Digest(NamedTuple):
    """One request as it stands in a file: its place, its sha256, the digests of its sections."""

    place: Place
    sha256: str
    sections: Mapping[str, Any]


class Fresh(NamedTuple):
    """A request as it is built today."""

    place: Place
    sha256: str
    body: Mapping[str, Any]

    @property
    def digest(self) -> Digest:
        """As it is written."""
        return Digest(self.place, self.sha256, sections(self.body))


class Header(NamedTuple):
    """The first line of a file: what built it, on which wires, under which policy (None: the cards')."""

    pipeline: str
    wires: Mapping[str, int]
    policy: Mapping[str, Any] | None


class Compared(NamedTuple):
    """What would become of a request under today's code.

    `difference` is the first difference of one that is changed, a JSON pointer or a range.
    """

    place: Place
    what: Literal["same", "changed", "new", "vanished"]
    difference: str = ""


def header(wires: Mapping[str, Wire], policy: Policy | None) -> Header:
    """The header of what is built here and now."""
    versions = {name: wire.version for name, wire in sorted(wires.items())}
    return Header(PIPELINE, versions, None if policy is None else policy.json)


def fresh(
    entries: Iterable[Entry],
    *,
    db: str = "",
    wires: Mapping[str, Wire] = WIRES,
    policy: Policy | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
    refused: Callable[[str, StenologError], None] = lambda lane, error: None,
) -> Iterator[Fresh]:
    """Every request of a conversation that anyone would send, in the order of their places.

    Behind what is not known here nobody sends anything: a lane ends there, and `refused` is told why. It is
    called with the lane's address and the error.
    """
    log = list(entries)
    for lane in sorted(lanes(log), key=lambda lane: lane.address):
        try:
            for window in windows(log, lane, policy, counters, blobs):
                for name, wire in sorted(wires.items()) if takes_part(window) else ():
                    request = from_window(window, wire, blobs)
                    if request.ready:
                        place = Place(db, log[0].conversation, lane.address, request.upto, name)
                        yield Fresh(place, request.sha256, request.body)
        except (CallerError, LaterRelease) as error:
            refused(lane.address, error)


def compare(old: Iterable[Digest], new: Iterable[Fresh]) -> Iterator[Compared]:
    """Both sides in the order of the places; each is read but once."""
    before = iter(old)
    then = next(before, None)
    for now in new:
        while then is not None and then.place < now.place:
            yield Compared(then.place, "vanished")
            then = next(before, None)
        if then is None or then.place != now.place:
            yield Compared(now.place, "new")
            continue
        if then.sha256 == now.sha256:
            yield Compared(now.place, "same")
        else:
            where = first_difference(then.sections, now.body) or ORDER
            yield Compared(now.place, "changed", where)
        then = next(before, None)
    while then is not None:
        yield Compared(then.place, "vanished")
        then = next(before, None)


def header_data(made: Header) -> dict[str, Any]:
    """The header as JSON."""
    return {"form": FORM, **made._asdict()}


def data(digest: Digest) -> dict[str, Any]:
    """A digest as JSON."""
    return {**digest.place._asdict(), "sha256": digest.sha256, "sections": digest.sections}


def header_line(made: Header) -> str:
    """The header as it is written, in ASCII."""
    return json.dumps(header_data(made), separators=(",", ":"))


def line(digest: Digest) -> str:
    """A digest as it is written, in ASCII."""
    return json.dumps(data(digest), separators=(",", ":"))


def read_header(text: str) -> Header:
    """The header of a file. Raises `InvalidEvent` where it is none, or of a form that is not known here."""
    given = _object(text, 1)
    if given.get("form") != FORM:
        raise InvalidEvent(f"line 1: expected a header with the form {FORM!r}, found {given.get('form')!r}")
    match given:
        case {"pipeline": str(pipeline), "wires": dict(wires), "policy": dict() | None as policy}:
            return Header(pipeline, wires, policy)
        case _:
            names = ", ".join(Header._fields)
            raise InvalidEvent(f"line 1: expected a header with {names}, found {', '.join(given)}")


def read(lines: Iterable[str]) -> Iterator[Digest]:
    """The digests of the lines behind the header. Raises `InvalidEvent` for what is none, or out of order."""
    last: Place | None = None
    for number, text in enumerate(lines, 2):
        given = _object(text, number)
        try:
            place = Place(*(given[name] for name in Place._fields))
            digest = Digest(place, given["sha256"], given["sections"])
        except KeyError as missing:
            raise InvalidEvent(f"line {number}: expected a digest, found one without {missing}") from None
        if last is not None and place <= last:
            raise InvalidEvent(f"line {number}: expected a place behind {tuple(last)}, found {tuple(place)}")
        last = place
        yield digest


def _object(text: str, number: int) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidEvent(f"line {number}: expected JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidEvent(f"line {number}: expected an object, found {type(given).__name__}")
    return given
