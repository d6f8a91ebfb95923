"""Changes to a log (`fork` to `restore`), and `outputs`, `output`, `gc`, `schema` and `completion`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from pydantic import TypeAdapter

from stenolog.domain.codec import REGISTRY
from stenolog.domain.errors import BlobNotFoundError

from .framework import command
from .lines import CommandResult, Piece, counted, line, paragraph
from .lookup import find_conversation, open_log
from .options import OneOf, names, takes_conversation, takes_db
from .position_argument import resolve
from .terminal import there

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation
    from stenolog.adapters.queries.outputs import Excerpt, Output, Outputs


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
    type=OneOf(["close", "keep"]),
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
@click.option("--reason", default="", help="Why; it stands in the receipt, which stays in the log.")
@click.option("--by", metavar="NAME", help="Who; else the system's user.")
@target_argument
@click.argument("positions", metavar="POSITION...", nargs=-1, required=True)
@takes_db
def erase_command(
    db: Path, target: str, positions: Sequence[str], yes: bool, reason: str, by: str | None
) -> CommandResult:
    """Erase what entries say, for good. A receipt says who and why.

    The place and the digest of each stay, so the log is still provable. The words are overwritten in every
    file of the log. What quotes them elsewhere, `stenolog trace-value` finds.
    """
    conversation = find_conversation(open_log(db), target)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("to erase without being asked, say --yes")
    chosen = [resolve(conversation, position) for position in positions]
    which = ("entry " if len(chosen) == 1 else "entries ") + ", ".join(map(str, chosen))
    if not yes:
        click.confirm(f"Erase what {which} of {conversation.name!r} says, for good?", abort=True, err=True)
    erased = conversation.erase(*chosen, reason=reason, by=by)

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{conversation.name}: erased: {which}")
        for name, receipt in erased.receipts.items():
            yield f"· receipt: {name} at {receipt}"
        if not erased.is_complete:
            words = f"others are reading: the words may still stand in {db}-wal; `stenolog gc` goes on"
            yield line(("! ", "yellow"), words)

    return CommandResult({"conversation": conversation.name, **erased._asdict()}, draw)


def _entry_count(conversation: Conversation) -> tuple[int, str]:
    """Return the number of a conversation's own entries, and that in words.

    Entries that a fork shares stay with its parent.
    """
    shared = conversation.log.recorder.lineage(conversation.stream)[-1].after
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
    from stenolog.adapters.verify.integrity import restore

    done = restore(there(file), db)

    def draw() -> Iterator[Piece]:
        what = f"{counted(done.conversations, 'conversation')}, {counted(done.entries, 'entry', 'entries')}"
        yield line(("✓ ", "green"), f"{db} is restored from {file}: {what}")
        for moved in done.moved:
            yield f"· moved aside: {moved}"  # no line of a screen's width: nothing of a path may be cut

    return CommandResult({**done._asdict(), "file": str(file)}, draw)


@command("gc")
@takes_db
def gc_command(db: Path) -> CommandResult:
    """Remove the blobs that no entry names. The write-ahead log is emptied.

    A blob that a running process has put for an entry still to come stays. One whose sha256 is kept outside
    of the log alone is removed.
    """
    done = open_log(db).collect()

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{counted(done.blobs, 'blob')} removed, {done.bytes:,} bytes")
        if done.kept:
            kept = counted(done.kept, "blob")
            yield line(("· ", "cyan"), f"{kept} kept for entries that running processes may still append")
        if not done.folded:
            yield line(("! ", "yellow"), f"others are reading: what was deleted may still stand in {db}-wal")

    return CommandResult(done, draw)


DIRECTORY = click.Path(file_okay=False, path_type=Path)


@command("outputs")
@click.option("--materialise", "directory", type=DIRECTORY, help="Write them as read-only files under DIR.")
@click.option("--mcp", is_flag=True, help="Be an MCP server on stdin and stdout, with the tool read_output.")
@takes_conversation
def outputs_command(db: Path, target: str, directory: Path | None, mcp: bool) -> CommandResult | None:
    """List what tools gave back, by alias; or write or serve it. Artifacts too."""
    conversation = find_conversation(open_log(db), target)
    if mcp:
        from stenolog.adapters.tools.mcp.contents import serve_outputs

        serve_outputs(conversation)
        return None
    written = [] if directory is None else conversation.outputs.write_files(directory)
    rows = [_row(output, _size(conversation.outputs, output)) for output in conversation.outputs.listed()]
    data = {
        "conversation": conversation.name,
        "outputs": rows,
        "directory": None if directory is None else str(directory),
        "written": written,
    }

    def draw() -> Iterable[Piece]:
        from .layout import table

        columns = (">ENTRY", ">BYTES", "TOOL", "ALIAS")
        yield table(columns, [_cells(row) for row in rows])
        if directory is not None:
            yield line(("✓ ", "green"), f"{len(written)} of {len(rows)} written under {directory}")

    return CommandResult(data, draw)


def _size(outputs: Outputs, output: Output) -> int | None:
    """Return the output's size in bytes; None if its blob is gone."""
    try:
        return len(outputs.content(output))
    except BlobNotFoundError:
        return None


def _row(output: Output, size: int | None) -> dict[str, Any]:
    return {"alias": output.alias, "position": output.position, "name": output.name, "bytes": size}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    size = "gone" if row["bytes"] is None else f"{row['bytes']:,}"
    return f"{row['position']:,}", size, row["name"], row["alias"]


@command("output")
@click.option("--offset", type=click.IntRange(min=0), default=0, show_default=True, help="In characters.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many characters; all, unless given.")
@click.argument("target", metavar="CONVERSATION", shell_complete=names)
@click.argument("alias")
@takes_db
def output_command(db: Path, target: str, alias: str, offset: int, limit: int | None) -> CommandResult:
    """Show a tool output, or an artifact, by its alias. Whole, or a piece of it."""
    conversation = find_conversation(open_log(db), target)
    read = conversation.outputs.read(alias, offset, limit)
    data = {"conversation": conversation.name, "alias": alias, **read._asdict(), "next": read.next}
    return CommandResult(data, lambda: _excerpt(read))


def _excerpt(read: Excerpt) -> Iterable[Piece]:
    yield paragraph(read.text)
    if read.next is not None:
        words = f"characters {read.offset:,} to {read.end:,} of {read.total:,}; go on with --offset"
        yield line((f"{words} {read.next}", "dim"))


SHELLS = {
    "bash": 'eval "$(stenolog completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(stenolog completion zsh)"   in ~/.zshrc',
    "fish": "stenolog completion fish | source   in ~/.config/fish/config.fish",
}


@command("schema")
@click.argument("name", type=OneOf([*REGISTRY.events, "envelope"]), required=False)
def schema_command(name: str | None) -> CommandResult:
    """Print a JSON Schema, or list them. Of an event as it is stored, or of what --json prints."""
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


@command("completion")
@click.argument("shell", type=OneOf([*SHELLS]))
def completion_command(shell: str) -> CommandResult:
    """Print what makes a shell complete a command line. Commands, options, names of conversations."""
    from click.shell_completion import get_completion_class

    from .app import app

    script = get_completion_class(shell)
    assert script is not None, shell
    source = script(app, {}, "stenolog", "_STENOLOG_COMPLETE").source()
    return CommandResult({"shell": shell, "script": source, "use": SHELLS[shell]}, lambda: [source])
