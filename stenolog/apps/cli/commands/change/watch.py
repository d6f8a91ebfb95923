"""Command `watch`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.importers.detection.folders import size_of
from stenolog.adapters.importers.importer import import_files
from stenolog.adapters.importers.intake.report import Refused, Report
from stenolog.adapters.importers.watching import rounds
from stenolog.adapters.programs.claude_code import SESSIONS
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.arguments.time import in_zone, now
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import Bytes, say, there

from .import_ import EMPTY, left_out, said_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

NAMED = 3
"""The most conversations that a line names."""
FOLDERS = click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@command("watch", example=f"stenolog watch {SESSIONS}")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.01),
    default=2.0,
    help="Seconds between two looks. Default: 2.",
)
@FOLDERS
@takes_db
def watch_command(db: Database, folders: tuple[Path, ...], interval: float) -> CommandResult:
    """Import folders, and keep importing what changes."""
    paths = [there(folder) for folder in folders]
    log = open_log(db, create=True)
    say(f"watching {', '.join(map(str, folders))}; Ctrl-C ends it", mark="·", style="cyan")
    quiet = bool(click.get_current_context().params["as_json"])
    found = rounds(paths, partial(_imported, log, quiet), partial(pause, interval))
    news = (done for done in found if _is_news(done))
    named = set[str]()
    lines = (each for done in news for each in _lines(done, named))
    return CommandResult(map(_data, news), lambda: lines, streams=True)


def pause(seconds: float) -> None:
    """Wait between two rounds."""
    time.sleep(seconds)


def _imported(log: Log, quiet: bool, files: Sequence[Path]) -> list[Report | Refused]:
    with Bytes("importing", sum(map(size_of, files)), quiet=quiet) as bar:
        return [*import_files(log, bar.counting(files), progress=bar)]


def _is_news(done: Iterable[Report | Refused]) -> bool:
    return any(
        isinstance(each, Refused)
        or each.left_out
        or any(one.appended or one.failed for one in each.conversations)
        for each in done
    )


def _data(done: Sequence[Report | Refused]) -> dict[str, Any]:
    refused = [each for each in done if isinstance(each, Refused)]
    return {
        "reports": [each for each in done if isinstance(each, Report)],
        "refused": [{"file": file, "error": str(error)} for file, error, _ in refused],
    }


def _lines(done: Sequence[Report | Refused], named: set[str]) -> Iterator[Piece]:
    """Yield a line for the round, and each new reason of refusal or omission.

    `named` are the deleted conversations named so far; it grows.
    """
    grown = [one for each in done if isinstance(each, Report) for one in each.conversations if one.appended]
    if grown:
        entries = counted(sum(one.appended for one in grown), "entry", "entries")
        names = ", ".join(one.name for one in grown[:NAMED])
        more = f" and {len(grown) - NAMED} more" if len(grown) > NAMED else ""
        files = counted(len(done), "file")
        yield line(_at(), ("✓ ", "green"), f"{files}, {entries}: ", (f"{names}{more}", "bold"))
    refused = [each for each in done if isinstance(each, Refused)]
    for note in said_of(each for each in refused if not each.as_before):
        yield line(_at(), ("✗ ", "red") if note.severity == "error" else EMPTY, note.message)
    if old := sum(each.as_before for each in refused):
        words = f"{counted(old, 'file')} refused, as before"
        yield line(_at(), ("✗ ", "red"), words, ("  import -v names each", "dim"))
    reports = [each for each in done if isinstance(each, Report)]
    new = {deleted.mark for each in reports for deleted in each.left_out} - named
    named |= new
    if new:
        yield line(_at(), *left_out(len(new)))
    for each in done:
        for one in each.conversations if isinstance(each, Report) else ():
            if one.failed:
                yield line(_at(), ("✗ ", "red"), f"{each.file}: {one.failed}")


def _at() -> tuple[str, str]:
    return f"{in_zone(now()):%H:%M:%S}  ", "dim"
