"""Command `hold`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.arguments.time import length, period
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line, when

if TYPE_CHECKING:
    from stenolog.adapters.conversation.holding import Hold


@command("hold", example="stenolog hold demo --reason 'case 12'")
@click.option("--all", "every", is_flag=True, help="Hold all conversations, later ones too.")
@click.option("--from", "since", metavar="TIME", help="Hold only entries since then.")
@click.option("--to", "until", metavar="TIME", help="Hold only entries until then.")
@click.option(
    "--younger-than", "age", metavar="TIME", help="Hold each entry until so long after its time: 180d."
)
@click.option("--reason", default="", help="Why; kept in the log.")
@click.option("--by", metavar="NAME", help="Who holds or releases. Default: the system's user.")
@click.option("--list", "listed", is_flag=True, help="Show all holds.")
@click.option("--release", "number", type=int, metavar="NUMBER", help="Release a hold.")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@takes_db
def hold_command(
    db: Database,
    target: str,
    every: bool,
    since: str | None,
    until: str | None,
    age: str | None,
    reason: str,
    by: str | None,
    listed: bool,
    number: int | None,
) -> CommandResult:
    """Forbid to erase or delete entries of a conversation.

    Forks are held too. `check log` covers holds and releases.
    """
    from stenolog.adapters.conversation import holding

    if [bool(target), every, listed, number is not None].count(True) != 1:
        raise click.UsageError("expected one of CONVERSATION, --all, --list and --release NUMBER")
    if (listed or number is not None) and (since or until or age):
        raise click.UsageError("--from, --to and --younger-than go with CONVERSATION or --all")
    log = open_log(db)
    if listed:
        found = holding.holds(log)
        return CommandResult(found, lambda: _drawn(found))
    if number is not None:
        made = holding.release(log, number, reason=reason, by=by)
        return CommandResult(made, lambda: [line(("✓ ", "green"), f"hold {number} is released")])
    if not reason.strip():
        raise click.UsageError("a hold needs --reason")
    first, last = period(since, until)
    made = holding.hold(
        log,
        None if every else find_conversation(log, target).name,
        since=first,
        until=last,
        younger_than=None if age is None else length(age, "--younger-than"),
        reason=reason,
        by=by,
    )
    words = f"{_what(made)}: under hold {made.number}"
    return CommandResult(made, lambda: [line(("✓ ", "green"), words)])


def _what(made: Hold) -> str:
    return "all conversations" if made.conversation is None else made.conversation


def _entries(made: Hold) -> str:
    if made.age is not None:
        return f"under {made.age}".removesuffix(", 0:00:00")
    limits = ((word, at) for word, at in (("from", made.since), ("to", made.until)) if at is not None)
    return " ".join(f"{word} {when(at)[:16]}" for word, at in limits) or "all"


def _drawn(found: list[Hold]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table

    if not found:
        yield line(("no hold", "dim"))
        return
    rows = [(str(one.number), _what(one), _entries(one), one.by, one.reason, _state(one)) for one in found]
    yield table((">HOLD", "CONVERSATION", "ENTRIES", "BY", "REASON", "STATE"), rows)


def _state(one: Hold) -> str:
    if one.released_at is None:
        return "in force"
    return f"released by {one.released_by}"
