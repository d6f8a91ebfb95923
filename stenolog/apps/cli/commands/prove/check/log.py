"""Command `check log`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation, takes_format, takes_jobs
from stenolog.apps.cli.draw.check_summary import CheckResults, is_listed, messages, summarized, takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, TextLine, counted, line
from stenolog.apps.cli.terminal import progress

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.adapters.conversation.verifying.report import Report


NONE = line(("✓ ", "green"), counted(0, "conversation"))
"""The message for a log without conversations."""


@command("log", example="stenolog check log --requests --strict")
@click.option("--head", metavar="HEAD", help="A head kept elsewhere, which must be there.")
@click.option("--print-head", is_flag=True, help="Print only the head, to keep elsewhere, if nothing failed.")
@click.option("--requests", is_flag=True, help="Build each recorded request again, and compare.")
@click.option("--strict", is_flag=True, help="Fail if a request is not recorded or provable.")
@takes_format
@takes_jobs
@takes_verbose
@takes_conversation
def check_log_command(
    db: Database,
    target: str,
    head: str | None,
    print_head: bool,
    requests: bool,
    strict: bool,
    jobs: int | None,
    verbose: bool,
) -> CommandResult:
    """Check that the log is as it was written.

    Computes every digest, link, blob and checkpoint again, and the history of names and deletions. Without a
    conversation it ends with the head of the whole log: one hash, which covers all of it.
    """
    found = checked_log(
        open_log(db), target, head=head, requests=requests, strict=strict, jobs=jobs, verbose=verbose
    )
    if print_head and not found.failed:
        return found._replace(draw=lambda: [_head(found.data)])
    return summarized(found, CheckResults(log=found))


def _head(data: Any) -> str:
    return str(data["head"] or (data["conversations"][0].digest if data["conversations"] else ""))


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
    """Return what is wrong with the log, or with one conversation."""
    from stenolog.apps.views.checks import log_check

    subject = find_conversation(log, target) if target else log
    found = log_check(subject, head=head, requests=requests, strict=strict, jobs=jobs, watch=progress)
    proved: dict[str, Any] | None = found.data["requests"]

    def draw() -> Iterator[Piece]:
        yield from _log_lines(found.report, verbose=verbose)
        if proved is not None:
            yield request_line(proved, failed=found.differs)

    shown = messages(found.notes, verbose=verbose)
    names = tuple(one.conversation for one in found.report.conversations)
    return CommandResult(found.data, draw, found.failed, found.notes, messages=shown, checked=names)


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
        yield line(mark, "the head of the log, which covers names, deletions and every conversation")
        yield f"  {report.head}"


def request_line(data: dict[str, Any], *, failed: bool) -> TextLine:
    """212 requests: 210 same, 1 differs, 1 not provable."""
    same, differs, unproved = data["same"], len(data["differs"]), len(data["not-provable"])
    if not same + differs + unproved:
        return line(("· ", "cyan"), "no request was recorded, so there is none to build again")
    mark = ("✗ ", "red") if failed else ("✓ ", "green")
    total = counted(same + differs + unproved, "request")
    graded = ", ".join(f"{number:,} {grade}" for grade, number in data["grades"].items() if number)
    recorded = f"; recorded: {graded}" if graded else ""
    return line(mark, f"{total}: {same:,} same, {differs:,} differs, {unproved:,} not provable{recorded}")
