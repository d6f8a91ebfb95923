"""`search`: what was said in any conversation, by its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .answer import Answer, Diagnostic
from .lines import Piece, line
from .positions import KINDS, moment
from .screen import Bar
from .shell import command, found, names, opened, takes_db
from .words import STYLES

if TYPE_CHECKING:
    from stenolog.adapters.search.finding import Hit


@command("search")
@click.argument("query", metavar="WORDS...", nargs=-1, required=True)
@click.option("--in", "within", metavar="TALK", shell_complete=names, help="Only in this conversation.")
@click.option("--agent", help="Only what this agent said.")
@click.option(
    "--kind", "kinds", type=click.Choice([*KINDS]), multiple=True, help="Only this kind; repeatable."
)
@click.option("--since", help="Only from this day or time on (UTC where no zone is given).")
@click.option("--until", help="Only up to this day or time.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="At most N.")
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@takes_db
def search_command(
    db: Path,
    query: tuple[str, ...],
    within: str | None,
    agent: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    newest: bool,
) -> Answer:
    """Find what was said, in any conversation. Where, when (UTC), what kind, who, and the words around it.

    All words must be there; '"a phrase"', 'begin*', 'this OR that', 'this -without'. Case and accents do not
    matter. The first search of a database takes a while: it is indexed; later ones index what is new.
    """
    log = opened(db)
    talk = None if within is None else found(log, within).name
    with Bar("indexing", log.newest) as bar:
        hits = log.search(
            " ".join(query),
            conversation=talk,
            agent=agent,
            kinds=[KINDS[kind] for kind in kinds],
            since=_time(since),
            until=_time(until, to_its_end=True),
            limit=limit + 1,
            newest=newest,
            progress=bar,
        )
    shown = hits[:limit]
    return Answer(
        {"query": " ".join(query), "hits": shown}, lambda: _drawn(shown), diagnostics=_more(hits, limit)
    )


def _time(written: str | None, *, to_its_end: bool = False) -> datetime | None:
    return None if written is None else moment(written, "a day or a time", to_its_end=to_its_end)


def _more(hits: Sequence[Hit], limit: int) -> tuple[Diagnostic, ...]:
    if len(hits) <= limit:
        return ()
    return (
        Diagnostic("note", "more", f"there are more: -n {limit * 5} shows so many, --in TALK narrows it"),
    )


def _drawn(hits: Sequence[Hit]) -> Iterator[Piece]:
    from .drawing import wrapped

    if not hits:
        yield line(("nothing found", "dim"))
    for hit in hits:
        yield line(
            (f"{hit.conversation}@{hit.position}", "bold"),
            (f"  {hit.at:%Y-%m-%d %H:%M}", "dim"),
            (f"  {hit.kind}", STYLES[hit.kind]),
            f"  {hit.who}",
        )
        yield wrapped("    ", *_marked(hit), hang=4)


def _marked(hit: Hit) -> Iterable[str | tuple[str, str]]:
    """The snippet, its hits in bold."""
    at = 0
    for first, end in hit.marks:
        yield hit.snippet[at:first]
        yield hit.snippet[first:end], "bold yellow"
        at = end
    yield hit.snippet[at:]
