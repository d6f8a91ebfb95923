"""Would today's code still send what was sent? The digests of every request of a corpus, and two compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, InvalidEventError, StenologError, UnsupportedVersionError
from stenolog.domain.policy import Policy
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.body_digest import ORDER, first_difference, sections
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import PIPELINE, lanes
from stenolog.projections.requests.incremental.series import series
from stenolog.projections.requests.sendable import takes_part

FORM = "stenolog-gate@1"


class RequestPlace(NamedTuple):
    """The place of a request among all; places are in order in a file."""

    db: str
    conversation: str
    lane: str
    position: int
    api: str


class Digest(NamedTuple):
    """One request in a file: its place, its sha256, the digests of its sections."""

    place: RequestPlace
    sha256: str
    sections: Mapping[str, Any]


class Fresh(NamedTuple):
    """A request as it is built today."""

    place: RequestPlace
    sha256: str
    body: Mapping[str, Any]
    messages_key: str

    @property
    def digest(self) -> Digest:
        return Digest(self.place, self.sha256, sections(self.body, self.messages_key))


class Header(NamedTuple):
    """The first line of a file: what built it, on which APIs, under which policy (None: the cards')."""

    pipeline: str
    apis: Mapping[str, int]
    policy: Mapping[str, Any] | None


class Compared(NamedTuple):
    """The comparison of a recorded request with the one that today's code builds.

    `difference` is the first difference of a changed one, a JSON pointer or a range.
    """

    place: RequestPlace
    what: Literal["same", "changed", "new", "vanished"]
    difference: str = ""


def header(apis: Mapping[str, Format], policy: Policy | None) -> Header:
    """Return the header of requests that are built here and now."""
    versions = {name: api.version for name, api in sorted(apis.items())}
    return Header(PIPELINE, versions, None if policy is None else policy.json)


def fresh(
    entries: Iterable[Entry],
    *,
    db: str = "",
    apis: Mapping[str, Format] = FORMATS,
    policy: Policy | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
    refused: Callable[[str, StenologError], None] = lambda lane, error: None,
) -> Iterator[Fresh]:
    """Yield every sendable request of a conversation, in the order of their places.

    A lane ends at an unknown entry; `refused` is called with the lane's address and the error.
    """
    log = list(entries)
    for lane in sorted(lanes(log), key=lambda lane: lane.address):
        try:
            for built in series(log, lane, policy, counters, blobs):
                for name, api in sorted(apis.items()) if takes_part(built.window) else ():
                    request = built.request(api)
                    if request.ready:
                        place = RequestPlace(db, log[0].conversation, lane.address, request.at, name)
                        yield Fresh(place, request.sha256, request.body, request.messages_key)
        except (CallerError, UnsupportedVersionError) as error:
            refused(lane.address, error)


def compare(old: Iterable[Digest], new: Iterable[Fresh]) -> Iterator[Compared]:
    """Yield both sides in the order of places; each is read once."""
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
            where = first_difference(then.sections, now.body, now.messages_key) or ORDER
            yield Compared(now.place, "changed", where)
        then = next(before, None)
    while then is not None:
        yield Compared(then.place, "vanished")
        then = next(before, None)


def header_data(header: Header) -> dict[str, Any]:
    """Return the header as JSON."""
    return {"form": FORM, **header._asdict()}


def data(digest: Digest) -> dict[str, Any]:
    """Return a digest as JSON."""
    return {**digest.place._asdict(), "sha256": digest.sha256, "sections": digest.sections}


def header_line(header: Header) -> str:
    """Return the header as written, in ASCII."""
    return json.dumps(header_data(header), separators=(",", ":"))


def line(digest: Digest) -> str:
    """Return a digest as written, in ASCII."""
    return json.dumps(data(digest), separators=(",", ":"))


def read_header(text: str) -> Header:
    """Return a file's header. Raises `InvalidEventError` for an invalid or unknown form."""
    given = _object(text, 1)
    if given.get("form") != FORM:
        raise InvalidEventError(
            f"line 1: expected a header with the form {FORM!r}, found {given.get('form')!r}"
        )
    match given:
        case {"pipeline": str(pipeline), "apis": dict(apis), "policy": dict() | None as policy}:
            return Header(pipeline, apis, policy)
        case _:
            names = ", ".join(Header._fields)
            raise InvalidEventError(f"line 1: expected a header with {names}, found {', '.join(given)}")


def read(lines: Iterable[str]) -> Iterator[Digest]:
    """Yield the digests after the header. Raises `InvalidEventError` for an invalid line."""
    last: RequestPlace | None = None
    for number, text in enumerate(lines, 2):
        given = _object(text, number)
        try:
            place = RequestPlace(*(given[name] for name in RequestPlace._fields))
            digest = Digest(place, given["sha256"], given["sections"])
        except KeyError as missing:
            raise InvalidEventError(
                f"line {number}: expected a digest, found one without {missing}"
            ) from None
        if last is not None and place <= last:
            raise InvalidEventError(
                f"line {number}: expected a place behind {tuple(last)}, found {tuple(place)}"
            )
        last = place
        yield digest


def _object(text: str, number: int) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidEventError(f"line {number}: expected JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidEventError(f"line {number}: expected an object, found {type(given).__name__}")
    return given
