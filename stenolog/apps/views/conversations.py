"""Conversations as rows of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stenolog.adapters.conversation.queries.overviews import ListedConversation, listed
from stenolog.adapters.conversation.queries.plain_json import when
from stenolog.adapters.providers.prices import are_examples
from stenolog.adapters.providers.prices import listed as listed_prices
from stenolog.domain.settings import Settings
from stenolog.projections.formats import providers
from stenolog.projections.prices import Prices, known_cost, unpriced

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

UUID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})((?:~\d+)?)")
"""A name that is a UUID, and the number of a fork after it."""
DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
"""The date at the end of a model's name, which a list has no room for."""
BEGINNINGS = (8, 13, 18, 23)
"""The lengths that a UUID is cut at: before each of its dashes."""
SCANNED = 1000
"""So many conversations are looked at for those that are wanted, if their entries decide."""


class Facts(Protocol):
    """The facts of a conversation by which it is selected."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def branch(self) -> str: ...
    @property
    def agents(self) -> list[str]: ...
    @property
    def models(self) -> list[str]: ...
    @property
    def errors(self) -> int: ...


class Selection(NamedTuple):
    """Filters of conversations, newest activity first; all that are named must hold.

    `part` is a part of the name, the project's folder, the branch or the title, `project` the folder itself,
    `agent` and `model` parts of a name. `errors`: a model call has failed. `older_than` is the name of a
    conversation.
    """

    part: str = ""
    project: str = ""
    agent: str = ""
    model: str = ""
    errors: bool = False
    since: datetime | None = None
    until: datetime | None = None
    older_than: str = ""

    @property
    def asks_entries(self) -> bool:
        """True if the entries of each conversation must be read for it."""
        return bool(self.part or self.project or self.agent or self.model or self.errors)

    def has(self, found: Facts) -> bool:
        """Return whether a conversation's entries pass the filters."""
        return (
            any_has((found.name, found.folder, found.branch, found.title), self.part)
            and self.project in ("", found.folder)
            and any_has(found.agents, self.agent)
            and any_has(found.models, self.model)
            and (not self.errors or found.errors > 0)
        )

    def has_time(self, last: float) -> bool:
        """Return whether the time of the last entry, in seconds, is one of those wanted."""
        is_late = self.since is None or last >= self.since.timestamp()
        return is_late and (self.until is None or last <= self.until.timestamp())


class SelectedConversations(NamedTuple):
    """Conversations found among `looked_at`; the next page begins after `goes_on`, "" at the end."""

    found: list[ListedConversation]
    goes_on: str = ""
    looked_at: int = 0


def selected(log: Log, wanted: Selection, limit: int) -> SelectedConversations:
    """Return at most `limit` conversations that are wanted, of the next `SCANNED`."""
    many = SCANNED if wanted.asks_entries else limit
    names = log.names(
        active_since=wanted.since,
        active_until=wanted.until,
        older_than=wanted.older_than,
        limit=many + 1,
        order="latest",
    )
    found: list[ListedConversation] = []
    for looked_at, name in enumerate(names[:many], 1):
        each = listed(log[name])
        if wanted.has(each):
            found.append(each)
        if len(found) == limit:
            goes_on = name if looked_at < len(names) else ""
            return SelectedConversations(found, goes_on, looked_at)
    return SelectedConversations(found, names[many - 1] if len(names) > many else "", min(many, len(names)))


def any_has(texts: Iterable[str], part: str) -> bool:
    """Return whether one of the texts contains a part, in either case."""
    wanted = part.casefold()
    return not wanted or any(wanted in text.casefold() for text in texts)


def short_model(name: str) -> str:
    """Return the name of a model without its maker and its date."""
    short = DATE.sub("", name)
    makers = (provider.maker for _, provider in providers())
    return next((short.removeprefix(maker) for maker in makers if maker and short.startswith(maker)), short)


def conversation_data(log: Log, name: str, found: ListedConversation | None = None) -> dict[str, Any]:
    """Return the `ls --json` of a conversation; `found` if it has been read already."""
    found = found or listed(log[name])
    seen = found.overview
    used = [*seen.tokens.values(), *seen.billed.values()]
    cost, is_least = cost_of(found, listed_prices())
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
        "tokens": {"input": sum(each.input for each in used), "output": sum(each.output for each in used)},
        "known_cost_micro_usd": cost,
        "cost_is_incomplete": is_least,
        "cost_is_by_example_prices": are_examples() and known_cost(seen.tokens, listed_prices()) > 0,
        "fork_of": _fork_of(log, found.settings),
    }


def cost_of(found: ListedConversation, prices: Prices) -> tuple[int | None, bool]:
    """Return the known micro-dollars, None if all is unknown; and whether a part is."""
    seen = found.overview
    missing = unpriced(seen.tokens, prices)
    if not seen.billed and len(missing) == sum(1 for used in seen.tokens.values() if any(used)):
        return None, bool(seen.answers or seen.partial)
    return known_cost(seen.tokens, prices, seen.billed.values()), bool(missing or seen.partial)


def _fork_of(log: Log, settings: Settings) -> dict[str, Any] | None:
    if not (settings.is_fork and settings.parent):
        return None
    parent = settings.parent
    short = short_name(log, parent.conversation)
    return {"conversation": parent.conversation, "short_name": short, "position": parent.position}


def short_name(log: Log, name: str) -> str:
    """Return the shortest unique beginning of a UUID; any other name in full.

    A fork keeps its number: `0ab1c2d3~1`.
    """
    if not (found := UUID.fullmatch(name)):
        return name
    uuid, fork = found.groups()
    shorts = (uuid[:length] for length in BEGINNINGS)
    return next((short for short in shorts if _is_only(log, short, uuid)), uuid) + fork


def _is_only(log: Log, short: str, uuid: str) -> bool:
    ends = (log.names(prefix=short, archived=True, limit=1, order=order) for order in ("a-z", "z-a"))
    return all(name.startswith(uuid) for names in ends for name in names)
