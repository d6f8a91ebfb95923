"""`fork`, `rename`, `archive`, `delete`, `erase`: changes to the conversations of a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import OneOf, names, takes_db
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, done, line
from stenolog.apps.cli.terminal import ask
from stenolog.apps.views.positions import position_ranges
from stenolog.projections.analysis.quotes import quoting

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


LOOKED_AT = 100
"""Among so many of its first entries one from a file is looked for."""
target_argument = click.argument("target", metavar="CONVERSATION", shell_complete=names)


@command("fork", example="stenolog fork demo --after 4 --name retry")
@click.option("--after", metavar="POSITION", help="The fork begins after this position or time …")
@click.option("--before", metavar="POSITION", help="… or before it. One of the two must be said.")
@click.option("--name", metavar="NAME", help="Its name; else made from the parent's.")
@click.option(
    "--pending",
    type=OneOf(["close", "keep"]),
    default="close",
    show_default=True,
    help="Calls that were running.",
)
@target_argument
@takes_db
def fork_command(
    db: Database,
    target: str,
    after: str | None,
    before: str | None,
    name: str | None,
    pending: Literal["close", "keep"],
) -> CommandResult:
    """Begin a new conversation that shares a beginning.

    No entry is copied.
    """
    if (after is None) == (before is None):
        raise click.UsageError("say where: --after POSITION or --before POSITION")
    conversation = find_conversation(open_log(db), target)
    position = (
        resolve(conversation, after, least=0) if after is not None else resolve(conversation, str(before)) - 1
    )
    fork = conversation.fork(after=position, name=name, pending=pending)
    words = (
        f"{fork.name} begins after {conversation.name}@{position}, with which it shares {position} entries"
    )
    return done(words, conversation=fork.name, fork_of=conversation.name, after=position, head=fork.position)


@command("rename", example="stenolog rename demo parser")
@target_argument
@click.argument("new")
@takes_db
def rename_command(db: Database, target: str, new: str) -> CommandResult:
    """Give a conversation another name.

    Its digests stay what they are. An import of its file goes on with it.
    """
    conversation = find_conversation(open_log(db), target)
    old = conversation.name
    conversation.rename(new)
    return done(f"{old} is now {new}", old=old, conversation=new)


@command("archive", example="stenolog archive demo")
@click.option("--undo", is_flag=True, help="Bring it back.")
@target_argument
@takes_db
def archive_command(db: Database, target: str, undo: bool) -> CommandResult:
    """Put a conversation away.

    `ls` no longer lists it, everything else still finds it.
    """
    conversation = find_conversation(open_log(db), target)
    if undo:
        conversation.unarchive()
        return done(f"{conversation.name} is back", conversation=conversation.name, archived=False)
    conversation.archive()
    return done(f"{conversation.name} is archived", conversation=conversation.name, archived=True)


@command("delete", example="stenolog delete demo --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@target_argument
@takes_db
def delete_command(db: Database, target: str, yes: bool) -> CommandResult:
    """Delete a conversation for good.

    One with living forks is not deleted. Write its whole name. Imports of its file leave it out.
    """
    log = open_log(db)
    conversation = find_conversation(log, target)
    if not target == conversation.name:
        raise click.UsageError(f"to delete, write the whole name: {conversation.name!r}")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to delete without being asked, say --yes")
    entries, words = _entry_count(conversation)
    if not yes:
        ask(f"Delete {conversation.name!r} and its {words} for good?", "nothing was deleted")
    again = _brought_back_by(conversation)
    conversation.delete()
    return done(
        f"{conversation.name} is deleted, with {words}{again}",
        conversation=conversation.name,
        entries=entries,
    )


@command("erase", example="stenolog erase demo 4 --reason 'a password'")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", default="", help="Why; it stands in the receipt, which stays in the log.")
@click.option("--by", metavar="NAME", help="Who; else the system's user.")
@target_argument
@click.argument("positions", metavar="P[-Q]...", nargs=-1, required=True)
@takes_db
def erase_command(
    db: Database, target: str, positions: Sequence[str], yes: bool, reason: str, by: str | None
) -> CommandResult:
    """Erase what entries say, for good.

    A receipt says who and why. The place and the digest of each stay, so the log is still provable. The
    words are overwritten in every file of the log; `stenolog explain value` finds what quotes them elsewhere.
    Positions are written 8 41, or 40-44,91.
    """
    conversation = find_conversation(open_log(db), target)
    spans = position_ranges(positions, partial(resolve, conversation))
    chosen = list(dict.fromkeys(at for span in spans for at in range(span.first, span.last + 1)))
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to erase without being asked, say --yes")
    which = ("entry " if len(chosen) == 1 else "entries ") + ", ".join(map(str, chosen))
    if not yes:
        ask(f"Erase what {which} of {conversation.name!r} says, for good?", "nothing was erased")
    quoted = quoting(conversation.entries(), chosen)
    erased = conversation.erase(*chosen, reason=reason, by=by)

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{conversation.name}: erased: {which}")
        for name, position in erased.recorded_at.items():
            yield f"· recorded: {name} at {position}"
        if not erased.is_complete:
            words = f"others are reading: the words may still stand in {db}-wal; `stenolog db gc` goes on"
            yield line(("! ", "yellow"), words)

    data = {"conversation": conversation.name, **erased._asdict(), "quoted_at": quoted}
    return CommandResult(data, draw, diagnostics=_still_there(conversation, quoted))


def _still_there(conversation: Conversation, quoted: Sequence[int]) -> tuple[Diagnostic, ...]:
    """Return a warning that other entries quote what was erased."""
    if not quoted:
        return ()
    where = f"{counted(len(quoted), 'other entry', 'other entries')}: {', '.join(map(str, quoted))}"
    words = f"the same words still stand in {where}"
    return (Diagnostic("warning", "quoted", words, conversation.name),)


def _brought_back_by(conversation: Conversation) -> str:
    """Say what brings back a conversation that came from a file; a fork was made here."""
    shared = conversation.log.recorder.lineage(conversation.stream)[-1].after
    own = islice(conversation.entries(after=shared), LOOKED_AT)
    came = any(getattr(entry.event, "source", None) for entry in own)
    return "; import --again FILE brings it back" if came else ""


def _entry_count(conversation: Conversation) -> tuple[int, str]:
    """Return the number of a conversation's own entries, and that in words.

    Entries that a fork shares stay with its parent.
    """
    shared = conversation.log.recorder.lineage(conversation.stream)[-1].after
    own = conversation.position - shared
    return own, counted(own, "entry", "entries") + (" of its own" if shared else "")
