"""`ls`, `log`, `show`, `tail`: the conversations of a database, and the entries of one as they stand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.conversation.queries.overviews import listed
from stenolog.adapters.providers.prices import source
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, find_conversation, open_log
from stenolog.apps.cli.arguments.options import (
    names,
    takes_conversation,
    takes_conversation_and,
    takes_db,
    takes_kinds,
)
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.arguments.time import period
from stenolog.apps.cli.draw.conversation_list import list_drawn
from stenolog.apps.cli.draw.entry_lines import carries_settings_of, entry_line, log_lines
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line
from stenolog.apps.cli.terminal import width
from stenolog.apps.views.conversations import conversation_data, has_part
from stenolog.domain.entry import Entry

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log


@command("log", example="stenolog log demo -n 5")
@click.option("-n", "--limit", "last", metavar="N", type=click.IntRange(min=1), help="Only the last N.")
@click.option("--after", metavar="POSITION", default="0", help="Only what comes after it, or after a time.")
@click.option("--at", metavar="POSITION", default="@", help="As it stood at this position or time.")
@click.option("--since", metavar="TIME", help="Only what is of this time or later.")
@click.option("--until", metavar="TIME", help="Only what is of this time or earlier.")
@click.option("--all", "-a", "whole", is_flag=True, help="Mode switches with mere settings of programs too.")
@takes_kinds
@takes_conversation
def log_command(
    db: Database,
    target: str,
    last: int | None,
    after: str,
    at: str,
    whole: bool,
    kinds: tuple[str, ...],
    **times: str | None,
) -> CommandResult:
    """Show the entries, one a line.

    Position, time, kind, who, what.
    """
    conversation = find_conversation(open_log(db), target)
    first, position = resolve(conversation, after, least=0), resolve(conversation, at)
    chosen = partial(_chosen, conversation, first, position, last, _wanted(kinds, **times))
    return CommandResult(
        lambda: {"conversation": conversation.name, "entries": chosen()},
        lambda: log_lines(chosen(), conversation, all=whole or bool(kinds)),
    )


def _wanted(kinds: Collection[str], since: str | None, until: str | None) -> Callable[[Entry], bool]:
    """Return whether an entry is of these kinds (none: all) and between these times."""
    times = period(since, until)
    return lambda entry: entry.time in times and (not kinds or entry.event.kind in kinds)


def _chosen(
    conversation: Conversation, after: int, position: int, last: int | None, wanted: Callable[[Entry], bool]
) -> Iterator[Entry]:
    """Yield the wanted entries between two positions, or only the last ones."""
    if last is None:
        return filter(wanted, conversation.entries(after=after, at=position))
    back = (entry for entry in filter(wanted, backwards(conversation, position)) if entry.position > after)
    return reversed(list(islice(back, last)))


@command("show", example="stenolog show demo @{error}")
@click.option("--raw", is_flag=True, help="Only the text and the arguments of tool calls, as they came.")
@takes_conversation_and("[POSITION]")
def show_command(db: Database, words: tuple[str, ...], raw: bool) -> CommandResult:
    """Show one entry whole: all its fields, its text unabridged.

    Without POSITION it is the last entry. Signatures are counted; --json has them.
    """
    conversation, position = find_both(open_log(db), words, "@")
    wanted = resolve(conversation, position)
    (shown,) = conversation.entries(after=wanted - 1, at=wanted)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.entry import full_entry, raw_entry

        return raw_entry(shown) if raw else full_entry(shown, conversation)

    return CommandResult(shown, draw)


@command("tail", example="stenolog tail demo")
@click.option(
    "-n", "--limit", "last", metavar="N", type=click.IntRange(min=0), default=10, help="Begin N back; 10."
)
@click.option("--timeout", type=float, help="Stop after this many seconds without a new entry.")
@click.option("--all", "-a", "whole", is_flag=True, help="Mode switches with mere settings of programs too.")
@takes_conversation
def tail_command(db: Database, target: str, last: int, timeout: float | None, whole: bool) -> CommandResult:
    """Follow a conversation as it goes on.

    The last entries, then each new one as it is appended.
    """
    conversation = find_conversation(open_log(db), target)
    head = conversation.position

    def is_shown(entry: Entry) -> bool:
        return whole or not carries_settings_of(entry.event)

    def draw() -> Iterator[Piece]:
        from stenolog.apps.views.caches import miss_line

        back = islice(filter(is_shown, backwards(conversation, head)), last)
        first = min((entry.position for entry in back), default=head + 1)
        entries = conversation.tail(after=first - 1, timeout=timeout)
        for entry in filter(is_shown, entries):
            yield entry_line(entry, conversation=conversation)
            if missed := miss_line(conversation, entry):
                yield line((f"    {missed}", "yellow"))

    entries = conversation.tail(after=max(0, head - last), timeout=timeout)
    return CommandResult(entries, draw, streams=True)


NONE_YET = "no conversation yet: `stenolog import FILE` brings one in"


@command("ls", example="stenolog ls --since 3d")
@click.argument("part", required=False, default="")
@click.option("--all", "-a", "archived", is_flag=True, help="Archived ones too.")
@click.option("--since", metavar="TIME", help="Only with a last entry of this time or later.")
@click.option("--until", metavar="TIME", help="Only with a last entry of this time or earlier.")
@click.option("--older-than", "before", metavar="CONVERSATION", shell_complete=names, help="Only older ones.")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=50,
    help="At most N, the newest; else 50; 0 for all.",
)
@takes_db
def ls_command(
    db: Database,
    part: str,
    archived: bool,
    since: str | None,
    until: str | None,
    before: str | None,
    limit: int,
) -> CommandResult:
    """List the conversations, the newest last.

    PART is a part of the name, the project's folder, the branch or the title. The order is that of the last
    entries' times; an imported entry has the time of its transcript. A UUID is shown by its beginning, which
    all commands take; in a pipe names are whole. Without a title the first words of a person are shown. With
    --json the newest is the first.

    STATE is empty for an idle conversation; failed; approval: a person is asked; open: a model or a tool has
    yet to answer. ERRORS are failed model calls. ≥ before a cost: a part of it is not known.
    """
    log, times = open_log(db), period(since, until)
    which: dict[str, Any] = {
        "archived": archived,
        "active_since": times.first,
        "active_until": times.last,
        "older_than": "" if before is None else find_conversation(log, before).name,
    }
    if part:
        every = list(_with_part(log, part, which))
        shown, older = every[: limit or None], len(every[limit or len(every) :])
    else:
        shown = log.names(**which, limit=limit or None, order="latest")
        is_full = limit and len(shown) == limit
        older = log.count(**which, order="latest") - limit if is_full else 0
    rows = [conversation_data(log, name) for name in shown]
    notes = (
        (*_more(shown[-1], older), *_examples(rows))
        if rows
        else _none(log, part, which, {"--since": since, "--until": until, "--older-than": before})
    )

    def draw() -> Iterable[Piece]:
        now = datetime.now(UTC) if sys.stdout.isatty() else None
        return list_drawn(rows[::-1], width(), now) if rows else ()

    return CommandResult(rows, draw, diagnostics=notes)


def _with_part(log: Log, part: str, which: dict[str, Any]) -> Iterator[str]:
    """Yield the conversations that have the part in their name, project folder, branch or title."""
    for name in log.names(**which, order="latest"):
        if has_part(listed(log[name]), part):
            yield name


def _none(log: Log, part: str, which: dict[str, Any], asked: dict[str, str | None]) -> tuple[Diagnostic, ...]:
    """Explain an empty list: no conversation has such a part, or none passes the filters."""

    def count(*, archived: bool) -> int:
        if not part:
            return log.count(archived=archived)
        return sum(1 for _ in _with_part(log, part, {"archived": archived}))

    words = f"no conversation has {part!r} in its name, project, branch or title" if part else NONE_YET
    if named := count(archived=which["archived"]):
        filters = (f"{option} {shlex.quote(value)}" for option, value in asked.items() if value is not None)
        words = f"of {counted(named, 'conversation')} none passes {' '.join(filters)}"
    elif archived := count(archived=True):
        words = f"{counted(archived, 'conversation')} put away: --all shows archived ones too"
    return (Diagnostic("note", "none", words),)


def _examples(rows: Iterable[dict[str, Any]]) -> tuple[Diagnostic, ...]:
    """Return a note where a cost is by example prices, which are not what anyone has to pay."""
    if not any(row["cost_is_by_example_prices"] for row in rows):
        return ()
    return (Diagnostic("note", "example-prices", f"USD at {source()}"),)


def _more(oldest: str, many: int) -> tuple[Diagnostic, ...]:
    """Return a note on how to list the older conversations."""
    if many <= 0:
        return ()
    return (
        Diagnostic(
            "note", "more", f"{many:,} older ones: --older-than {shlex.quote(oldest)}; -n 0 shows all"
        ),
    )
