"""The first page: conversations by newest activity, or the hits of a search."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from stenolog.adapters.conversation.queries.overviews import ListedConversation, listed, title_of
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
from stenolog.apps.views.costs import sum_data
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.figures import ago, known_usd, short_folder, short_usd
from stenolog.apps.views.sorted_list import ConversationGroup, grouped
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.context_curve.sparkline import sparkline

from .costs import counted_so_far, is_current

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
FIELDS = ("q", "part", "project", "agent", "model", "errors", "since", "until")
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
    sort, group = query.word("sort"), query.word("group")
    shown |= {"sort": sort, "group": group, "is_waiting": False, "whole": None, "next": 0, "headings": {}}
    if sort or group:
        is_counted = is_current(query)
        groups = _groups_of_table(query)
        whole = ConversationGroup("", [row for each in groups for row in each.rows])
        first = query.number("from", 0)
        names = [row.name for row in whole.rows[first : first + PAGE]]
        rows = _rows(query, [listed(query.log[name]) for name in names])
        end = first + PAGE
        shown |= {
            "is_waiting": not is_counted,
            "left": query.costs.due - query.costs.done,
            "so_far": counted_so_far(query, is_counted),
            "whole": heading(whole),
            "headings": {each.rows[0].name: heading(each) for each in groups} if group else {},
            "next": end if end < len(whole.rows) else 0,
        }
        return {**shown, "rows": rows, "more": "", "looked_at": len(query.costs.rows)}
    found = _selected(query)
    rows = _rows(query, found.found)
    return {
        **shown,
        "rows": rows,
        "more": found.goes_on,
        "looked_at": found.looked_at,
        "total": query.log.count(),
    }


def _rows(query: Query, found: Iterable[ListedConversation]) -> list[dict[str, Any]]:
    now, at_work = datetime.now(UTC), _at_work(query)
    rows = [_row(query, each, now, at_work) for each in found]
    _draw_curves(query, rows)
    return rows


def _groups_of_table(query: Query) -> list[ConversationGroup]:
    """Return the conversations that are wanted and counted, in the order that is asked for."""
    wanted, names = _selection(query), set(query.log.names())
    rows = [
        row
        for row in query.costs.listed()
        if row.name in names and wanted.has(row) and wanted.has_time(row.last)
    ]
    return grouped(rows, query.word("sort", "-last"), by_project=query.word("group") == "project")


def heading(group: ConversationGroup) -> dict[str, Any]:
    """Return the sums of a group as they are shown."""
    spent = sum_data(group.folder, group.spent)
    return {
        **spent,
        "project": short_folder(group.folder),
        "number": len(group.rows),
        "turns": group.turns,
        "errors": group.errors,
        "usd": known_usd(spent),
    }


def _selected(query: Query) -> SelectedConversations:
    wanted = _selection(query)._replace(older_than=query.word("after"))
    return selected(query.log, wanted, PAGE)


def _selection(query: Query) -> Selection:
    return Selection(
        part=query.word("part").strip(),
        project=query.word("project").strip(),
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
    return {
        **data,
        "model": short_model(data["models"][0]) if data["models"] else "",
        "project": short_folder(data["folder"]).rpartition("/")[2],
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
        if query.word("sort") or query.word("group"):
            query.costs.update()
            found = [listed(query.log[row.name]) for each in _groups_of_table(query) for row in each.rows]
        else:
            found = _selected(query).found
        return Answer([conversation_data(query.log, each.name, each) for each in found])
    hits = _hits(query)
    titles = {name: title_of(query.log[name]) for name in dict.fromkeys(hit.conversation for hit in hits)}
    return Answer({"query": words, "hits": hits, "titles": titles})


page = Page("", view, twin, of_conversation=False, template="conversations.html")
progress = Page("importing", lambda query: {}, of_conversation=False)
