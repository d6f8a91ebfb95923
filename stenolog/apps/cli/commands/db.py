"""`db`: where the database is; backup, restore, salvage, unused blobs, and the schemas of what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from pydantic import TypeAdapter

from stenolog.adapters.store.home import make_home
from stenolog.apps.cli.arguments.database import Database, DatabaseParameter, ServerDatabase, file_of
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import OneOf, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, done, line, paragraph
from stenolog.apps.cli.terminal import there
from stenolog.domain.codec import REGISTRY

if TYPE_CHECKING:
    from stenolog.adapters.conversation.verifying.salvage import Salvaged, SalvagedConversation

DATABASE = DatabaseParameter(path_type=Path)
COPIED = "`stenolog export` and `stenolog import` copy conversations"
RESTORED = "pg_restore brings back a dump of it; `stenolog import` takes in the conversations of a backup"
SALVAGED = "pg_restore brings back a dump of it; `stenolog export` writes what can be read"
"""Hints for commands that work on files alone, when the database is on a server."""


@command("path", example="stenolog db path")
@takes_db
def db_path_command(db: Database) -> CommandResult:
    """Print the path of the database that commands use."""
    if isinstance(db, ServerDatabase):
        # Whether it has a log is not asked: the server may be away.
        return CommandResult({"path": str(db), "exists": None}, lambda: [str(db)])
    return CommandResult({"path": str(db.absolute()), "exists": db.exists()}, lambda: [str(db.absolute())])


@command("backup", example="stenolog db backup copy.db")
@click.argument("file", type=DATABASE)
@takes_db
def db_backup_command(db: Database, file: Database) -> CommandResult:
    """Copy the whole database into a file.

    Others may go on writing to it. Of a database on a server it makes a file, too.
    """
    copy = file_of(file, COPIED)
    log = open_log(db)
    if copy.exists():
        raise click.UsageError(f"{copy} exists; a backup overwrites nothing")
    log.backup(copy)
    return done(f"{db} is backed up as {copy}", db=str(db), file=str(copy), bytes=copy.stat().st_size)


@command("restore", example="stenolog db restore copy.db")
@click.argument("file", type=DATABASE)
@takes_db
def db_restore_command(db: Database, file: Database) -> CommandResult:
    """Put a backup in the place of the database.

    The backup is verified first. The files that were there are moved aside and named; checkpoints and the
    search index are deleted. Refused while any process has the database open.
    """
    from stenolog.adapters.conversation.verifying.integrity import restore

    place = file_of(db, RESTORED)
    backup = there(file_of(file, RESTORED))
    make_home(place)
    done = restore(backup, place)

    def draw() -> Iterator[Piece]:
        what = f"{counted(done.conversations, 'conversation')}, {counted(done.entries, 'entry', 'entries')}"
        yield line(("✓ ", "green"), f"{db} is restored from {file}: {what}")
        for moved in done.moved:
            # No line of a screen's width: nothing of a path may be cut.
            yield f"· moved aside: {moved}, {Path(moved).stat().st_size:,} bytes"
        if erased := _may_hold_erased(done.moved, backup):
            yield paragraph(f"! {erased}", "yellow")

    return CommandResult({**done._asdict(), "file": str(file)}, draw)


def _may_hold_erased(moved: Iterable[str], backup: Path) -> str:
    """Say which files may hold words that were erased since the backup; empty where none was moved aside."""
    files = [*moved, str(backup)]
    return f"{' and '.join(files)} may still hold erased words" if len(files) > 1 else ""


@command("salvage", example="stenolog db salvage damaged.db new.db")
@click.argument("file", type=DATABASE)
@click.argument("new", type=DATABASE, required=False)
@click.option("-o", "--output", type=DATABASE, metavar="NEW", help="The same as NEW.")
def db_salvage_command(file: Database, new: Database | None, output: Database | None) -> CommandResult:
    """Write what is intact in a damaged database into a new one.

    The damaged one is only read. Each entry that is lost is named, and a mark stands in its place. The
    exit code is 1 if anything is lost.
    """
    from stenolog.adapters.conversation.verifying.salvage import salvage

    if (new is None) == (output is None):
        raise click.UsageError(f"say once where the new database goes: stenolog db salvage {file} NEW")
    damaged, made = file_of(file, SALVAGED), file_of(cast("Database", new or output), COPIED)
    done = salvage(there(damaged), made)
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


@command("gc", example="stenolog db gc")
@takes_db
def db_gc_command(db: Database) -> CommandResult:
    """Remove the blobs that no entry names.

    And empty the write-ahead log.

    A blob that a running process has put for an entry still to come stays. One whose sha256 is kept outside
    of the log alone is removed.
    """
    done = open_log(db).collect()

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{counted(done.blobs, 'blob')} removed, {done.bytes:,} bytes")
        if done.kept:
            kept = counted(done.kept, "blob")
            yield line(("· ", "cyan"), f"{kept} kept for entries that running processes may still append")
        if not done.is_complete:
            yield line(("! ", "yellow"), f"others are reading: what was deleted may still stand in {db}-wal")

    return CommandResult(done, draw)


@command("schema", example="stenolog db schema envelope")
@click.argument("name", type=OneOf([*REGISTRY.events, "envelope"]), required=False)
def db_schema_command(name: str | None) -> CommandResult:
    """Print a JSON Schema, or list them.

    Of an event as it is stored, or of what --json prints.
    """
    if name is None:
        known = {topic: _first_line(cls) for topic, cls in REGISTRY.events.items()}
        known["envelope"] = "What every command prints with --json."
        return CommandResult(known, lambda: _listed(known))
    schema = envelope_schema() if name == "envelope" else TypeAdapter(REGISTRY.events[name]).json_schema()
    return CommandResult(schema, lambda: [json.dumps(schema, indent=2, ensure_ascii=False)])


def envelope_schema() -> dict[str, Any]:
    """Return the JSON Schema of the envelope, as it is checked in."""
    text = files(__package__).joinpath("envelope.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _listed(known: dict[str, str]) -> Iterator[Piece]:
    for name, words in known.items():
        yield line((f"{name:<20}  ", "bold"), words)
