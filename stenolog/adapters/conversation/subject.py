"""Erasure of a subject, or of an author, in all conversations of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from unicodedata import normalize

from stenolog.adapters.conversation.erasing import erase, is_erasable, user
from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.verifying.trace import (
    Reached,
    Trace,
    trace_author,
    trace_subject,
)
from stenolog.domain.entry import Entry, microseconds
from stenolog.domain.errors import CallerError, InvalidEventError
from stenolog.projections.analysis.quotes import folded, quoting
from stenolog.projections.views.lines import agent_of, searchable_text

AROUND = 32
"""Characters shown on each side of a found text."""
CAME = "it came since"
"""Why an entry stays that was not there to be erased."""


class SubjectPlace(NamedTuple):
    """An entry that has the subject, and why it stays, if it does."""

    conversation: str
    position: int
    time: datetime
    author: str
    excerpt: str
    stays: str = ""


class Recipient(NamedTuple):
    """A provider that was sent entries of the subject: by how many requests, when, and for which agent.

    `reason` says why these requests could not be built again, and may have had it.
    """

    provider: str
    model: str
    agent: str
    conversation: str
    requests: int
    first: datetime
    last: datetime
    reason: str = ""


class Subject(NamedTuple):
    """The places of a text, or of what an author wrote, in a log. `beside` are names, drafts and tables."""

    text: str
    author: str
    places: tuple[SubjectPlace, ...]
    recipients: tuple[Recipient, ...]
    beside: tuple[Reached, ...]


class SubjectErased(NamedTuple):
    """The receipt of an erasure in several conversations.

    `together` is in the message of each; `positions` and `recorded_at` are by conversation. `stays` are
    places that were not erased, `quoted_at` other entries that repeat erased ones, `beside` names, drafts,
    tables and blobs that still have the text.
    """

    together: str
    by: str
    reason: str
    positions: dict[str, tuple[int, ...]]
    recorded_at: dict[str, int]
    is_complete: bool
    stays: tuple[SubjectPlace, ...]
    quoted_at: dict[str, list[int]]
    recipients: tuple[Recipient, ...]
    beside: tuple[Reached, ...]


def find_subject(log: Log, *, text: str = "", author: str = "") -> Subject:
    """Return all places of a text, or of what an author wrote; one of the two is given.

    Compared after Unicode's NFKC and case folding, any white space as one blank, without invisible
    characters, and within JSON inside of JSON. A text is found as a part of words too. Raises `CallerError`.
    """
    if bool(text) == bool(author):
        raise CallerError("expected a text or an author")
    return _subject(log, _trace(log, text, author), text, author)


def _trace(log: Log, text: str, author: str) -> Trace:
    return trace_subject(log, text) if text else trace_author(log, author)


def _subject(log: Log, trace: Trace, text: str, author: str) -> Subject:
    entries = dict.fromkeys((one.conversation, one.position) for one in trace.reached if one.what == "entry")
    places: list[SubjectPlace] = []
    for name, group in groupby(entries, key=lambda place: place[0]):
        places += _places(log[name], [position for _, position in group], text)
    answers = [one for one in trace.reached if one.what == "answer"]
    beside = tuple(one for one in trace.reached if one.what in ("name", "draft", "claim", "table"))
    return Subject(text, author, tuple(places), tuple(_recipients(log, answers)), beside)


def erase_subject(log: Log, found: Subject, *, reason: str = "", by: str | None = None) -> SubjectErased:
    """Erase the places of a subject that can be; return the receipt.

    Each conversation in one transaction; if the process is killed in between, find and erase again. Where one
    refuses, as for a hold that came since, its places are in `stays`. Raises `CallerError` if `reason` names
    the subject, for it stays in the log.
    """
    who = user() if by is None else by
    if folded(found.text or found.author) in folded(reason):
        raise CallerError("reason: it stays in the log, and names what is to be erased: leave that out")
    together = log.edge.id()
    positions: dict[str, tuple[int, ...]] = {}
    recorded_at: dict[str, int] = {}
    quoted: dict[str, list[int]] = {}
    kept: dict[str, list[str]] = {}
    refused: dict[str, str] = {}
    is_complete = True
    erasable = [place for place in found.places if not place.stays]
    for name, group in groupby(erasable, key=attrgetter("conversation")):
        chosen = [place.position for place in group]
        conversation = log[name]
        try:
            quotes = quoting(conversation.entries(), chosen)
            done = erase(conversation, chosen, reason=reason, by=who, together=together)
        except CallerError as error:
            refused[name] = str(error)
            continue
        if quotes:
            quoted[name] = quotes
        positions[name] = done.positions
        recorded_at |= done.recorded_at
        kept |= {} if found.text else done.kept_blobs  # a text is looked for in all blobs
        is_complete = done.is_complete
    # An erased mode switch has names left, and more may have come since.
    trace = _trace(log, found.text, found.author)
    left = _subject(log, trace, found.text, found.author)
    stays = (
        one if one.stays else one._replace(stays=refused.get(one.conversation, CAME)) for one in left.places
    )
    return SubjectErased(
        together,
        who,
        reason,
        positions,
        recorded_at,
        is_complete,
        tuple(stays),
        quoted,
        found.recipients,
        (*left.beside, *(one for one in trace.reached if one.what == "blob"), *_blobs(log, kept)),
    )


def _blobs(log: Log, kept: Iterable[str]) -> tuple[Reached, ...]:
    return tuple(Reached("blob", where=sha) for sha in kept if sha in log.blobs)


def _places(conversation: Conversation, positions: list[int], text: str) -> Iterator[SubjectPlace]:
    log, key = conversation.log, conversation.key
    now = microseconds(log.edge.clock())
    held = log.recorder.erasure.covered(conversation.stream, positions, now) if key else {}
    called = {call.position for _, call in conversation.state().open_calls()}
    for position in positions:
        entry = conversation.entry(position)
        stays = f"under {held[position]}" if position in held else ""
        if position in called:
            stays = stays or "a call of it has no result yet"
        try:
            if not stays and not is_erasable(conversation, position):
                stays = "erased; its effects stay"
        except InvalidEventError as error:
            stays = str(error).partition(": ")[2]
        author = agent_of(entry.event) or str(getattr(entry.event, "author", ""))
        yield SubjectPlace(conversation.name, position, entry.time, author, _excerpt(entry, text), stays)


def _excerpt(entry: Entry, text: str) -> str:
    said = " ".join(normalize("NFKC", searchable_text(entry.event)).split())
    found = re.search(re.escape(" ".join(normalize("NFKC", text).split())), said, re.IGNORECASE)
    begin = max(0, found.start() - AROUND) if found else 0
    end = (found.end() if found else AROUND) + AROUND
    return f"{'…' if begin else ''}{said[begin:end]}{'…' if end < len(said) else ''}"


def _recipients(log: Log, answers: Iterable[Reached]) -> Iterator[Recipient]:
    groups: dict[tuple[str, str, str, str, str], list[datetime]] = {}
    for one in answers:
        who = (one.provider, one.model, one.agent, one.conversation, one.reason)
        groups.setdefault(who, []).append(log[one.conversation].entry(one.position).time)
    for (provider, model, agent, name, reason), times in groups.items():
        yield Recipient(provider, model, agent, name, len(times), min(times), max(times), reason)
