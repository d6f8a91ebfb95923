"""`run`: a team from a file works on a conversation, from wherever the log stands."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .framework import command, open_log, takes_db
from .result import CommandResult
from .terminal import say

if TYPE_CHECKING:
    from .run_session import RunSession

FILE = click.Path(path_type=Path, dir_okay=False)


@command("run")
@click.argument("file", type=FILE)
@click.argument("message", required=False)
@click.option(
    "--conversation", default="", help="The conversation; else the one that the file names, or its own name."
)
@click.option("--to", multiple=True, help="Whom the message is for; else the turn rule says. Repeatable.")
@click.option("--yes", is_flag=True, help="Approve every call that a person has to approve.")
@click.option("--retry", is_flag=True, help="Have those go on that have failed.")
@takes_db
def run_command(
    db: Path, file: Path, message: str | None, conversation: str, to: tuple[str, ...], yes: bool, retry: bool
) -> CommandResult:
    """Run a team that a file describes. Without a message it goes on from where the log stands.

    Exits with 0 when every lane waits for a person or has finished, with 1 where one has failed. Ctrl-C stops
    the run where it stands. With --json an envelope for each entry, and a last one that says where it stands.
    """
    return worked(db, file, message, conversation, to, yes=yes, retry=retry)


def worked(
    db: Path,
    file: Path,
    message: str | None,
    conversation: str,
    to: tuple[str, ...],
    *,
    yes: bool,
    retry: bool = False,
) -> CommandResult:
    """Have the team of a file work, and say where it stands then."""
    from stenolog.adapters.team_file import load

    from .chat_status import Hints
    from .run_session import open_session

    described = load(file)
    chosen = open_log(db, create=True)[conversation or described.conversation]
    hints = Hints(
        "--yes approves it",
        "the next run asks again, and --yes approves it",
        "it goes on",
        "--retry",
        "another policy for it, or a new conversation by --conversation",
    )
    with open_session(chosen, described.team, hints, yes=yes, cancels=False, leave=True) as at:
        at.entitle(described.title)
        try:
            _run(at, message, to, retry)
        except KeyboardInterrupt:
            with suppress(OSError):  # its terminal may be gone
                say(f"stopped; `stenolog run {file}` goes on from here")
            raise
        return at.outcome()


def _run(at: RunSession, message: str | None, to: tuple[str, ...], retry: bool) -> None:
    from .chat_status import at_work, failed

    if retry and failed(at.conversation.state(), at.team.agents):
        at.work.do(at.team.resume(at.conversation))
    before = at.conversation.position
    if doing := at_work(at.conversation.state(), at.team.agents):
        say(f"going on from {before}: {doing}")
    at.go(message, to)
    if at.conversation.position == before:
        say("nothing to do: " + ("; ".join(at.status()) or "everybody waits for a message"))
