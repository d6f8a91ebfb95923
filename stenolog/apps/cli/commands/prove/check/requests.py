"""Command `check requests`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import click

from stenolog.apps.cli.arguments.agent import takes_apis
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversations, open_log
from stenolog.apps.cli.arguments.options import takes_conversation, takes_format, takes_jobs
from stenolog.apps.cli.draw.check_summary import CheckResults, is_listed, summarized, takes_verbose
from stenolog.apps.cli.draw.skipped_conversations import refusal
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line
from stenolog.apps.cli.terminal import Bar
from stenolog.projections.formats.checks import Violation

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.adapters.conversation.verifying.requests import CheckedRequests
    from stenolog.projections.requests.proofs import Checked


from stenolog.apps.cli.commands.prove.check.log import NONE


@command("requests", example="stenolog check requests demo --all-prefixes")
@click.option("--all-prefixes", is_flag=True, help="At every entry, not only the last.")
@takes_apis
@takes_format
@takes_jobs
@takes_verbose
@takes_conversation
def check_requests_command(
    db: Database, target: str, all_prefixes: bool, apis: tuple[str, ...], jobs: int | None, verbose: bool
) -> CommandResult:
    """Check every agent's next request by its provider's laws."""
    found = checked_requests(
        open_log(db), target, all_prefixes=all_prefixes, apis=apis or None, jobs=jobs, verbose=verbose
    )
    return summarized(found, CheckResults(requests=found))


def checked_requests(
    log: Log,
    target: str,
    *,
    all_prefixes: bool = False,
    apis: tuple[str, ...] | None = None,
    jobs: int | None = None,
    verbose: bool = False,
) -> CommandResult:
    """Return the requests that break a law of their provider."""
    from stenolog.adapters.conversation.verifying.parallel import heads
    from stenolog.adapters.conversation.verifying.requests import check

    names = [conversation.name for conversation in find_conversations(log, target)]
    checks = check(log, names, apis=apis, all_prefixes=all_prefixes, jobs=jobs)
    found = _by_conversation(_watched(checks, sum(heads(log, names).values())))
    notes = tuple(note for one in found for note in one.notes)
    data = {
        "conversations": [one.conversation for one in found],
        "all_prefixes": all_prefixes,
        "requests": sum(one.requests for one in found),
        "invalid": sum(one.invalid for one in found),
        "not_built": sum(not one.whole for one in found),
    }
    shown = [one for one in found if is_listed(len(found), bool(one.notes), verbose=verbose)]
    return CommandResult(
        data,
        lambda: map(_requests_line, shown) if found else [NONE],
        bool(notes),
        diagnostics=notes,
        checked=tuple(one.conversation for one in found),
    )


class RequestsFound(NamedTuple):
    """A conversation: its checked requests, the number that break a law, and each violation.

    `whole`: every request was built; else a note says why not.
    """

    conversation: str
    requests: int
    invalid: int
    notes: tuple[Diagnostic, ...]
    whole: bool = True


def _watched(found: Iterable[CheckedRequests], total: int) -> Iterator[CheckedRequests]:
    done = 0
    with Bar("checking", total) as bar:
        for one in found:
            yield one
            done += len(one.positions)
            bar(done)


def _by_conversation(found: Iterable[CheckedRequests]) -> list[RequestsFound]:
    return [_together(name, parts) for name, parts in groupby(found, lambda one: one.conversation)]


def _together(name: str, parts: Iterator[CheckedRequests]) -> RequestsFound:
    requests = invalid = 0
    notes: list[Diagnostic] = []
    for part in parts:
        requests += part.requests
        invalid += len(part.invalid)
        notes += [_violation(name, one, broken) for one in part.invalid for broken in one.violations]
        if part.error:
            return RequestsFound(name, requests, invalid, (*notes, refusal(name, part.error)), whole=False)
    return RequestsFound(name, requests, invalid, tuple(notes))


def _violation(conversation: str, request: Checked, broken: Violation) -> Diagnostic:
    message = (
        f"{conversation!r} at {request.position}: the request of {request.lane} on {request.api} "
        f"breaks {broken.law} at {broken.pointer}: {broken.found}"
    )
    return Diagnostic("error", broken.law, message, conversation, request.position, broken.pointer)


def _requests_line(found: RequestsFound) -> Piece:
    mark = ("✗ ", "red") if found.notes else ("✓ ", "green")
    rest = "" if found.whole else ", the rest cannot be built"
    words = f": {counted(found.requests, 'request')}, {found.invalid:,} invalid{rest}"
    return line(mark, found.conversation, words, kept=1 if found.whole else 0)
