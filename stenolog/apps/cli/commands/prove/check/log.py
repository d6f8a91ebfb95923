"""Command `check log`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation, takes_format, takes_jobs
from stenolog.apps.cli.arguments.time import now
from stenolog.apps.cli.draw.check_summary import CheckResults, is_listed, messages, summarized, takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, TextLine, counted, line, when
from stenolog.apps.cli.terminal import progress

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.adapters.conversation.verifying.decisions import Decision
    from stenolog.adapters.conversation.verifying.report import Report


NONE = line(("✓ ", "green"), counted(0, "conversation"))
"""The message for a log without conversations."""


@command("log", example="stenolog check log --requests --strict")
@click.option(
    "--consistent-with",
    "--head",
    "head",
    metavar="HEAD|FILE",
    help="Compare with a head kept elsewhere.",
)
@click.option("--publish", is_flag=True, help="Print only the head, to keep elsewhere, if nothing failed.")
@click.option("--requests", is_flag=True, help="Build recorded requests again.")
@click.option("--approvals", is_flag=True, help="List who approved calls; check signatures.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="An approver's public key, or its file.")
@click.option("--strict", is_flag=True, help="Fail if a request or an approval is not provable.")
@takes_format
@takes_jobs
@takes_verbose
@takes_conversation
def check_log_command(
    db: Database,
    target: str,
    head: str | None,
    publish: bool,
    requests: bool,
    approvals: bool,
    keys: tuple[str, ...],
    strict: bool,
    jobs: int | None,
    verbose: bool,
) -> CommandResult:
    """Check that the log is as it was written.

    Computes every digest, link, blob and checkpoint again, and the history of names and deletions; ends with
    the head of the log, one hash that covers all of it.
    """
    kept = None if head is None else _last_head(head)
    found = checked_log(
        open_log(db),
        target,
        head=kept,
        requests=requests,
        approvers=_approvers(keys) if approvals or keys else None,
        strict=strict,
        jobs=jobs,
        verbose=verbose,
    )
    if publish and not found.failed:
        return found._replace(draw=lambda: [_published(found.data)])
    return summarized(found, CheckResults(log=found))


def _published(data: Any) -> str:
    """Return the head, the time and what the head covers, as a line of JSON."""
    published = {"head": data["head"], "time": when(now()), "ends": data["ends"]}
    if data["head"] is None:
        (one,) = data["conversations"]
        covered = {"conversation": one.conversation, "position": one.position}
        published = {"head": one.digest, "time": published["time"], **covered}
    return json.dumps(published, ensure_ascii=False, separators=(",", ":"))


def _approvers(keys: Sequence[str]) -> list[str]:
    from stenolog.adapters.importers.evidence.signing import read_public_key

    try:
        return [read_public_key(key).hex() for key in keys]
    except OSError as error:
        raise click.UsageError(f"--key: {error.filename}: {error.strerror}") from error


def _last_head(written: str) -> str:
    """Return the head, or the last line of a file of published heads."""
    path = Path(written)
    if written.startswith("{"):
        return written
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise FileNotFoundError(None, "no such file, and no head", written)
        return written
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{written}: expected published heads: {error}") from error
    return next((line for line in reversed(lines) if line.strip()), "")


def checked_log(
    log: Log,
    target: str,
    *,
    head: str | None = None,
    requests: bool = False,
    approvers: Sequence[str] | None = None,
    strict: bool = False,
    jobs: int | None = None,
    verbose: bool = False,
) -> CommandResult:
    """Return what is wrong with the log, or with one conversation."""
    from stenolog.apps.views.checks import log_check

    subject = find_conversation(log, target) if target else log
    found = log_check(
        subject,
        head=head,
        requests=requests,
        approvers=approvers,
        strict=strict,
        jobs=jobs,
        watch=progress,
    )
    proved: dict[str, Any] | None = found.data["requests"]

    def draw() -> Iterator[Piece]:
        yield from _log_lines(found.report, verbose=verbose)
        if proved is not None:
            yield request_line(proved, failed=found.differs)
        if approvers is not None:
            yield from _decision_lines(found.data["approvals"])

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


def _decision_lines(decisions: Sequence[Decision]) -> Iterator[Piece]:
    if not decisions:
        yield line(("· ", "cyan"), "nobody decided about a call")
    for one in decisions:
        mark = ("✓ ", "green") if one.outcome == "signed" else ("· ", "cyan")
        who = one.identity or ("a policy" if one.outcome == "policy" else "someone unnamed")
        key = f", key {one.key[:12]}…" if one.key else ""
        verb = {"approve": "approved", "answer": "answered"}.get(one.action, "refused")
        yield line(mark, f"{one.conversation}@{one.position}: {one.tool} {verb} by {who}{key}: {one.outcome}")


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
