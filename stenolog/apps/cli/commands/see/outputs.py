"""Command `outputs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line, paragraph
from stenolog.apps.cli.terminal import width
from stenolog.domain.errors import BlobNotFoundError, InvalidEventError
from stenolog.projections.requests.pipeline.truncation import entry_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.adapters.conversation.queries.outputs import Excerpt, Output, Outputs
    from stenolog.apps.cli.draw.layout import Cell

BEGINS = 200
"""The bytes of an output that a list has of it."""
DIRECTORY = click.Path(file_okay=False, path_type=Path)
SHORTEST = 8
"""The characters of an entry's id that a short alias has, or more where two would be alike."""
TOOL = 12
"""The cells that the name of a tool keeps."""


@command("outputs", example="stenolog outputs demo @state/logs/tool-results/demo-4.json")
@click.option(
    "--materialise",
    "directory",
    metavar="DIR",
    type=DIRECTORY,
    help="Write them as read-only files under DIR.",
)
@click.option("--offset", metavar="N", type=click.IntRange(min=0), default=0, help="From this character on.")
@click.option("--length", metavar="N", type=click.IntRange(min=1), help="At most so many characters.")
@takes_conversation_and("[ALIAS]")
def outputs_command(
    db: Database,
    words: tuple[str, ...],
    directory: Path | None,
    offset: int,
    length: int | None,
) -> CommandResult:
    """List what tools returned, or show one by its alias.

    Artifacts too. An alias begins with @.
    """
    target, alias = _target_and_alias(words)
    conversation = find_conversation(open_log(db), target)
    if alias:
        if directory is not None:
            raise click.UsageError("--materialise is for all outputs: leave out the alias")
        alias = full_alias(conversation.outputs, alias)
        read = conversation.outputs.read(alias, offset, length)
        data = {"conversation": conversation.name, "alias": alias, **read._asdict(), "next": read.next}
        return CommandResult(data, lambda: _excerpt(read))
    if offset or length:
        raise click.UsageError("--offset and --length are for one output: name its alias")
    return _listed(conversation, directory)


def _target_and_alias(words: tuple[str, ...]) -> tuple[str, str]:
    if len(words) > 2:
        raise click.UsageError(f"expected [CONVERSATION] [ALIAS], found {len(words)} words")
    if len(words) == 1:
        return ("", words[0]) if words[0].startswith("@") else (words[0], "")
    return words if len(words) == 2 else ("", "")


def _listed(conversation: Conversation, directory: Path | None) -> CommandResult:
    written = [] if directory is None else conversation.outputs.write_files(directory)
    rows = [_row(output, _content(conversation.outputs, output)) for output in conversation.outputs.listed()]
    data = {
        "conversation": conversation.name,
        "outputs": rows,
        "directory": None if directory is None else str(directory),
        "written": written,
    }

    def draw() -> Iterable[Piece]:

        yield from outputs_drawn(rows)
        if directory is not None:
            yield line(("✓ ", "green"), f"{len(written)} of {len(rows)} written under {directory}")

    return CommandResult(data, draw)


def _content(outputs: Outputs, output: Output) -> bytes | None:
    try:
        return outputs.content(output)
    except BlobNotFoundError:
        return None


def _row(output: Output, content: bytes | None) -> dict[str, Any]:
    return {
        "alias": output.alias,
        "position": output.position,
        "name": output.name,
        "bytes": None if content is None else len(content),
        "begins": (content or b"")[:BEGINS].decode(errors="replace"),
    }


def _excerpt(read: Excerpt) -> Iterable[Piece]:
    yield paragraph(read.text)
    if read.next is not None:
        words = f"characters {read.offset:,} to {read.end:,} of {read.total:,}; go on with --offset"
        yield line((f"{words} {read.next}", "dim"))


def outputs_drawn(rows: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    """Draw the outputs: with short aliases and first words; in a pipe with whole aliases."""
    from stenolog.apps.cli.draw.layout import table

    if width() is None:
        yield table((">ENTRY", ">BYTES", "TOOL", "ALIAS"), [(*_cells(row), row["alias"]) for row in rows])
        return
    short = short_aliases([row["alias"] for row in rows])
    cells = [(*_cells(row), (short[row["alias"]], "bold"), (row["begins"], "dim")) for row in rows]
    yield table((">ENTRY", ">BYTES", "~TOOL", "ALIAS", "*TEXT"), cells, names=TOOL)


def _cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    size = "gone" if row["bytes"] is None else f"{row['bytes']:,}"
    return f"{row['position']:,}", size, row["name"]


def short_aliases(aliases: Sequence[str]) -> dict[str, str]:
    """Return short aliases: `@` and the shortest unique beginning of the entry's id.

    One without an entry keeps its alias.
    """
    ids = {alias: entry_of(alias) for alias in aliases}
    known = {id for id in ids.values() if id}
    length = next(long for long in count(SHORTEST) if len({id[:long] for id in known}) == len(known))
    return {alias: f"@{id[:length]}" if id else alias for alias, id in ids.items()}


def full_alias(outputs: Outputs, written: str) -> str:
    """Return the alias that a short or whole one means.

    Raises `InvalidEventError` for an ambiguous one.
    """
    if "/" in written or not written.startswith("@"):
        return written
    found = [alias for alias in outputs if (id := entry_of(alias)) and id.startswith(written[1:])]
    if len(found) > 1:
        raise InvalidEventError(
            f"{written} is the beginning of {len(found)} aliases: {', '.join(found[:3])}…"
        )
    return found[0] if found else written
