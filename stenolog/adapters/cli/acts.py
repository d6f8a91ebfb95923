"""`fork`, `rename`, `archive`, `delete`, `erase`, `backup`, `restore`: what changes the log or copies it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from stenolog.adapters.stores import streams

from .answer import Answer
from .files import there
from .lines import Piece, line
from .positions import resolve
from .shell import command, found, names, opened, takes_db
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation

conversation = click.argument("conversation", shell_complete=names)


def done(words: str, **data: object) -> Answer:
    """What a command says that did what it was asked."""

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), words)

    return Answer(data, draw)


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
@conversation
@takes_db
def fork_command(
    db: Path,
    conversation: str,
    after: str | None,
    before: str | None,
    name: str | None,
    pending: Literal["close", "keep"],
) -> Answer:
    """Begin a new conversation that shares a beginning. No entry is copied."""
    if (after is None) == (before is None):
        raise click.UsageError("say where: --after POSITION or --before POSITION")
    talk = found(opened(db), conversation)
    position = resolve(talk, after, least=0) if after is not None else resolve(talk, str(before)) - 1
    fork = talk.fork(after=position, name=name, pending=pending)
    words = f"{fork.name} begins after {talk.name}@{position}, with which it shares {position} entries"
    return done(words, conversation=fork.name, fork_of=talk.name, after=position, head=fork.position)


@command("rename")
@conversation
@click.argument("new")
@takes_db
def rename_command(db: Path, conversation: str, new: str) -> Answer:
    """Give a conversation another name. Its digests stay what they are."""
    talk = found(opened(db), conversation)
    old = talk.name
    talk.rename(new)
    return done(f"{old} is now {new}", old=old, conversation=new)


@command("archive")
@click.option("--undo", is_flag=True, help="Bring it back.")
@conversation
@takes_db
def archive_command(db: Path, conversation: str, undo: bool) -> Answer:
    """Put a conversation away. `ls` no longer lists it, everything else still finds it."""
    talk = found(opened(db), conversation)
    if undo:
        talk.unarchive()
        return done(f"{talk.name} is back", conversation=talk.name, archived=False)
    talk.archive()
    return done(f"{talk.name} is archived", conversation=talk.name, archived=True)


@command("delete")
@click.option("--yes", is_flag=True, help="Do not ask.")
@conversation
@takes_db
def delete_command(db: Path, conversation: str, yes: bool) -> Answer:
    """Delete a conversation for good. One with living forks is not deleted."""
    log = opened(db)
    talk = found(log, conversation)
    if not conversation == talk.name:
        raise click.UsageError(f"to delete, write the whole name: {talk.name!r}")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to delete without being asked, say --yes")
    entries, words = _own(talk)
    if not yes:
        click.confirm(f"Delete {talk.name!r} and its {words} for good?", abort=True, err=True)
    talk.delete()
    return done(f"{talk.name} is deleted, with {words}", conversation=talk.name, entries=entries)


@command("erase")
@click.option("--yes", is_flag=True, help="Do not ask.")
@conversation
@click.argument("position")
@takes_db
def erase_command(db: Path, conversation: str, position: str, yes: bool) -> Answer:
    """Erase what one entry says, for good. Its place and its digest stay, so the log is still provable."""
    talk = found(opened(db), conversation)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to erase without being asked, say --yes")
    at = resolve(talk, position)
    if not yes:
        click.confirm(f"Erase what entry {at} of {talk.name!r} says, for good?", abort=True, err=True)
    talk.erase(at)
    return done(f"{talk.name}: entry {at} is erased", conversation=talk.name, position=at)


def _own(talk: Conversation) -> tuple[int, str]:
    """How many entries go with a conversation, and in words: what a fork shares stays with its parent."""
    with talk.log.datastore.reading() as connection:
        stream = streams.find(connection, talk.name) or 0
        shared = streams.lineage(connection, stream, talk.position)[-1].after
    own = talk.position - shared
    return own, counted(own, "entry", "entries") + (" of its own" if shared else "")


@command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@takes_db
def backup_command(db: Path, file: Path) -> Answer:
    """Copy the whole database into a file. Others may go on writing to it."""
    log = opened(db)
    if file.exists():
        raise click.UsageError(f"{file} exists; a backup overwrites nothing")
    log.backup(file)
    return done(f"{db} is backed up as {file}", db=str(db), file=str(file), bytes=file.stat().st_size)


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@takes_db
def restore_command(db: Path, file: Path) -> Answer:
    """Put a backup in the place of the database. What is there is moved aside.

    The backup is verified first. Nothing is deleted: the files that were there are named. Refused while any
    process has the database open.
    """
    from stenolog.adapters.restoring import restore

    done = restore(there(file), db)

    def draw() -> Iterator[Piece]:
        what = f"{counted(done.conversations, 'conversation')}, {counted(done.entries, 'entry', 'entries')}"
        yield line(("✓ ", "green"), f"{db} is restored from {file}: {what}")
        for moved in done.moved:
            yield f"· moved aside: {moved}"  # no line of a screen's width: nothing of a path may be cut

    return Answer({**done._asdict(), "file": str(file)}, draw)
