"""`salvage`, `trace-value`: what is intact in a damaged log, and where a value has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .framework import command
from .lines import CommandResult, Diagnostic, Piece, counted, line
from .lookup import open_log
from .options import takes_db
from .terminal import there

if TYPE_CHECKING:
    from stenolog.adapters.verify.salvage import Salvaged, SalvagedConversation
    from stenolog.adapters.verify.trace import Reached


@command("salvage")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="NEW", help="The new log."
)
def salvage_command(file: Path, output: Path) -> CommandResult:
    """Write what is intact in a damaged database into a new one.

    The damaged one is only read. Each entry that is lost is named, and a mark stands in its place. The
    exit code is 1 if anything is lost.
    """
    from stenolog.adapters.verify.salvage import salvage

    done = salvage(there(file), output)
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


@command("trace-value")
@click.argument("text")
@takes_db
def trace_value_command(db: Path, text: str) -> CommandResult:
    """Find every entry, request and agent that a text reached.

    Blobs, drafts and tables too. Requests are built again from their receipts. A value that was encoded, or
    said in other words, is not found.
    """
    from stenolog.adapters.verify.trace import trace_value

    found = trace_value(open_log(db), text)
    data = {"reached": found.reached, "agents": found.agents, "providers": found.providers}

    def draw() -> Iterator[Piece]:
        from .layout import table

        if not found.reached:
            yield line(("✓ ", "green"), "the text is nowhere in this log")
            return
        yield table((">AT", "WHAT", "CONVERSATION", "WHERE"), [_cells(one) for one in found.reached])
        if found.agents:
            agents, providers = ", ".join(found.agents), ", ".join(found.providers)
            yield line(("! ", "yellow"), f"sent to the models of {agents}, by {providers}")

    return CommandResult(data, draw)


def _cells(one: Reached) -> tuple[str, ...]:
    who = " ".join(filter(None, (one.agent, one.provider, one.model, one.where, one.reason)))
    return str(one.position or ""), one.what, one.conversation, who
