"""Command `bisect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import agent_or_only, takes_agent
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.cli.terminal import progress
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.apps.views.bisections import Axis

KINDS = (ModeSwitch, AssistantMessage, LlmError, UserMessage)
RECORDER = "tap"


@command("bisect", example="stenolog bisect demo --agent coder --holds pytest")
@click.option("--between", nargs=2, metavar="A B", help="The first and the last to try.")
@click.option("--holds", metavar="TEXT", help="Find what brought this text into the request, or took it.")
@click.option("--releases", metavar="CLIENT", help="Try a recorded program's releases; alone: list them.")
@click.option("--at", metavar="ENTRY", help="The request at this entry. Default: the last that was answered.")
@click.option("-v", "--verbose", is_flag=True, help="Every line that a release changed.")
@takes_agent
@takes_conversation
def bisect_command(
    db: Database,
    target: str,
    agent: str | None,
    between: tuple[str, str] | None,
    holds: str | None,
    releases: str | None,
    at: str | None,
    verbose: bool,
) -> CommandResult:
    """Find the entry or release that turned a judge.

    By a binary search. A judge is --holds. Exits with 1 if none can be named.
    """
    log = open_log(db)
    if releases is not None and holds is None:
        return _releases(log, releases, verbose=verbose)
    if holds is None:
        raise click.UsageError("expected a judge: --holds TEXT; or --releases CLIENT, to list releases")
    return _by_text(_entries(log, target, agent, at, between), holds)


def _by_text(axis: Axis, text: str) -> CommandResult:
    from stenolog.apps.views.bisections import by_text, judged_data

    judged = by_text(axis, text)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.bisection import bisection_drawn

        return bisection_drawn(judged)

    return CommandResult(judged_data(judged), draw, failed=judged.searched.found.verdict != "found")


def _entries(
    log: Log, target: str, agent: str | None, at: str | None, between: tuple[str, str] | None
) -> Axis:
    from stenolog.apps.views.bisections import of_entries, view_of_last_call

    conversation = find_conversation(log, target)
    head = resolve(conversation, at or "@")
    named = agent_or_only(conversation, agent, head)
    view = head if at else view_of_last_call(conversation, named, head)
    first, last = (resolve(conversation, word) for word in between) if between else (1, view - 1)
    return of_entries(conversation, named, view, first, last)


def _releases(log: Log, client: str, *, verbose: bool) -> CommandResult:
    from stenolog.apps.cli.draw.releases import releases_data, releases_drawn
    from stenolog.projections.analysis.drift import drift

    found = drift(_recorded(log), client)
    data = {"client": client, "roles": [releases_data(one) for one in found]}
    return CommandResult(data, lambda: releases_drawn(found, verbose=verbose))


def _recorded(log: Log) -> Iterator[tuple[str, Iterable[Entry]]]:
    """Yield the entries of recorded programs' conversations that say what a program sent."""
    from stenolog.adapters.conversation.queries.requests.lanes import origin_of
    from stenolog.adapters.store.reading import reader

    names = log.names(archived=True)
    for name in progress(names, "reading agents", len(names)):
        conversation = log[name]
        origin = origin_of(conversation)
        if origin is not None and origin.system == RECORDER:
            entries = reader.of_kinds(log.recorder, conversation.stream, KINDS, 0, None)
            yield name, (entry for entry in entries if isinstance(entry, Entry))
