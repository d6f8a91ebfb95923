"""`record`, `rerun`: a run into a file of its own, and the same run again, without a model or a tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .framework import command, find_conversation, names, open_log, takes_db
from .lines import Piece, line
from .result import CommandResult
from .run_commands import FILE, worked
from .terminal import say
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation
    from stenolog.projections.analysis.rerun import Rerun, Team


@command("record")
@click.argument("file", type=FILE)
@click.argument("message")
@click.option("--out", type=FILE, required=True, help="The database of the recording; it must not exist.")
@click.option("--to", multiple=True, help="Whom the message is for; else the turn rule says. Repeatable.")
@click.option("--yes", is_flag=True, help="Approve every call that a person has to approve.")
def record_command(file: Path, message: str, out: Path, to: tuple[str, ...], yes: bool) -> CommandResult:
    """Run a team into a new database, to be run again by `rerun`."""
    if out.exists():
        raise click.UsageError(f"{out} exists; a recording overwrites nothing")
    answer = worked(out, file, message, "", to, yes=yes)
    say(f"recorded; `stenolog rerun --db {out}` runs it again, with --team {file} as the file is then")
    return answer


@command("rerun")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@click.option("--team", type=FILE, help="Under the agents of this file, as it is now; else as recorded.")
@takes_db
def rerun_command(db: Path, target: str, team: Path | None) -> CommandResult:
    """Run a recorded conversation again, from what was recorded. No model is called, no tool runs.

    Exit 1 at the first request that is not the one that was sent.
    """
    from stenolog.adapters.queries.token_counters import COUNTERS
    from stenolog.projections.analysis.rerun import Here, rerun

    conversation = find_conversation(open_log(db), target)
    now = _now(conversation, team) if team else None
    told = rerun(conversation.entries(), now, Here(blobs=conversation.log.blobs, counters=COUNTERS))
    data: dict[str, Any] = {"conversation": conversation.name, **told._asdict()}
    return CommandResult(
        data, lambda: _drawn(conversation, told, now is not None), failed=told.divergence is not None
    )


def _now(conversation: Conversation, file: Path) -> Team:
    """The team of a file. What comes from MCP servers is as it was recorded: none is started."""
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


def _drawn(conversation: Conversation, told: Rerun, under_team: bool) -> Iterator[Piece]:
    from stenolog.projections.analysis.rerun import NOT_COMPARED

    from .layout import legend, wrapped

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
