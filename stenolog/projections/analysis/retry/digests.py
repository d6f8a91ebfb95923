"""Digests of the requests of recorded calls: written to a file, and compared with one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.body_digest import ORDER, first_difference, sections
from stenolog.projections.requests import PIPELINE, LaneId, Request

from .cases import Case
from .changes import Change
from .comparing import Tried

FORM = "stenolog-retry@1"
NO_ANSWER = AssistantMessage(agent="nobody")


class CallPlace(NamedTuple):
    """The place of a call among all; places are in order in a file."""

    conversation: str
    lane: str
    position: int
    api: str


class Digest(NamedTuple):
    """One request in a file: the place of its call, its sha256, the digests of its sections."""

    place: CallPlace
    sha256: str
    sections: Mapping[str, Any]


class Header(NamedTuple):
    """The first line of a file: what built the requests, on which APIs, under which change ("": none)."""

    pipeline: str
    apis: Mapping[str, int]
    change: str


def header(change: Change) -> Header:
    """Return the header of requests that are built here and now."""
    return Header(PIPELINE, {name: api.version for name, api in sorted(FORMATS.items())}, change.in_words)


def place_of(case: Case) -> CallPlace:
    """Return a call's place."""
    return CallPlace(case.conversation, case.lane.address, case.position, case.api)


def digest_of(case: Case, request: Request) -> Digest:
    """Return the digest of a call's request."""
    return Digest(place_of(case), request.sha256, sections(request.body, request.messages_key))


def against(old: Iterable[Digest], new: Iterable[tuple[Case, Request]]) -> Iterator[Tried]:
    """Yield what became of the calls of a file and of a log, both in the order of their places."""
    before = iter(old)
    then = next(before, None)
    for case, now in new:
        place = place_of(case)
        while then is not None and then.place < place:
            yield Tried(_case_of(then.place), "vanished")
            then = next(before, None)
        if then is None or then.place != place:
            yield Tried(case, "new")
            continue
        if then.sha256 == now.sha256:
            yield Tried(case, "same")
        else:
            where = first_difference(then.sections, now.body, now.messages_key) or ORDER
            yield Tried(case, "changed", where)
        then = next(before, None)
    while then is not None:
        yield Tried(_case_of(then.place), "vanished")
        then = next(before, None)


def _case_of(place: CallPlace) -> Case:
    """Return a call that the log no longer has."""
    agent, _, task = place.lane.partition("/")
    return Case(place.conversation, LaneId(agent, task), place.position, place.api, NO_ANSWER)


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
        case {"pipeline": str(pipeline), "apis": dict(apis), "change": str(change)}:
            return Header(pipeline, apis, change)
        case _:
            names = ", ".join(Header._fields)
            raise InvalidEventError(f"line 1: expected a header with {names}, found {', '.join(given)}")


def read(lines: Iterable[str]) -> Iterator[Digest]:
    """Yield the digests after the header. Raises `InvalidEventError` for an invalid line."""
    last: CallPlace | None = None
    for number, text in enumerate(lines, 2):
        given = _object(text, number)
        try:
            place = CallPlace(*(given[name] for name in CallPlace._fields))
            digest = Digest(place, given["sha256"], given["sections"])
        except KeyError as missing:
            raise InvalidEventError(
                f"line {number}: expected a digest, found one without {missing}"
            ) from None
        if last is not None and place <= last:
            raise InvalidEventError(
                f"line {number}: expected a place after {tuple(last)}, found {tuple(place)}"
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
