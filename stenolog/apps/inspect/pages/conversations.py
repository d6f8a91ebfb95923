"""The first page: conversations by newest activity, or the hits of a search."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from stenolog.adapters.conversation.queries.overviews import listed, title_of
from stenolog.adapters.conversation.queries.requests.curves import small_curve
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.conversations import (
    SelectedConversations,
    Selection,
    conversation_data,
    selected,
    short_model,
)
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.figures import ago, short_usd
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.context_curve.sparkline import sparkline

if TYPE_CHECKING:
    from stenolog.adapters.conversation.search.lookup import Hit

PAGE = 50
"""The rows that the page holds."""
HITS = 100
"""The most entries that a search shows."""
SHOWN = 3
"""The entries of a conversation that a search shows; its page has the others."""
MOST_READ = 5_000
"""The entries that are read at one look for the small curves; what came of them is kept for the next one."""
LIVE = timedelta(minutes=1)
"""A conversation is live for so long after its last entry."""
RECENT = timedelta(days=30)
"""A time that is longer ago is shown as its day."""
FIELDS = ("q", "part", "agent", "model", "errors", "since", "until")
"""The fields of the form, which are parameters of the address."""


class HitGroup(NamedTuple):
    """The hits of a search in one conversation; `row` is the conversation in the list."""

    row: dict[str, Any]
    hits: list[Hit]
    more: int


def view(query: Query) -> dict[str, Any]:
    """Return the list of conversations, or the hits of a search."""
    asked = {name: value for name in FIELDS if (value := query.word(name).strip())}
    words = asked.get("q", "")
    shown: dict[str, Any] = {"asked": asked, "words": words, "marked": marked}
    if words:
        hits = _hits(query)
        return {**shown, "groups": _groups(query, hits), "hits": hits, "is_full": len(hits) == HITS}
    found = _selected(query)
    now, at_work = datetime.now(UTC), _at_work(query)
    rows = [_row(query, each, now, at_work) for each in found.found]
    _draw_curves(query, rows)
    return {
        **shown,
        "rows": rows,
        "more": found.goes_on,
        "looked_at": found.looked_at,
        "total": query.log.count(),
    }


def _selected(query: Query) -> SelectedConversations:
    wanted = _selection(query)._replace(older_than=query.word("after"))
    return selected(query.log, wanted, PAGE)


def _selection(query: Query) -> Selection:
    return Selection(
        part=query.word("part").strip(),
        agent=query.word("agent").strip(),
        model=query.word("model").strip(),
        errors=bool(query.word("errors")),
        since=_moment(query, "since"),
        until=_moment(query, "until"),
    )


def _moment(query: Query, name: str) -> datetime | None:
    """Return the time in an address; a day is its first moment, for `until` its last.

    Raises `InvalidEventError`.
    """
    written = query.word(name).strip()
    if not written:
        return None
    try:
        if len(written) == len("2026-11-20"):
            edge = time.max if name == "until" else time.min
            return datetime.combine(date.fromisoformat(written), edge, UTC)
        at = datetime.fromisoformat(written)
    except ValueError:
        raise InvalidEventError(f"{name}: expected a day or a time, found {written!r:.60}") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _at_work(query: Query) -> set[str]:
    return {claim.conversation for claim in query.log.claims() if claim.alive}


def _row(query: Query, found: Any, now: datetime, at_work: set[str]) -> dict[str, Any]:
    data = conversation_data(query.log, found.name, found)
    last = found.last.time if found.last and found.is_dated else None
    is_new = last is not None and now - LIVE <= last <= now + LIVE
    folder = data["folder"].replace("\\", "/").rstrip("/")
    return {
        **data,
        "model": short_model(data["models"][0]) if data["models"] else "",
        "project": folder.rpartition("/")[2],
        "is_live": is_new or found.name in at_work,
        "when": f"{last:%Y-%m-%d %H:%M}" if last else "",
        "ago": ago(last, now) if last and now - last < RECENT else "",
        "usd": short_usd(data["known_cost_micro_usd"], is_least=data["cost_is_incomplete"]),
        "status": _status(data),
    }


def _draw_curves(query: Query, rows: Iterable[dict[str, Any]]) -> None:
    """Add to each row the small curve of its context; some come later if there is too much to read."""
    room = MOST_READ
    for row in rows:
        points, read = small_curve(query.log[row["name"]]) if room > 0 else ((), 0)
        room -= read
        # A picture of numbers alone: nothing in it needs to be escaped.
        row["curve"] = Markup(sparkline(points))


def _status(data: dict[str, Any]) -> str:
    statuses = set(data["lanes"].values())
    if data["asks_person"] or "awaiting_approval" in statuses:
        return "asks a person"
    return "failed" if "failed" in statuses else ""


def _hits(query: Query) -> list[Hit]:
    wanted = _selection(query)
    found = query.log.search(
        query.word("q"),
        agent=wanted.agent or None,
        since=wanted.since,
        until=wanted.until,
        limit=HITS,
    )
    rest = wanted._replace(agent="", since=None, until=None)
    if not rest.asks_entries:
        return found
    names = {hit.conversation for hit in found}
    kept = {name for name in names if rest.has(listed(query.log[name]))}
    return [hit for hit in found if hit.conversation in kept]


def _groups(query: Query, hits: Iterable[Hit]) -> list[HitGroup]:
    by_name: dict[str, list[Hit]] = {}
    for hit in hits:
        by_name.setdefault(hit.conversation, []).append(hit)
    now, at_work = datetime.now(UTC), _at_work(query)
    groups = [
        HitGroup(
            _row(query, listed(query.log[name]), now, at_work), found[:SHOWN], max(0, len(found) - SHOWN)
        )
        for name, found in by_name.items()
    ]
    return sorted(groups, key=lambda group: group.row["last_at"] or "", reverse=True)


def marked(hit: Hit) -> list[tuple[str, bool]]:
    """Return the snippet of a hit in pieces, each with whether it was searched for."""
    edges = [0, *(edge for mark in hit.marks for edge in mark), len(hit.snippet)]
    return [(hit.snippet[first:end], bool(nth % 2)) for nth, (first, end) in enumerate(pairwise(edges))]


def twin(query: Query) -> Answer:
    """Return the data of `ls --json`, or of `search --json`."""
    words = query.word("q")
    if not words:
        return Answer([conversation_data(query.log, each.name, each) for each in _selected(query).found])
    hits = _hits(query)
    titles = {name: title_of(query.log[name]) for name in dict.fromkeys(hit.conversation for hit in hits)}
    return Answer({"query": words, "hits": hits, "titles": titles})


page = Page("", view, twin, of_conversation=False, template="conversations.html")
progress = Page("importing", lambda query: {}, of_conversation=False)
