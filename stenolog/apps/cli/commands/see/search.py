"""Command `search`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import click

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db, takes_kinds
from stenolog.apps.cli.arguments.time import in_zone, moment
from stenolog.apps.cli.framework import Command, command
from stenolog.apps.cli.lines import STYLES, CommandResult, Diagnostic, Piece, line
from stenolog.apps.cli.terminal import Bar, width
from stenolog.apps.views.conversations import short_name
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.requests.sendable import no_agent
from stenolog.projections.views.lines import KINDS

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.adapters.conversation.search.lookup import Hit


WITHOUT = re.compile(r'-[\w"]')
"""The beginning of an excluded word or phrase; an option begins so too."""
DANGLING = re.compile(r"^OR\b|\bOR$")
"""An OR without a word on each side."""
ASKED = 100
"""So many of the newest conversations are searched for an agent if nothing of it was found."""


class Search(Command):
    """A command that takes `-word` as a word to exclude, not as options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments, parsed: a blank before such a word marks it."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        known = {name for option in options for name in option.opts}
        valued = {name for option in options if not option.is_flag for name in option.opts}

        def is_word(arg: str, before: str) -> bool:
            is_option = arg in known or (arg[:2] in valued and arg[2:].isdecimal())
            return bool(WITHOUT.match(arg)) and not is_option and before not in valued

        marked = [f" {arg}" if is_word(arg, before) else arg for before, arg in pairwise(["", *args])]
        return super().parse_args(ctx, marked)


@command("search", Search, example="stenolog search 'dates OR times' --since 3d")
@click.argument("query", metavar="WORDS...", nargs=-1, required=True)
@click.option(
    "--conversation",
    "within",
    metavar="CONVERSATION",
    shell_complete=names,
    help="Only in this conversation.",
)
@click.option("--agent", help="Only what this agent said.")
@takes_kinds
@click.option("--since", metavar="TIME", help="Only from this time on.")
@click.option("--until", metavar="TIME", help="Only up to this time.")
@click.option(
    "-n", "--limit", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="At most N."
)
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@takes_db
def search_command(
    db: Database,
    query: tuple[str, ...],
    within: str | None,
    agent: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    newest: bool,
) -> CommandResult:
    """Find what was said, in any conversation.

    All words must be there; '"a phrase"', 'begin*', 'this OR that', 'this -without'. Case and accents do not
    matter. The first search indexes the database, which takes a while.
    """
    log = open_log(db)
    conversation = None if within is None else find_conversation(log, within).name
    words = " ".join(map(str.strip, query))
    first, last = _time(since), _time(until, to_its_end=True)
    if first and last and first > last:
        raise InvalidEventError(
            f"expected --since before --until, found {since} and {until}: nothing is between"
        )
    with Bar("indexing", log.last_sequence) as bar:
        hits = log.search(
            words,
            conversation=conversation,
            agent=agent,
            kinds=kinds,
            since=first,
            until=last,
            limit=limit + 1,
            newest=newest,
            progress=bar,
        )
    shown = hits[:limit]
    notes = _more(hits, limit) if hits or agent is None else _unknown(log, conversation, agent)
    notes += _syntax(words)
    titles = {name: title_of(log[name]) for name in dict.fromkeys(hit.conversation for hit in shown)}
    data = {"query": words, "hits": shown, "titles": titles}

    def draw() -> Iterable[Piece]:
        return _in_lines(shown) if width() is None else _in_groups(shown, titles, log)

    # An envelope tells an empty list by itself.
    failed = not shown and not click.get_current_context().params["as_json"]
    messages = notes if shown else (Diagnostic("note", "nothing-found", "nothing found"), *notes)
    return CommandResult(data, draw, failed=failed, diagnostics=notes, messages=messages)


def _time(written: str | None, *, to_its_end: bool = False) -> datetime | None:
    return None if written is None else moment(written, to_its_end=to_its_end)


def _more(hits: Sequence[Hit], limit: int) -> tuple[Diagnostic, ...]:
    if len(hits) <= limit:
        return ()
    return (
        Diagnostic(
            "note", "more", f"there are more: -n {limit * 5} shows so many, --conversation NAME narrows it"
        ),
    )


def _syntax(words: str) -> tuple[Diagnostic, ...]:
    faults = {
        "the quote is not closed: a phrase has one at each end": words.count('"') % 2 == 1,
        "OR stands between two words": bool(DANGLING.search(words)),
    }
    return tuple(Diagnostic("warning", "syntax", fault) for fault, is_there in faults.items() if is_there)


def _unknown(log: Log, conversation: str | None, agent: str) -> tuple[Diagnostic, ...]:
    searched = (
        log.names(archived=True, limit=ASKED, order="newest") if conversation is None else [conversation]
    )
    agents: set[str] = set()
    for name in searched:
        settings, state = folds.folds_at(log[name], (folds.SETTINGS, folds.STATE))
        agents.update({lane.agent for lane in state.lanes.values()}, settings.members)
    if agent in agents:
        return ()
    is_part = conversation is None and log.count(archived=True) > ASKED
    where = f"the {ASKED} newest conversations of {log.path}" if is_part else conversation or log.path
    return (Diagnostic("note", "unknown-agent", f"{where}: {no_agent(agent, sorted(agents))}"),)


def _in_groups(hits: Sequence[Hit], titles: Mapping[str, str], log: Log) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import wrapped

    digits = max((len(str(hit.position)) for hit in hits), default=0)
    for name, title in titles.items():
        yield line((short_name(log, name), "bold"), f"  {title}")
        for hit in hits:
            if hit.conversation == name:
                yield line((f"  {hit.position:>{digits}}", "bold"), *_heading(hit))
                yield wrapped(*_marked(hit), indent=digits + 4)


def _in_lines(hits: Sequence[Hit]) -> Iterator[Piece]:
    for hit in hits:
        yield line((f"{hit.conversation}@{hit.position}", "bold"), *_heading(hit))
        yield line("    ", *_marked(hit))


def _heading(hit: Hit) -> tuple[str | tuple[str, str], ...]:
    kind = f"  {KINDS.get(hit.kind, hit.kind)}", STYLES[hit.kind]
    return (f"  {in_zone(hit.time):%Y-%m-%d %H:%M}", "dim"), kind, f"  {hit.who}"


def _marked(hit: Hit) -> Iterable[str | tuple[str, str]]:
    at = 0
    for first, end in hit.marks:
        yield hit.snippet[at:first]
        yield hit.snippet[first:end], "bold yellow"
        at = end
    yield hit.snippet[at:]
