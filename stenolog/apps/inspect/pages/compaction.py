"""The page of compactions: what each took out of an agent's requests, and one entry put back."""

from __future__ import annotations

from itertools import islice
from typing import Any

from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.compactions import (
    chosen_compaction,
    compacted_request,
    compaction_data,
    compactions_of,
)
from stenolog.apps.views.envelope import Answer
from stenolog.projections.analysis.compaction import CompactedRequest, CompactedRun, Compaction
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import describe

MOST = 300
"""The most runs that are shown."""
IN_RUN = 40
"""The most entries of a run that are listed."""
LONGEST = 40_000
"""The most characters of a summary that are shown."""


def _asked_compaction(query: Query) -> tuple[list[Compaction], CompactedRequest | None]:
    if not query.agent:
        return [], None
    found = compactions_of(query.conversation, query.agent)
    position = chosen_compaction(found, query.at)
    if not position:
        return [], None
    restore = query.number("with", 0) or None
    api = query.word("api") or None
    return found, compacted_request(query.conversation, query.agent, position, restore=restore, api=api)


def view(query: Query) -> dict[str, Any]:
    """Return the compactions, and what became of each entry in one of them."""
    found, chosen = _asked_compaction(query)
    runs = chosen.runs if chosen else ()
    summary = chosen.compaction.text if chosen else ""
    opened = query.number("open", 0)
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": list(query.index.agents),
        "found": found,
        "chosen": chosen,
        "summary": summary[:LONGEST],
        "cut": max(0, len(summary) - LONGEST),
        "lines": [(run, _entries(query, run, opened)) for run in runs[:MOST]],
        "more": max(0, len(runs) - MOST),
    }


def _entries(query: Query, run: CompactedRun, opened: int) -> list[tuple[int, str, str]]:
    if run.entries == 1:
        return []
    first = opened if run.first <= opened <= run.last else run.first
    found = islice(query.conversation.entries(first - 1, run.last), IN_RUN)
    described = ((entry.position, describe(entry)) for entry in found)
    return [(position, who, one_line(what)[:200]) for position, (who, what) in described]


def twin(query: Query) -> Answer:
    """Return the data of `explain compaction --json`."""
    return Answer(compaction_data(query.conversation, query.agent, *_asked_compaction(query)))


def _is_compacted(query: Query) -> bool:
    return bool(query.index.of_kind("sc") or query.index.cuts)


page = Page("compaction", view, twin, link="Compaction", rank=6, applies=_is_compacted)
