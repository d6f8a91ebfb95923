"""Command `workers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line, when


@command("workers", example="stenolog workers --db postgresql://db/talks")
@takes_db
def workers_command(db: Database) -> CommandResult:
    """List the living workers, and what waits for them.

    A worker that is not current has an older version of its team, and runs nothing.
    """
    from stenolog.apps.workers.status import workers_status

    found = workers_status(open_log(db))
    if found is None:
        data: dict[str, Any] = {"workers": [], "queues": [], "held": []}
        return CommandResult(data, lambda: [line(("a log in a file keeps no list of its workers", "dim"))])
    data = {
        "workers": [
            {
                "team": each.team,
                "version": each.digest[:12],
                "current": each.is_current,
                "host": each.host,
                "pid": each.pid,
                "started": when(each.started),
                "concurrency": each.concurrency,
                "doing": [found.names[key] for key in each.doing if key in found.names],
            }
            for each in found.workers
        ],
        "queues": [each._asdict() for each in found.queues],
        "held": [each._asdict() for each in found.holders],
    }
    return CommandResult(data, lambda: _drawn_workers(data))


def _drawn_workers(data: dict[str, Any]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table

    if not data["workers"]:
        yield line(("no worker lives", "dim"))
    else:
        yield table(
            ("TEAM", "VERSION", "CURRENT", "HOST", ">PROCESS", "SINCE", ">AT", "CONVERSATIONS"),
            [_worker_row(each) for each in data["workers"]],
        )
    for each in data["queues"]:
        oldest = f", the oldest for {each['oldest']:.1f} s" if each["oldest"] else ""
        yield line((f"{each['team']}: {counted(each['waiting'], 'wake-up')} waiting{oldest}", ""))
    for each in data["held"]:
        yield line(
            ("! ", "yellow"),
            f"session {each['pid']} ({each['application']}, {each['state']}) holds followers back for "
            f"{each['seconds']:.1f} s",
        )


def _worker_row(each: dict[str, Any]) -> tuple[str | tuple[str, str], ...]:
    since = each["started"][:19].replace("T", " ")
    current = ("yes", "green") if each["current"] else ("no", "yellow")
    doing = f"{len(each['doing'])}/{each['concurrency']}"
    at = (each["team"], each["version"], current, each["host"], str(each["pid"]), since, doing)
    return (*at, ", ".join(each["doing"]))
