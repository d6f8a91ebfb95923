"""Command `claims`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line, when

if TYPE_CHECKING:
    from stenolog.adapters.store.claims import OpenClaim


AFTER_TAKING = "the next run settles them: safe and keyed calls run again, the outcome of others is unknown"


@command("claims", example="stenolog claims shop --take")
@click.option("--take", is_flag=True, help="Take them over.")
@click.option("--owner", metavar="NAME", help="Only this process's or runner's.")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@takes_db
def claims_command(db: Database, target: str, take: bool, owner: str | None) -> CommandResult:
    """List model calls and tools under way.

    The next run settles those of a dead process. --take is for a process that hangs; end it first if you can:
    its tools may still act.
    """
    if owner is not None and not take:
        raise click.UsageError("--owner goes with --take")
    if take and not target:
        raise click.UsageError("--take: name the conversation")
    log = open_log(db)
    if not take:
        whose = find_conversation(log, target).name if target else None
        shown = [claim for claim in log.claims() if whose in (None, claim.conversation)]
        return CommandResult(shown, lambda: _drawn_claims(shown))
    conversation = find_conversation(log, target)
    taken = log.take_claims(conversation.name, owner)
    if not taken:
        whose = f" of {owner}" if owner else ""
        raise click.UsageError(f"{conversation.name}: no model call or tool{whose} is under way")

    def draw() -> Iterable[Piece]:
        yield line(
            ("✓ ", "green"),
            f"{conversation.name}: {counted(len(taken), 'call')} taken over; {AFTER_TAKING}",
        )
        for pid, host in sorted({(claim.pid, claim.host) for claim in taken if claim.alive}):
            yield line(("! ", "yellow"), f"process {pid} on {host} still runs")

    return CommandResult(taken, draw)


def _drawn_claims(claims: list[OpenClaim]) -> Iterable[Piece]:
    from stenolog.apps.cli.draw.layout import table

    if not claims:
        yield line(("no model call or tool is under way", "dim"))
        return
    yield table(
        ("CONVERSATION", "AGENT", "WHAT", "SINCE", ">PROCESS", "HOST", "ALIVE"),
        [_claim_row(c) for c in claims],
    )


def _claim_row(claim: OpenClaim) -> tuple[str | tuple[str, str], ...]:
    alive = ("yes", "green") if claim.alive else ("no", "red")
    since = when(claim.since)[:19].replace("T", " ")
    process = (str(claim.pid), claim.host) if claim.pid else ("-", "-")
    return (claim.conversation, claim.lane, claim.effect, since, *process, alive)
