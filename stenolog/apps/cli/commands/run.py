"""`run`, `rerun`, `claims`: a team from a file at work, recorded, repeated or taken over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import SUMMARY_OVER, names, takes_db, typed
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line, when
from stenolog.apps.cli.terminal import say

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.adapters.store.claims import OpenClaim
    from stenolog.apps.cli.chat.run import RunSession
    from stenolog.projections.analysis.rerun import Rerun, Team


FILE = click.Path(path_type=Path, dir_okay=False)


@command("run", example="stenolog run team.toml 'Which test fails?'")
@click.argument("file", type=FILE)
@click.argument("message", required=False)
@click.option("--conversation", metavar="NAME", default="", help="The conversation; else that of the file.")
@click.option("--to", metavar="NAME", multiple=True, help="Agent that the message is for. Repeatable.")
@click.option("--yes", is_flag=True, help="Approve every call.")
@click.option("--retry", is_flag=True, help="Have those go on that have failed.")
@click.option("--paranoid", is_flag=True, help="Build each request again before it is sent.")
@click.option("--summary-over", type=click.IntRange(1), metavar="TOKENS", help=SUMMARY_OVER)
@click.option("--record", type=FILE, help="Into this new database, for `rerun`.")
@takes_db
def run_command(
    db: Database,
    file: Path,
    message: str | None,
    conversation: str,
    to: tuple[str, ...],
    yes: bool,
    retry: bool,
    paranoid: bool,
    summary_over: int | None,
    record: Path | None,
) -> CommandResult:
    """Run a team that a file describes.

    Without a message it goes on from where the log stands.
    Exits with 0 when every agent waits for a person or has finished, with 1 where one has failed. Ctrl-C
    stops the run where it stands. With --json an envelope for each entry, and a last one for the whole.
    """
    if record is not None and record.exists():
        raise click.UsageError(f"{record} exists; a recording overwrites nothing")
    from stenolog.adapters.team_file import load
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
        say(f"recorded; `stenolog rerun --db {record}` runs it again, with --team {file} as the file is then")
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


@command("rerun", example="stenolog rerun --db recorded.db --team team.toml")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@click.option("--team", type=FILE, help="Under the agents of this file, as it is now; else as recorded.")
@takes_db
def rerun_command(db: Database, target: str, team: Path | None) -> CommandResult:
    """Run a recorded conversation again, from what was recorded. No model is called, no tool runs.

    Exit 1 at the first request that is not the one that was sent.
    """
    from stenolog.adapters.conversation.queries.token_counters import COUNTERS
    from stenolog.projections.analysis.rerun import Here, rerun

    conversation = find_conversation(open_log(db), target)
    now = _now(conversation, team) if team else None
    told = rerun(conversation.entries(), now, Here(blobs=conversation.log.blobs, counters=COUNTERS))
    data: dict[str, Any] = {"conversation": conversation.name, **told._asdict()}
    return CommandResult(
        data, lambda: _drawn_rerun(conversation, told, now is not None), failed=told.divergence is not None
    )


def _now(conversation: Conversation, file: Path) -> Team:
    """Return the team of a file.

    The tools of MCP servers are as they were recorded: no server is started.
    """
    from stenolog.adapters.engine.replay import Replay
    from stenolog.adapters.team_file import load
    from stenolog.adapters.tools.base import BaseTool
    from stenolog.domain.turns import TurnRule
    from stenolog.projections.analysis.rerun import Team

    recording, team = Replay(conversation), load(file, keys=False).team
    made = {name: recording.agent(agent) for name, agent in team.agents.items()}
    cards = {
        name: agent.card([tool.spec for tool in agent.tools if isinstance(tool, BaseTool)])
        for name, agent in made.items()
    }
    return Team(cards, team.turns.turns if isinstance(team.turns, TurnRule) else team.turns)


def _drawn_rerun(conversation: Conversation, told: Rerun, under_team: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import legend, wrapped
    from stenolog.projections.analysis.rerun import NOT_COMPARED

    requests, divergence = counted(told.requests, "request"), told.divergence
    if divergence is None:
        yield line(("✓ ", "green"), f"{conversation.name}: {requests}, same digests")
        if under_team:
            yield wrapped((f"  not in a log, so not compared: {', '.join(NOT_COMPARED)}", "dim"), hang=2)
        return
    yield line(("✗ ", "red"), f"{conversation.name}: {requests} the same, then one differs")
    yield legend(
        {
            "agent": divergence.lane,
            "request": f"at {divergence.view}, answered at {divergence.position}",
            "pointer": divergence.pointer or "none: it is not in the body",
            "expected": divergence.expected,
            "found": divergence.found,
        }
    )


AFTER_TAKING = "the next run settles them: safe and keyed calls run again, the outcome of others is unknown"


@command("claims", example="stenolog claims shop --take")
@click.option("--take", is_flag=True, help="Take over the claims of the conversation.")
@click.option("--owner", metavar="NAME", help="With --take, only those of this process id or runner.")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@takes_db
def claims_command(db: Database, target: str, take: bool, owner: str | None) -> CommandResult:
    """List the effects under way, with their processes.

    A dead process's are settled by the next run. --take is for a process that hangs: whatever it does later
    with these effects is refused. End the process first if you can: a tool that it is running may still do
    something outside.
    """
    if owner is not None and not take:
        raise click.UsageError("--owner goes with --take")
    if take and not target:
        raise click.UsageError("to take claims over, name the conversation")
    log = open_log(db)
    if not take:
        whose = find_conversation(log, target).name if target else None
        shown = [claim for claim in log.claims() if whose in (None, claim.conversation)]
        return CommandResult(shown, lambda: _drawn_claims(shown))
    conversation = find_conversation(log, target)
    taken = log.take_claims(conversation.name, owner)
    if not taken:
        whose = f" of {owner}" if owner else ""
        raise click.UsageError(f"{conversation.name}: no effect{whose} is under way")

    def draw() -> Iterable[Piece]:
        yield line(
            ("✓ ", "green"),
            f"{counted(len(taken), 'claim')} of {conversation.name} taken over; {AFTER_TAKING}",
        )
        for pid, host in sorted({(claim.pid, claim.host) for claim in taken if claim.alive}):
            yield line(("! ", "yellow"), f"process {pid} on {host} still runs")

    return CommandResult(taken, draw)


def _drawn_claims(claims: list[OpenClaim]) -> Iterable[Piece]:
    from stenolog.apps.cli.draw.layout import table

    if not claims:
        yield line(("no effect is under way", "dim"))
        return
    yield table(
        ("CONVERSATION", "AGENT", "EFFECT", "SINCE", ">PROCESS", "HOST", "ALIVE"),
        [_claim_row(c) for c in claims],
    )


def _claim_row(claim: OpenClaim) -> tuple[str | tuple[str, str], ...]:
    alive = ("yes", "green") if claim.alive else ("no", "red")
    since = when(claim.since)[:19].replace("T", " ")
    process = (str(claim.pid), claim.host) if claim.pid else ("-", "-")
    return (claim.conversation, claim.lane, claim.effect, since, *process, alive)
