"""`check log`, `check requests`, `check replay`: what can be proved about a log and its requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, find_conversations, open_log
from stenolog.apps.cli.arguments.options import RegisteredName, takes_conversation
from stenolog.apps.cli.draw.check_summary import CheckResults, is_listed, messages, summarized, takes_verbose
from stenolog.apps.cli.draw.skipped_conversations import refusal
from stenolog.apps.cli.draw.step_lines import erased_among, step_lines
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, TextLine, counted, line
from stenolog.apps.cli.terminal import Bar, progress
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, Transition, step
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.checks import Violation

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.adapters.conversation.verifying.report import Report
    from stenolog.adapters.conversation.verifying.requests import CheckedRequests
    from stenolog.projections.requests.proofs import Checked


NONE = line(("✓ ", "green"), counted(0, "conversation"))
"""The message for a log without conversations."""
takes_jobs = click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="So many processes; else as many as pay.",
)


class Replay(NamedTuple):
    """A fold from zero: every transition, the state it led to, and whether the log says the same."""

    conversation: str
    transitions: tuple[Transition, ...]
    state: State
    digest: str
    equal: bool


def replayed(conversation: Conversation) -> Replay:
    """Fold the conversation from its first entry, and compare with the state that the log gives."""
    state: State = INITIAL
    made: list[Transition] = []
    for entry in progress(conversation.entries(), f"replaying {conversation.name}", conversation.position):
        state, transitions = step(state, entry)
        made += transitions
    return Replay(
        conversation.name,
        tuple(made),
        state,
        conversation.digest,
        state == conversation.state(at=state.position),
    )


@command("replay", example="stenolog check replay demo")
@takes_conversation
def check_replay_command(db: Database, target: str) -> CommandResult:
    """Fold the log from zero, and compare with the kept state.

    Each transition is shown with its decision.
    """
    conversation = find_conversation(open_log(db), target)
    replay = replayed(conversation)
    return CommandResult(
        replay,
        lambda: replay_lines(replay, erased_among(conversation, replay.transitions)),
        failed=not replay.equal,
    )


def replay_lines(replay: Replay, erased: Collection[int] = ()) -> Iterator[Piece]:
    """Yield the transitions, and the results of the comparison."""
    yield from step_lines(replay.transitions, erased)
    state = replay.state
    mark = ("✓ ", "green") if replay.equal else ("✗ ", "red")
    same = (
        "the state is the one that the log keeps"
        if replay.equal
        else "the state that the log keeps is another"
    )
    odd = f", {state.anomalies} anomalies" if state.anomalies else ""
    yield line(
        mark, f"{state.position} entries, {len(replay.transitions)} transitions{odd}: {same}",
        (f"  {replay.digest[:12]}…", "dim"),
    )  # fmt: skip


@command("log", example="stenolog check log --requests --strict")
@click.option(
    "--head",
    metavar="SHA",
    help="A head kept elsewhere: it must stand there.",
)
@click.option("--requests", is_flag=True, help="Build each request that has a receipt again, and compare.")
@click.option("--strict", is_flag=True, help="An answer without a receipt fails, or a request not provable.")
@takes_jobs
@takes_verbose
@takes_conversation
def check_log_command(
    db: Database, target: str, head: str | None, requests: bool, strict: bool, jobs: int | None, verbose: bool
) -> CommandResult:
    """Check that the log is as it was written.

    Every digest, link, payload, blob and checkpoint is computed again, and the history of names and
    deletions; each difference is named. Without a conversation, the head of the whole log is printed last.
    """
    found = checked_log(
        open_log(db), target, head=head, requests=requests, strict=strict, jobs=jobs, verbose=verbose
    )
    return summarized(found, CheckResults(log=found))


def checked_log(
    log: Log,
    target: str,
    *,
    head: str | None = None,
    requests: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    verbose: bool = False,
) -> CommandResult:
    """Return what is wrong with the log, or with one conversation of it."""
    from stenolog.apps.views.checks import log_check

    subject = find_conversation(log, target) if target else log
    found = log_check(subject, head=head, requests=requests, strict=strict, jobs=jobs, watch=progress)
    told: dict[str, Any] | None = found.data["requests"]

    def draw() -> Iterator[Piece]:
        yield from _log_lines(found.report, verbose=verbose)
        if told is not None:
            yield request_line(told, failed=found.differs)

    shown = messages(found.notes, verbose=verbose)
    return CommandResult(found.data, draw, found.failed, found.notes, messages=shown)


def _log_lines(report: Report, *, verbose: bool) -> Iterator[Piece]:
    broken = {problem.conversation for problem in report.problems}
    for one in report.conversations:
        if not is_listed(len(report.conversations), one.conversation in broken, verbose=verbose):
            continue
        mark = ("✗ ", "red") if one.conversation in broken else ("✓ ", "green")
        words = f": {counted(one.entries, 'entry', 'entries')}, head at {one.position}"
        yield line(mark, one.conversation, words, kept=1)
        yield f"  {one.digest}"
    if not report.conversations:
        yield NONE
    if report.blobs:
        yield line(("✓ ", "green"), counted(report.blobs, "blob"))
    if report.head and not report.head.startswith("0-"):  # nothing was ever written
        mark = ("✗ ", "red") if "" in broken else ("✓ ", "green")
        yield line(mark, "the log: names, deletions and all heads")
        yield f"  {report.head}"


@command("requests", example="stenolog check requests demo --all-prefixes")
@click.option("--all-prefixes", is_flag=True, help="At every position, and not at the last one alone.")
@click.option(
    "--api", "apis", metavar="API", multiple=True, type=RegisteredName(FORMATS), help="A provider; else all."
)
@takes_jobs
@takes_verbose
@takes_conversation
def check_requests_command(
    db: Database, target: str, all_prefixes: bool, apis: tuple[str, ...], jobs: int | None, verbose: bool
) -> CommandResult:
    """Check every agent's next request by its provider's laws.

    On every API; each violation is named. Of all conversations, where none is named.
    """
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
    made = check(log, names, apis=apis, all_prefixes=all_prefixes, jobs=jobs)
    found = _by_conversation(_watched(made, sum(heads(log, names).values())))
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
        data, lambda: map(_requests_line, shown) if found else [NONE], bool(notes), diagnostics=notes
    )


class RequestsFound(NamedTuple):
    """A conversation: how many of its requests were checked, how many break a law, and each violation.

    `whole`: every one that there could be was built; where a policy or an entry forbids that, a note says so.
    """

    conversation: str
    requests: int
    invalid: int
    notes: tuple[Diagnostic, ...]
    whole: bool = True


def _watched(found: Iterable[CheckedRequests], total: int) -> Iterator[CheckedRequests]:
    """Yield the findings and show a bar with the number of positions checked."""
    done = 0
    with Bar("checking", total) as bar:
        for one in found:
            yield one
            done += len(one.positions)
            bar(done)


def _by_conversation(found: Iterable[CheckedRequests]) -> list[RequestsFound]:
    """Combine the findings of each conversation, up to the first request that cannot be built."""
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
    words = f": {counted(found.requests, 'possible request')}, {found.invalid:,} invalid{rest}"
    return line(mark, found.conversation, words, kept=1 if found.whole else 0)


def request_line(data: dict[str, Any], *, failed: bool) -> TextLine:
    """212 requests: 210 same, 1 differs, 1 not provable."""
    same, differs, unproved = data["same"], len(data["differs"]), len(data["not-provable"])
    if not same + differs + unproved:
        return line(("· ", "cyan"), "no request has a receipt, so there is none to build again")
    mark = ("✗ ", "red") if failed else ("✓ ", "green")
    total = counted(same + differs + unproved, "request")
    graded = ", ".join(f"{number:,} {grade}" for grade, number in data["grades"].items() if number)
    recorded = f"; recorded: {graded}" if graded else ""
    return line(mark, f"{total}: {same:,} same, {differs:,} differs, {unproved:,} not provable{recorded}")
