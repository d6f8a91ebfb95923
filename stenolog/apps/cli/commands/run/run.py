"""Command `run`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.approver import takes_approver
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import SUMMARY_OVER, takes_db, typed
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult
from stenolog.apps.cli.terminal import PLAIN_FILE, say

if TYPE_CHECKING:
    from stenolog.apps.cli.chat.run import RunSession


@command("run", example="stenolog run team.toml 'Which test fails?'")
@click.argument("file", type=PLAIN_FILE)
@click.argument("message", required=False)
@click.option("--conversation", metavar="NAME", default="", help="Default: that of the file.")
@click.option("--to", metavar="NAME", multiple=True, help="Whom the message is for; repeatable.")
@click.option("--yes", is_flag=True, help="Approve every call.")
@takes_approver
@click.option("--retry", is_flag=True, help="Resume failed agents.")
@click.option("--paranoid", is_flag=True, help="Build each request twice, and compare.")
@click.option("--summary-over", type=click.IntRange(1), metavar="TOKENS", help=SUMMARY_OVER)
@click.option("--record", type=PLAIN_FILE, help="Record into a new database, for `retry`.")
@takes_db
def run_command(
    db: Database,
    file: Path,
    message: str | None,
    conversation: str,
    to: tuple[str, ...],
    yes: bool,
    identity: str,
    sign: str | None,
    retry: bool,
    paranoid: bool,
    summary_over: int | None,
    record: Path | None,
) -> CommandResult:
    """Run a team from a file.

    Without MESSAGE it continues. Exits with 0 if every agent waits or has finished, 1 if one has failed. With
    --json an envelope for each entry, and a last one.
    """
    if record is not None and record.exists():
        raise click.UsageError(f"{record} exists; a recording overwrites nothing")
    from stenolog.adapters.engine.team_file import load
    from stenolog.apps.cli.chat.run import open_session, summary_of
    from stenolog.apps.cli.chat.status import Hints

    described = load(file, summary=summary_of(summary_over))
    if paranoid:
        described.team.options = replace(described.team.options, paranoid=True)
    chosen = open_log(record or db, create=True)[conversation or described.conversation]
    hints = Hints(
        "--yes approves it",
        "the next run asks again, and --yes approves it",
        "it goes on",
        "--retry",
        "another policy for it, or a new conversation by --conversation",
    )
    again = typed(record or db, "run", str(file), *(("--conversation", conversation) if conversation else ()))
    with open_session(chosen, described.team, hints, yes=yes, cancels=False, leave=True) as at:
        at.entitle(described.title)
        try:
            _run(at, message, to, retry, again)
        except KeyboardInterrupt:
            with suppress(OSError):  # its terminal may be gone
                say(f"stopped; `{again}` goes on from here")
            raise
        answer = at.outcome()
    if record is not None:
        say(
            f"recorded; `stenolog retry --db {record}` builds its requests again, "
            f"with --team {file} as it is then"
        )
    return answer


def _run(at: RunSession, message: str | None, to: tuple[str, ...], retry: bool, again: str) -> None:
    from stenolog.apps.cli.chat.status import at_work, failed
    from stenolog.domain.events import ModeSwitch

    if retry and failed(at.conversation.state(), at.team.agents):
        at.work.do(at.team.resume(at.conversation))
    before = at.conversation.position
    if doing := at_work(at.conversation.state(), at.team.agents):
        say(f"going on from {before}: {doing}")
    at.go(message, to)
    if all(isinstance(entry.event, ModeSwitch) for entry in at.conversation.entries(after=before)):
        idle = f"everybody waits for a message; to say something: {again} MESSAGE"
        say("nothing is due: " + ("; ".join(at.status()) or idle))
