"""`outputs`, `output`: the whole of what tools gave back, by the aliases that requests show."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.domain.errors import BlobNotFoundError

from .framework import command, find_conversation, names, open_log, takes_conversation, takes_db
from .lines import Piece, line, paragraph
from .result import CommandResult

if TYPE_CHECKING:
    from stenolog.adapters.queries.outputs import Excerpt, Output, Outputs

DIRECTORY = click.Path(file_okay=False, path_type=Path)


@command("outputs")
@click.option("--materialise", "directory", type=DIRECTORY, help="Write them as read-only files under DIR.")
@click.option("--mcp", is_flag=True, help="Be an MCP server on stdin and stdout, with the tool read_output.")
@takes_conversation
def outputs_command(db: Path, target: str, directory: Path | None, mcp: bool) -> CommandResult | None:
    """List what tools gave back, by alias; or write or serve it. Artifacts too."""
    conversation = find_conversation(open_log(db), target)
    if mcp:
        from stenolog.adapters.tools.mcp.serving import serve_outputs

        serve_outputs(conversation)
        return None
    written = [] if directory is None else conversation.outputs.materialise(directory)
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
