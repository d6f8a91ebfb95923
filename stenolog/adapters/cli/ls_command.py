"""`ls`: the conversations of a database, a page of them at a time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.queries import folds
from stenolog.projections.opening import opening

from .framework import command, find_conversation, names, open_log, takes_db
from .lines import Piece, line
from .position_argument import A_TIME, moment
from .result import CommandResult, Diagnostic, when
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.log import Log

LONGEST_NAME = 40
OPENING = 20
"""The first words of a person are looked for among so many entries."""
TITLE = 24
"""So many cells of a title are shown; else each conversation has two lines."""
SHORT = 8
DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
"""The date at the end of a model's name, which a list has no room for."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NONE_YET = "no conversation yet: `stenolog import FILE` brings one in"
URGENCY = ("failed", "awaiting_approval", "awaiting_tools", "awaiting_llm")


@command("ls")
@click.argument("part", required=False, default="")
@click.option("--all", "-a", "archived", is_flag=True, help="Archived ones too.")
@click.option("--since", help="Only where the last entry is dated from this day or time on.")
@click.option("--before", metavar="CONVERSATION", shell_complete=names, help="Only older ones than this.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="At most N, the newest; 0 for all.",
)
@takes_db
def ls_command(
    db: Path, part: str, archived: bool, since: str | None, before: str | None, limit: int
) -> CommandResult:
    """List the conversations, the latest last. With agents, state, last entry (UTC), project, model, title.

    The order is that of the last entries' times. The time of an imported entry is the transcript's; an entry
    without one is of 1970-01-01. A UUID is shown by its beginning, which all commands take. Without a title
    the first words of a person are shown. PART is a part of the name.
    """
    log = open_log(db)
    which: dict[str, Any] = {
        "archived": archived,
        "like": part,
        "since": None if since is None else moment(since, A_TIME, to_its_end=False),
        "before": "" if before is None else find_conversation(log, before).name,
    }
    shown = log.names(**which, limit=limit or None, order="latest")[::-1]
    rows = [_conversation(log, name) for name in shown]
    more = (
        _more(shown[0], log.count(**which, order="latest") - limit) if limit and len(shown) == limit else ()
    )
    none = "" if rows else _none(log, which, {"--since": since, "--before": before})
    return CommandResult(rows, lambda: _drawn(rows, none), diagnostics=more)


def _none(log: Log, which: dict[str, Any], asked: dict[str, str | None]) -> str:
    """Explain an empty list: no conversation has such a name, or none passes the filters."""
    named = log.count(like=which["like"], archived=which["archived"])
    if named:
        filters = (f"{option} {shlex.quote(value)}" for option, value in asked.items() if value is not None)
        return f"of {counted(named, 'conversation')} none passes {' '.join(filters)}"
    if archived := log.count(like=which["like"], archived=True):
        return f"{counted(archived, 'conversation')} put away: --all shows archived ones too"
    return "no such conversation" if which["like"] else NONE_YET


def _more(oldest: str, many: int) -> tuple[Diagnostic, ...]:
    """Return a note on how to list the older conversations."""
    if many <= 0:
        return ()
    return (
        Diagnostic("note", "more", f"{many:,} older ones: --before {shlex.quote(oldest)}; -n 0 shows all"),
    )


def _conversation(log: Log, name: str) -> dict[str, Any]:
    conversation = log[name]
    settings, state = folds.folds_at(conversation, (folds.SETTINGS, folds.STATE))
    last = next(iter(conversation.entries(after=max(0, state.position - 1))), None)
    began = opening(conversation.entries(at=OPENING))
    return {
        "name": name,
        "short_name": _short(log, name),
        "title": settings.title or began.words,
        "folder": began.folder,
        "models": sorted({card.model for card in settings.cards.values() if card.model}),
        "position": state.position,
        "digest": last.digest if last else "",
        "agents": sorted({lane.agent for lane in state.lanes.values()} | set(settings.members)),
        "lanes": {where: lane.status for where, lane in state.lanes.items()},
        "last_at": when(last.time) if last else None,
        "fork_of": _fork_of(settings),
    }


def _short(log: Log, name: str) -> str:
    """Return the beginning of a UUID where no other name begins so; any other name whole."""
    begun = name[:SHORT]
    if not UUID.fullmatch(name):
        return name
    return begun if log.names(begins=begun, archived=True, limit=2) == [name] else name


def _fork_of(settings: Any) -> dict[str, Any] | None:
    if not (settings.is_fork and settings.parent):
        return None
    return {"conversation": settings.parent.conversation, "position": settings.parent.position}


def _drawn(rows: list[dict[str, Any]], none: str) -> Iterable[Piece]:
    from .layout import table

    if not rows:
        yield line((none, "dim"))
        return
    columns = ("NAME", ">ENTRIES", "~AGENTS", "STATE", "LAST", "~PROJECT", "~MODEL", "*TITLE")
    drawn = [_row(row) for row in rows]
    # Where no conversation has a project or a model, there is no such column.
    kept = [at for at, name in enumerate(columns) if name[0] != "~" or any(row[at] for row in drawn)]
    yield table([columns[at] for at in kept], [[row[at] for at in kept] for row in drawn], TITLE)


def _row(row: dict[str, Any]) -> tuple[str | tuple[str, str], ...]:
    states = set(row["lanes"].values())
    state = next((urgent for urgent in URGENCY if urgent in states), "idle")
    style = "red" if state == "failed" else "green" if state == "idle" else "yellow"
    fork = row["fork_of"]
    title = f"fork of {fork['conversation']}@{fork['position']}" if fork else row["title"]
    last = (row["last_at"] or "")[:16].replace("T", " ")
    short = row["short_name"]
    name = short if len(short) <= LONGEST_NAME else f"{short[: LONGEST_NAME - 1]}…"
    return (
        (name, "bold"),
        f"{row['position']:,}",
        _few(row["agents"], 1),
        (state, style),
        (last, "dim"),
        re.split(r"[/\\]", row["folder"].rstrip("/\\"))[-1],
        _few([DATE.sub("", model) for model in row["models"]], 1),
        title,
    )


def _few(names: list[str], most: int) -> str:
    """The first of some names, and how many more there are."""
    return " ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")
