"""Command `certify`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from stenolog.apps.cli.arguments.agent import takes_agent
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.arguments.time import now
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, when
from stenolog.apps.cli.terminal import whole_or_not_at_all
from stenolog.apps.views.certificates import Certified, asked_of, certificate_data, certified, reasons
from stenolog.apps.views.lanes import only_agent


@command("certify", example="stenolog certify demo --agent reviewer --never 3")
@takes_agent
@click.option(
    "--never",
    multiple=True,
    required=True,
    metavar="ENTRIES|TEXT",
    help="Entries, such as 3 or 5-7; or a text, if need be as text:42. Repeatable.",
)
@click.option("--from", "first", default="", metavar="HEAD", help="After this entry or digest. Default: 0.")
@click.option(
    "--to", "last", default="", metavar="HEAD", help="Up to this entry or digest. Default: the last."
)
@click.option("--all", "everywhere", is_flag=True, help="In all conversations of the log, not only in forks.")
@click.option("--strict", is_flag=True, help="Fail if an answer has no receipt.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file."
)
@takes_conversation
def certify_command(
    db: Database,
    target: str,
    agent: str | None,
    never: tuple[str, ...],
    first: str,
    last: str,
    everywhere: bool,
    strict: bool,
    output: Path | None,
) -> CommandResult:
    """Certify that an agent was never sent an entry or a text.

    Nor an entry that quotes it. All its requests are built again and searched, also those that were
    never answered, here and in forks. If one shows it, nothing is written.
    """
    if everywhere and (first or last):
        raise click.UsageError("--all is of whole conversations: leave out --from and --to")
    conversation = find_conversation(open_log(db), target)
    named = agent or only_agent(conversation, conversation.position)
    asked = asked_of(conversation, never, first, last, partial(resolve, conversation))
    found = certified(conversation, named, asked, strict=strict, everywhere=everywhere)
    data = certificate_data(found)
    if output is not None and found.is_given:
        with whole_or_not_at_all(output) as file:
            json.dump({**data, "time": when(now())}, file, ensure_ascii=False, indent=2)
            file.write("\n")

    def draw() -> Iterable[Piece]:
        return _drawn(found, data)

    return CommandResult(data, draw, failed=not found.is_given)


def _drawn(found: Certified, data: dict[str, Any]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped
    from stenolog.apps.cli.draw.views import spans

    yield wrapped(("✓ ", "green") if found.is_given else ("✗ ", "red"), data["statement"], hang=2)
    rows = [
        (part.conversation, one.lane, str(one.view), str(one.position or ""), why)
        for part in found.parts
        for one, why in reasons(part.found)
    ]
    if rows:
        yield table(("~CONVERSATION", "~AGENT", ">REQUEST AT", ">ANSWER", "*WHY"), rows)
    for part in found.parts:
        one = part.found
        if part is not found.parts[0] and not (one.requests or one.possible or one.quoting):
            continue
        built = (
            f"{counted(len(one.requests), 'request')} built again, {one.possible:,} more could have been sent"
        )
        quoting = f"; quoted by {spans(one.quoting)}" if one.quoting else ""
        yield wrapped(("· ", "cyan"), f"{part.conversation}: {built}{quoting}", hang=2)
    if found.is_given:
        yield from (wrapped(("! ", "yellow"), limit, hang=2) for limit in data["limits"])
