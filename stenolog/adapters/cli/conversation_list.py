"""The list that `ls` prints: a row for each conversation, in columns that fit the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import are_examples
from stenolog.adapters.providers.prices import listed as listed_prices
from stenolog.adapters.queries.overviews import ListedConversation, listed
from stenolog.domain.limits import MICRO_PER_USD
from stenolog.domain.settings import Settings
from stenolog.projections.usage import Prices, known_cost, unpriced

from .layout import Cell, table
from .lines import Piece, ago, shortened, when
from .time_argument import in_zone

if TYPE_CHECKING:
    from stenolog.adapters.log import Log

NAME_PART = 4
"""A name that is no UUID has at most this part of the terminal."""
TITLE, PART = 24, 4
"""The cells that a title keeps before other columns are left out; of a wide terminal this part of them."""
UUID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})((?:~\d+)?)")
"""A name that is a UUID, and the number of a fork behind it."""
BEGINNINGS = (8, 13, 18, 23)
"""The lengths that a UUID is cut at: before each of its dashes."""
NAMES = 12
"""The cells that names of projects, branches, agents and models keep."""
DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
"""The date at the end of a model's name, which a list has no room for."""
MAKER = re.compile(r"^claude-(?=\w)")
"""The beginning that all of a maker's models share."""
STATES = {
    "failed": "failed",
    "awaiting_approval": "approval",
    "awaiting_tools": "open",
    "awaiting_llm": "open",
}
"""The words for a status of an agent, the most urgent first; `open`: a model or a tool has yet to answer."""
STYLES = {"failed": "red", "approval": "yellow", "open": "dim", "": ""}
COLUMNS = (
    "NAME", ">LAST", "~PROJECT", "~BRANCH", "~AGENTS", "~MODEL", "STATE", ">TURNS", ">ERRORS", ">USD",
    "*TITLE",
)  # fmt: skip
ALWAYS = frozenset(("NAME", "LAST", "TURNS", "TITLE"))
"""The columns that are there even if they are empty."""
SPARE = ("BRANCH", "AGENTS", "STATE", "MODEL", "ERRORS", "USD", "PROJECT")
"""The columns that a narrow terminal does without, the first one first."""


def conversation_data(log: Log, name: str) -> dict[str, Any]:
    """Return what `ls --json` has of a conversation."""
    found = listed(log[name])
    seen = found.overview
    cost, is_least = _cost(found, listed_prices())
    return {
        "name": name,
        "short_name": short_name(log, name),
        "title": found.title,
        "folder": seen.folder,
        "branch": seen.branch,
        "models": found.models,
        "position": found.state.position,
        "digest": found.digest,
        "agents": found.agents,
        "asks_person": seen.asks_person,
        "lanes": {where: lane.status for where, lane in found.state.lanes.items()},
        "last_at": when(found.last.time) if found.last and found.is_dated else None,
        "turns": seen.turns,
        "errors": seen.errors,
        "known_cost_micro_usd": cost,
        "cost_is_incomplete": is_least,
        "cost_is_by_example_prices": are_examples() and known_cost(seen.tokens, listed_prices()) > 0,
        "fork_of": _fork_of(log, found.settings),
    }


def _cost(found: ListedConversation, prices: Prices) -> tuple[int | None, bool]:
    """Return the known cost in micro-dollars, None where nothing of it is known, and whether it is a part."""
    seen = found.overview
    missing = unpriced(seen.tokens, prices)
    if not seen.billed and len(missing) == sum(1 for used in seen.tokens.values() if any(used)):
        return None, bool(seen.answers)
    return known_cost(seen.tokens, prices, seen.billed.values()), bool(missing or seen.partial)


def _fork_of(log: Log, settings: Settings) -> dict[str, Any] | None:
    if not (settings.is_fork and settings.parent):
        return None
    parent = settings.parent
    short = short_name(log, parent.conversation)
    return {"conversation": parent.conversation, "short_name": short, "position": parent.position}


def short_name(log: Log, name: str) -> str:
    """Return the shortest beginning of a UUID that no other UUID has; any other name whole.

    A fork's number stays behind it: `0ab1c2d3~1`.
    """
    if not (found := UUID.fullmatch(name)):
        return name
    uuid, fork = found.groups()
    shorts = (uuid[:length] for length in BEGINNINGS)
    return next((short for short in shorts if _is_only(log, short, uuid)), uuid) + fork


def _is_only(log: Log, short: str, uuid: str) -> bool:
    """Return whether all names that begin so are of one UUID: itself and its forks, which sort behind it."""
    ends = (log.names(prefix=short, archived=True, limit=1, order=order) for order in ("a-z", "z-a"))
    return all(name.startswith(uuid) for names in ends for name in names)


def list_drawn(
    rows: Sequence[dict[str, Any]], width: int | None, now: datetime | None = None
) -> Iterable[Piece]:
    """Draw the list in so many cells; None is a pipe, in which names are whole.

    Times are relative to `now` where it is given.
    """
    drawn = [_row(row, width, now) for row in rows]
    kept = [
        at
        for at, name in enumerate(COLUMNS)
        if name.strip(">*~") in ALWAYS or any(_text_of(row[at]) for row in drawn)
    ]
    columns, least = [COLUMNS[at] for at in kept], max(TITLE, (width or 0) // PART)
    yield table(columns, [[row[at] for at in kept] for row in drawn], least, NAMES, SPARE)


def _text_of(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _row(row: dict[str, Any], width: int | None, now: datetime | None) -> tuple[Cell, ...]:
    piped = width is None
    statuses = {*row["lanes"].values(), *(["awaiting_approval"] if row["asks_person"] else [])}
    state = next((shown for status, shown in STATES.items() if status in statuses), "")
    fork = row["fork_of"]
    parent = fork["conversation" if piped else "short_name"] if fork else ""
    title = f"fork of {parent}@{fork['position']}: " if fork else ""
    return (
        (row["name"] if width is None else shortened(row["short_name"], width // NAME_PART), "bold"),
        (_last(row["last_at"], now), "dim"),
        re.split(r"[/\\]", row["folder"].rstrip("/\\"))[-1],
        (row["branch"], "dim"),
        _few(row["agents"], piped),
        _few(
            row["models"] if piped else [MAKER.sub("", DATE.sub("", name)) for name in row["models"]], piped
        ),
        (state, STYLES[state]),
        f"{row['turns']:,}",
        (f"{row['errors']:,}", "red") if row["errors"] else "",
        _usd(row["known_cost_micro_usd"], row["cost_is_incomplete"]),
        (title + row["title"]).removesuffix(": "),
    )


def _last(at: str | None, now: datetime | None) -> str:
    if at is None:
        return ""
    time = datetime.fromisoformat(at)
    return f"{in_zone(time):%Y-%m-%d %H:%M}" if now is None else ago(time, now)


def _few(names: Sequence[str], piped: bool) -> str:
    """Return the first name and how many more there are; in a pipe all of them."""
    if piped:
        return ",".join(names)
    return names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def _usd(cost: int | None, is_least: bool) -> str:
    if cost is None:
        return ""
    usd = cost / MICRO_PER_USD
    return ("≥" if is_least else "") + (f"{usd:,.2f}" if usd >= 0.01 or not cost else f"{usd:.4f}")
