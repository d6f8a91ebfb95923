"""Command `db salvage`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import click

from stenolog.apps.cli.arguments.database import (
    COPIED,
    DATABASE,
    Database,
    file_of,
)
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line
from stenolog.apps.cli.terminal import there

if TYPE_CHECKING:
    from stenolog.adapters.conversation.verifying.salvage import Salvaged, SalvagedConversation
SALVAGED = "pg_restore brings back a dump of it; `stenolog export` writes what can be read"


@command("salvage", example="stenolog db salvage damaged.db new.db")
@click.argument("file", type=DATABASE)
@click.argument("new", type=DATABASE, required=False)
@click.option("-o", "--output", type=DATABASE, metavar="NEW", help="The same as NEW.")
def db_salvage_command(file: Database, new: Database | None, output: Database | None) -> CommandResult:
    """Write what is intact in a damaged database into a new one.

    A mark replaces each lost entry. Exits with 1 if anything is lost.
    """
    from stenolog.adapters.conversation.verifying.salvage import salvage

    if (new is None) == (output is None):
        raise click.UsageError(f"say once where the new database goes: stenolog db salvage {file} NEW")
    damaged, target = file_of(file, SALVAGED), file_of(cast("Database", new or output), COPIED)
    done = salvage(there(damaged), target)
    data = {**done._asdict(), "file": str(file), "is_whole": done.is_whole}
    return CommandResult(
        data, lambda: _salvaged(done), failed=not done.is_whole, diagnostics=tuple(_lost(done))
    )


def _salvaged(done: Salvaged) -> Iterator[Piece]:
    for one in done.conversations:
        yield line(("! ", "yellow") if one.lost else ("✓ ", "green"), f"{one.name}: {_in_words(one)}")
    mark = ("✓ ", "green") if done.is_whole else ("! ", "yellow")
    yield line(mark, f"{counted(done.blobs, 'blob')}; the new log is {done.path}")


def _in_words(one: SalvagedConversation) -> str:
    words = f"{counted(one.entries, 'entry', 'entries')} kept"
    if one.lost:
        words += f", {len(one.lost)} lost"
    if one.same_until < one.position:
        words += f"; digests are the same up to {one.same_until}, and new behind it"
    return words


def _lost(done: Salvaged) -> Iterator[Diagnostic]:
    for one in done.conversations:
        for lost in one.lost:
            message = f"{one.name!r} at {lost.position}: lost: {lost.reason}"
            yield Diagnostic("error", "lost", message, one.name, lost.position)
        for position in one.unproved:
            message = f"{one.name!r} at {position}: kept, and not provable: the digest before it is lost"
            yield Diagnostic("warning", "unproved", message, one.name, position)
    for sha in done.lost_blobs:
        yield Diagnostic("error", "blob", f"blob {sha}: damaged or missing")
    for note in done.notes:
        yield Diagnostic("error", "note", note)
