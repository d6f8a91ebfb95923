"""Command `rerun`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import PLAIN_FILE

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.projections.analysis.rerun import Rerun, Team


@command("rerun", example="stenolog rerun --db recorded.db --team team.toml")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@click.option("--team", type=PLAIN_FILE, help="With the agents of this file.")
@takes_db
def rerun_command(db: Database, target: str, team: Path | None) -> CommandResult:
    """Run a recorded conversation again, from the log only.

    No model is called, no tool runs. Exits with 1 at the first request that is not the one that was sent.
    """
    from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
    from stenolog.projections.analysis.rerun import Here, rerun

    conversation = find_conversation(open_log(db), target)
    now = _now(conversation, team) if team else None
    again = rerun(conversation.entries(), now, Here(blobs=conversation.log.blobs, counters=COUNTERS))
    data: dict[str, Any] = {"conversation": conversation.name, **again._asdict()}
    return CommandResult(
        data, lambda: _drawn_rerun(conversation, again, now is not None), failed=again.divergence is not None
    )


def _now(conversation: Conversation, file: Path) -> Team:
    """Return a file's team, with MCP tools as recorded: no server is started."""
    from stenolog.adapters.engine.replay import Replay
    from stenolog.adapters.engine.team_file import load
    from stenolog.adapters.tools.base import BaseTool
    from stenolog.domain.lanes.turns import TurnRule
    from stenolog.projections.analysis.rerun import Team

    recording, team = Replay(conversation), load(file, keys=False).team
    agents = {name: recording.agent(agent) for name, agent in team.agents.items()}
    cards = {
        name: agent.card([tool.spec for tool in agent.tools if isinstance(tool, BaseTool)])
        for name, agent in agents.items()
    }
    return Team(cards, team.turns.turns if isinstance(team.turns, TurnRule) else team.turns)


def _drawn_rerun(conversation: Conversation, again: Rerun, under_team: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import legend, wrapped
    from stenolog.projections.analysis.rerun import NOT_COMPARED

    requests, divergence = counted(again.requests, "request"), again.divergence
    if divergence is None:
        yield line(("✓ ", "green"), f"{conversation.name}: {requests}, same digests")
        if under_team:
            yield wrapped((f"  not in a log, so not compared: {', '.join(NOT_COMPARED)}", "dim"), hang=2)
        return
    yield line(("✗ ", "red"), f"{conversation.name}: {requests} the same, then one differs")
    yield from legend(
        {
            "agent": divergence.lane,
            "request": f"at {divergence.view}, answered at {divergence.position}",
            "pointer": divergence.pointer or "none: it is not in the body",
            "expected": divergence.expected,
            "found": divergence.found,
        }
    )
