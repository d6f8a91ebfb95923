"""`claims`: which process is at which effect, and taking one over from a process that hangs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .framework import command, find_conversation, names, open_log, takes_db
from .lines import Piece, line
from .result import CommandResult, when
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.maintenance.open_claims import OpenClaim

NEXT = "the next run settles them: safe and keyed calls run again, the outcome of others is unknown"


@command("claims")
@click.option(
    "--take", metavar="CONVERSATION", shell_complete=names, help="Take over the claims of a conversation."
)
@click.option("--owner", help="With --take, only those of this process id, or of this runner.")
@takes_db
def claims_command(db: Path, take: str | None, owner: str | None) -> CommandResult:
    """List the effects under way, with their processes. A dead process's are settled by the next run.

    --take is for a process that hangs: whatever it does later with these effects is refused. End the process
    first if you can: a tool that it is running may still do something outside.
    """
    if owner is not None and take is None:
        raise click.UsageError("--owner goes with --take CONVERSATION")
    log = open_log(db)
    if take is None:
        shown = log.claims()
        return CommandResult(shown, lambda: _drawn(shown))
    conversation = find_conversation(log, take)
    taken = log.take_claims(conversation.name, owner)
    if not taken:
        whose = f" of {owner}" if owner else ""
        raise click.UsageError(f"{conversation.name}: no effect{whose} is under way")

    def draw() -> Iterable[Piece]:
        yield line(
            ("✓ ", "green"), f"{counted(len(taken), 'claim')} of {conversation.name} taken over; {NEXT}"
        )
        for pid, host in sorted({(claim.pid, claim.host) for claim in taken if claim.alive}):
            yield line(("! ", "yellow"), f"process {pid} on {host} still runs")

    return CommandResult(taken, draw)


def _drawn(claims: list[OpenClaim]) -> Iterable[Piece]:
    from .layout import table

    if not claims:
        yield line(("no effect is under way", "dim"))
        return
    yield table(
        ("CONVERSATION", "LANE", "EFFECT", "SINCE", ">PROCESS", "HOST", "ALIVE"), [_row(c) for c in claims]
    )


def _row(claim: OpenClaim) -> tuple[str | tuple[str, str], ...]:
    alive = ("yes", "green") if claim.alive else ("no", "red")
    since = when(claim.since)[:19].replace("T", " ")
    process = (str(claim.pid), claim.host) if claim.pid else ("-", "-")
    return (claim.conversation, claim.lane, claim.effect, since, *process, alive)
