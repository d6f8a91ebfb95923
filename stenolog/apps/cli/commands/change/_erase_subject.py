"""Erasure of a subject or an author, as `erase` shows it."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import ask, say

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.adapters.conversation.subject import Recipient, Subject, SubjectErased, SubjectPlace
    from stenolog.adapters.conversation.verifying.trace import Reached


def sources(conversation: Conversation, positions: Container[int]) -> set[str]:
    """Return the systems that entries were imported from, such as "claude-code"."""
    chosen = (entry.event for entry in conversation.entries() if entry.position in positions)
    return {source.system for event in chosen if (source := getattr(event, "source", None)) is not None}


def elsewhere(systems: Collection[str]) -> str:
    """Return which copies of the words an erasure does not reach."""
    ours = f"the imported files of {', '.join(sorted(systems))}" if systems else "imported files"
    return f"not reached: {ours}, exports, backups and copies elsewhere; delete the words there too"


def erase_everywhere(
    log: Log, *, text: str, author: str, yes: bool, reason: str, by: str | None
) -> CommandResult:
    """Show all places, ask, erase those that can be, and say what stays."""
    from stenolog.adapters.conversation import subject

    found = subject.find_subject(log, text=text, author=author)
    number = sum(not place.stays for place in found.places)
    if number and not yes:
        _show(found)
        where = counted(
            len({place.conversation for place in found.places if not place.stays}), "conversation"
        )
        ask(f"Erase {counted(number, 'entry', 'entries')} of {where}, for good?", "nothing was erased")
    places = {
        name: {one.position for one in group}
        for name, group in groupby(found.places, lambda one: one.conversation)
    }
    systems = set[str]().union(*(sources(log[name], positions) for name, positions in places.items()))
    done = subject.erase_subject(log, found, reason=reason, by=by)
    failed = bool(done.stays or done.beside)
    return CommandResult(done, lambda: _drawn(found, done, systems), failed)


def _show(found: Subject) -> None:
    for place in found.places:
        say(f"  {place.conversation}@{place.position} {place.author}: {place.excerpt}{_why(place)}")


def _why(place: SubjectPlace) -> str:
    return f" (stays: {place.stays})" if place.stays else ""


def _drawn(found: Subject, done: SubjectErased, systems: Collection[str]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table

    erased = [one for one in found.places if one.position in done.positions.get(one.conversation, ())]
    if not found.places:
        yield line(("· ", "cyan"), "no entry has it")
    if erased:
        rows = [(f"{one.conversation}@{one.position}", one.author, one.excerpt) for one in erased]
        yield table(("ERASED", "AUTHOR", "*SAID"), rows)
        where = ", ".join(f"{name}@{position}" for name, position in done.recorded_at.items())
        yield line(("✓ ", "green"), f"erased: {counted(len(erased), 'entry', 'entries')}; recorded: {where}")
    for place in done.stays:
        yield line(("! ", "yellow"), f"stays: {place.conversation}@{place.position}: {place.stays}")
    for name, positions in done.quoted_at.items():
        where = ", ".join(map(str, positions))
        yield line(("! ", "yellow"), f"{name}: the same words may still be in {where}")
    yield from _beside(done.beside)
    for sent in done.recipients:
        yield line(("! ", "yellow"), _recipient(sent))
    if not done.is_complete:
        yield line(("! ", "yellow"), "others are reading: the rest is removed by `stenolog db gc`")
    yield line(("· ", "cyan"), elsewhere(systems))


def _beside(beside: Iterable[Reached]) -> Iterator[Piece]:
    for what in dict.fromkeys(f"{one.what} {one.conversation or one.where}" for one in beside):
        yield line(("! ", "yellow"), f"stays: {what}")


def _recipient(sent: Recipient) -> str:
    first, last = (f"{in_zone(time):%Y-%m-%d}" for time in (sent.first, sent.last))
    when = first if first == last else f"{first} to {last}"
    whom = " ".join(filter(None, (sent.provider, sent.model)))
    verb = "may have been sent" if sent.reason else "sent"
    number = counted(sent.requests, "request")
    return f"{verb} to {whom} for {sent.agent} of {sent.conversation}: {number}, {when}"
