"""Command `worker`."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import counted
from stenolog.apps.cli.terminal import PLAIN_FILE, say

if TYPE_CHECKING:
    from stenolog.apps.workers.worker import Worker

STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
TEAM_NAME = "Default: the file's name."


@command("worker", example="stenolog worker --db postgresql://db/talks --team team.toml")
@click.option("--team", "file", type=PLAIN_FILE, required=True, help="The team's file.")
@click.option("--name", metavar="NAME", default="", help=TEAM_NAME)
@click.option("--concurrency", type=click.IntRange(1), default=50, show_default=True, help="Runs at once.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds to finish at SIGTERM.",
)
@takes_db
def worker_command(db: Database, file: Path, name: str, concurrency: int, grace: float) -> None:
    """Run a team on submitted messages.

    On any number of machines. SIGTERM or Ctrl-C: finish what is under way, begin nothing more; a second one
    stops at once.
    """
    from stenolog.adapters.engine.team_file import load
    from stenolog.apps.workers.worker import Worker

    described = load(file)
    log = open_log(db, create=True)
    worker = Worker(log, described.team, name=name or file.stem, concurrency=concurrency, grace=grace)
    say(f"working as {worker.name!r} on {log.path}; Ctrl-C ends it", mark="·", style="cyan")
    asyncio.run(work_until_told(worker))


async def work_until_told(worker: Worker) -> None:
    """Work until a signal says to stop."""
    loop = asyncio.get_running_loop()
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            with suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, _stop, worker)
    try:
        await worker.run()
    finally:
        await worker.team.close()


def _stop(worker: Worker) -> None:
    doing = counted(len(worker.doing), "conversation")
    say(
        f"stopping: {doing} under way" if not worker.is_stopping else "stopping at once",
        mark="·",
        style="cyan",
    )
    worker.stop()
