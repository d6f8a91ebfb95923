"""`worker`, `submit`, `workers`: teams whose workers run on any number of machines."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.domain.lifecycle import BUSY

from .database import Database
from .framework import command
from .lines import CommandResult, Piece, counted, line, paragraph, when
from .lookup import open_log
from .options import names, takes_db
from .terminal import say

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation
    from stenolog.adapters.workers.worker import Worker
    from stenolog.domain.state import State

FILE = click.Path(path_type=Path, dir_okay=False)
STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
GRACE = "Seconds that what is under way has at SIGTERM."
TEAM_NAME = "Name of the team; else that of the file, without .toml."


@command("worker", example="stenolog worker --db postgresql://db/talks --team team.toml")
@click.option("--team", "file", type=FILE, required=True, help="The file that describes the team.")
@click.option("--name", metavar="NAME", default="", help=TEAM_NAME)
@click.option("--concurrency", type=click.IntRange(1), default=50, show_default=True, help="Runs at once.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds for what is under way.",
)
@takes_db
def worker_command(db: Database, file: Path, name: str, concurrency: int, grace: float) -> None:
    """Run a team on what was submitted to the log.

    Any number of workers may run, on any number of machines. SIGTERM or Ctrl-C: it begins nothing more, and
    stops when what is under way has ended; a second one stops it at once, and the log says so.
    """
    from stenolog.adapters.team_file import load
    from stenolog.adapters.workers.worker import Worker

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


@command("submit", example="stenolog submit --talk user-7 'Find the bug' --id m-17 --wait")
@click.option("--talk", metavar="NAME", required=True, shell_complete=names, help="The conversation.")
@click.option("--team", metavar="NAME", default="team", show_default=True, help="The workers' --name.")
@click.option("--to", metavar="NAME", multiple=True, help="Agent that the message is for. Repeatable.")
@click.option("--id", metavar="ID", default="", help="Id of the entry: it is said once.")
@click.option("--wait", is_flag=True, help="Print the answers, until the agents rest.")
@click.argument("message")
@takes_db
def submit_command(
    db: Database, talk: str, message: str, team: str, to: tuple[str, ...], id: str, wait: bool
) -> CommandResult:
    """Say something to a team whose workers run elsewhere.

    With --wait it exits with 1 where an agent has failed.
    """
    from stenolog.adapters.workers.submitting import submit_sync

    conversation = open_log(db, create=True)[talk]
    name = Path(team).stem if team.endswith(".toml") else team
    position = submit_sync(conversation, message, to=to, id=id, team=name)
    data: dict[str, Any] = {"conversation": talk, "position": position}
    if not wait:
        return CommandResult(data, lambda: [line(("✓ ", "green"), f"{talk}: submitted at {position}")])
    answers = [*_answers(conversation, position)]
    failed = any(lane.status == "failed" for lane in conversation.state().lanes.values())
    data |= {"answers": [{"agent": agent, "text": text} for agent, text in answers]}
    return CommandResult(data, lambda: _drawn_answers(answers), failed=failed)


def _answers(conversation: Conversation, position: int) -> Iterator[tuple[str, str]]:
    """Yield the answers behind a position, until every lane rests, or waits for a person."""
    from stenolog.domain.events import AssistantMessage, LlmError, UserMessage

    acted = False
    for entry in conversation.tail(after=position):
        match entry.event:
            case AssistantMessage(purpose="answer", text=text, agent=agent) if text:
                acted = True
                yield agent, text
            case AssistantMessage() | LlmError() | UserMessage():
                acted = acted or not isinstance(entry.event, UserMessage)
            case _:
                pass
        state = conversation.state()
        # The state may be of later entries, which were not read yet.
        if acted and state.position == entry.position and not _is_busy(state):
            return


def _is_busy(state: State) -> bool:
    """Return whether an agent has anything to do that needs no person."""
    lanes = state.lanes.values()
    return any(lane.status in BUSY and lane.status != "awaiting_approval" for lane in lanes)


def _drawn_answers(answers: Iterable[tuple[str, str]]) -> Iterator[Piece]:
    for agent, text in answers:
        yield line((agent, "bold"))
        yield paragraph(text, indent=2)


@command("workers", example="stenolog workers --db postgresql://db/talks")
@takes_db
def workers_command(db: Database) -> CommandResult:
    """List the living workers, and what waits for them.

    A worker that is not current has another version of its team than the newest workers, and runs nothing.
    `held`: sessions of the server that followers wait for.
    """
    from stenolog.adapters.workers.status import workers_status

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
    from .layout import table

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
