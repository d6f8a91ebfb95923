"""`fork`, `rename`, `archive`, `delete`, `erase`, `backup`, `restore`: what changes the log or copies it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from stenolog.adapters.store import conversation_rows

from .files import there
from .framework import command, find_conversation, names, open_log, takes_db
from .lines import Piece, line
from .position_argument import resolve
from .result import CommandResult
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

target_argument = click.argument("target", metavar="CONVERSATION", shell_complete=names)


def done(words: str, **data: object) -> CommandResult:
    """Return the result of a command that succeeded: a confirmation, and its data."""

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), words)

    return CommandResult(data, draw)


@command("fork")
@click.option("--after", help="The fork begins after this position or time …")
@click.option("--before", help="… or before it. One of the two must be said.")
@click.option("--name", help="The name of the fork; made from the parent's where it is left out.")
@click.option(
    "--pending",
    type=click.Choice(["close", "keep"]),
    default="close",
    show_default=True,
    help="Calls that were running: closed with `not run in this fork`, or kept open.",
)
@target_argument
@takes_db
def fork_command(
    db: Path,
    target: str,
    after: str | None,
    before: str | None,
    name: str | None,
    pending: Literal["close", "keep"],
) -> CommandResult:
    """Begin a new conversation that shares a beginning. No entry is copied."""
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


@command("rename")
@target_argument
@click.argument("new")
@takes_db
def rename_command(db: Path, target: str, new: str) -> CommandResult:
    """Give a conversation another name. Its digests stay what they are."""
    conversation = find_conversation(open_log(db), target)
    old = conversation.name
    conversation.rename(new)
    return done(f"{old} is now {new}", old=old, conversation=new)


@command("archive")
@click.option("--undo", is_flag=True, help="Bring it back.")
@target_argument
@takes_db
def archive_command(db: Path, target: str, undo: bool) -> CommandResult:
    """Put a conversation away. `ls` no longer lists it, everything else still finds it."""
    conversation = find_conversation(open_log(db), target)
    if undo:
        conversation.unarchive()
        return done(f"{conversation.name} is back", conversation=conversation.name, archived=False)
    conversation.archive()
    return done(f"{conversation.name} is archived", conversation=conversation.name, archived=True)


@command("delete")
@click.option("--yes", is_flag=True, help="Do not ask.")
@target_argument
@takes_db
def delete_command(db: Path, target: str, yes: bool) -> CommandResult:
    """Delete a conversation for good. One with living forks is not deleted."""
    log = open_log(db)
    conversation = find_conversation(log, target)
    if not target == conversation.name:
        raise click.UsageError(f"to delete, write the whole name: {conversation.name!r}")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to delete without being asked, say --yes")
    entries, words = _entry_count(conversation)
    if not yes:
        click.confirm(f"Delete {conversation.name!r} and its {words} for good?", abort=True, err=True)
    conversation.delete()
    return done(
        f"{conversation.name} is deleted, with {words}", conversation=conversation.name, entries=entries
    )


@command("erase")
@click.option("--yes", is_flag=True, help="Do not ask.")
@target_argument
@click.argument("position")
@takes_db
def erase_command(db: Path, target: str, position: str, yes: bool) -> CommandResult:
    """Erase what one entry says, for good. Its place and its digest stay, so the log is still provable."""
    conversation = find_conversation(open_log(db), target)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to erase without being asked, say --yes")
    at = resolve(conversation, position)
    if not yes:
        click.confirm(f"Erase what entry {at} of {conversation.name!r} says, for good?", abort=True, err=True)
    conversation.erase(at)
    return done(f"{conversation.name}: entry {at} is erased", conversation=conversation.name, position=at)


def _entry_count(conversation: Conversation) -> tuple[int, str]:
    """Return the number of a conversation's own entries, and that in words.

    Entries that a fork shares stay with its parent.
    """
    with conversation.log.datastore.reading() as connection:
        stream = conversation_rows.find(connection, conversation.name) or 0
        shared = conversation_rows.lineage(connection, stream, conversation.position)[-1].after
    own = conversation.position - shared
    return own, counted(own, "entry", "entries") + (" of its own" if shared else "")


@command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@takes_db
def backup_command(db: Path, file: Path) -> CommandResult:
    """Copy the whole database into a file. Others may go on writing to it."""
    log = open_log(db)
    if file.exists():
        raise click.UsageError(f"{file} exists; a backup overwrites nothing")
    log.backup(file)
    return done(f"{db} is backed up as {file}", db=str(db), file=str(file), bytes=file.stat().st_size)


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@takes_db
def restore_command(db: Path, file: Path) -> CommandResult:
    """Put a backup in the place of the database. What is there is moved aside.

    The backup is verified first. Nothing is deleted: the files that were there are named. Refused while any
    process has the database open.
    """
    from stenolog.adapters.verify.restore import restore

    done = restore(there(file), db)

    def draw() -> Iterator[Piece]:
        what = f"{counted(done.conversations, 'conversation')}, {counted(done.entries, 'entry', 'entries')}"
        yield line(("✓ ", "green"), f"{db} is restored from {file}: {what}")
        for moved in done.moved:
            yield f"· moved aside: {moved}"  # no line of a screen's width: nothing of a path may be cut

    return CommandResult({**done._asdict(), "file": str(file)}, draw)
