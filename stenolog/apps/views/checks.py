"""Checks of a log as data: what was changed since it was written, and which requests are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.verifying.decisions import Decision, check_decisions
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.report import Anomaly, Problem, Report, WithoutReceipt, severity
from stenolog.adapters.conversation.verifying.requests import Proved, prove
from stenolog.adapters.importers.evidence.signing import is_signed
from stenolog.projections.requests.grades import GRADES

from .envelope import Diagnostic

DIFFERS, NOT_PROVABLE = "request-differs", "request-not-provable"
SIGNATURES: Mapping[str, str] = {
    "unsigned": "not signed",
    "not provable": "not provable: its call was erased",
    "wrong": "the signature is of another decision",
    "another key": "signed by a key that was not given",
}
TOLD = 5
"""So many requests of a conversation that differ are listed one by one: the first has the cause, and an edit
shows in all that come after it."""


class LogCheck(NamedTuple):
    """The result of a check of a log: the report, its data and notes, and whether a request differs."""

    report: Report
    data: dict[str, Any]
    notes: tuple[Diagnostic, ...]
    differs: bool

    @property
    def failed(self) -> bool:
        """True if something is not as it was."""
        return self.differs or not self.report.ok


def log_check(
    subject: Log | Conversation,
    *,
    head: str | None = None,
    requests: bool = False,
    strict: bool = False,
    approvers: Sequence[str] | None = None,
    jobs: int | None = 1,
    watch: Callable[[Iterable[Any], str, int | None], Iterable[Any]] | None = None,
) -> LogCheck:
    """Check a log or a conversation as `verify` does, with `requests` those that have a receipt too.

    `strict`: what cannot be proved is an error. With `approvers`, public keys in hexadecimal (none: any key),
    decisions about calls are checked. `watch` yields on what is checked, and may show progress.
    """
    report = verify(subject, head=head, watch=watch, jobs=jobs)
    proved: list[Proved] = []
    if requests:
        proofs: Iterable[Proved] = prove(subject, jobs=jobs)
        number = len(report.conversations)
        proved = [*(watch(proofs, "building requests again", number) if watch else proofs)]
    receipts = list(request_notes(proved, strict=strict))
    decisions = None if approvers is None else check_decisions(subject, approvers, is_signed)
    data = {
        "conversations": report.conversations,
        "blobs": report.blobs,
        "head": report.head or None,
        "ends": report.ends,
        "anomalies": len(report.anomalies),
        "requests": request_data(proved) if requests else None,
        "without_receipt": report.without_receipt,
        "approvals": decisions,
        "severity": severity(report, (proof.outcome for one in proved for proof in one.proofs)),
    }
    receipts += receipt_notes(report.without_receipt, strict=strict)
    receipts += _decision_notes(decisions or (), strict=strict)
    notes = (
        *(_problem(problem) for problem in report.problems),
        *(_anomaly(anomaly) for anomaly in report.anomalies),
        *(Diagnostic("note", "unproved", note) for note in report.notes),
        *receipts,
    )
    return LogCheck(report, data, notes, any(note.severity == "error" for note in receipts))


def _problem(problem: Problem) -> Diagnostic:
    where = f"{problem.conversation!r} at {problem.position}" if problem.conversation else "the database"
    message = (
        f"{where}: {problem.pointer or problem.code}: expected {problem.expected}, found {problem.found}"
    )
    place = (problem.conversation, problem.position, problem.pointer)
    return Diagnostic("error", problem.code, message, *place)


def _decision_notes(decisions: Iterable[Decision], *, strict: bool) -> Iterator[Diagnostic]:
    for one in decisions:
        if one.outcome in ("signed", "policy"):
            continue
        who = f" by {one.identity}" if one.identity else ""
        is_wrong = strict or one.outcome in ("wrong", "another key")
        message = f"{one.conversation!r} at {one.position}: {one.action} of {one.tool or 'a call'}{who}: "
        message += SIGNATURES[one.outcome]
        place = one.conversation, one.position
        yield Diagnostic("error" if is_wrong else "note", "approval", message, *place)


def _anomaly(anomaly: Anomaly) -> Diagnostic:
    lane = f" ({anomaly.lane})" if anomaly.lane else ""
    message = f"{anomaly.conversation!r} at {anomaly.position}{lane}: {anomaly.what}"
    return Diagnostic("warning", "anomaly", message, anomaly.conversation, anomaly.position)


def request_data(proved: Sequence[Proved]) -> dict[str, Any]:
    """Return the number of requests that are the same, and each one that is not.

    `grades` are those of other programs' requests that are the same.
    """
    found = [(conversation.conversation, proof) for conversation in proved for proof in conversation.proofs]
    grades = Counter(proof.grade for _, proof in found if proof.grade is not None)
    return {
        "same": sum(proof.outcome == "same" for _, proof in found),
        "grades": {grade: grades[grade] for grade in GRADES},
        **{
            outcome: [
                {"conversation": name, **proof._asdict()} for name, proof in found if proof.outcome == outcome
            ]
            for outcome in ("differs", "not-provable")
        },
    }


def request_notes(proved: Sequence[Proved], *, strict: bool) -> Iterator[Diagnostic]:
    """Yield the first requests that differ; those that cannot be proved by the missing thing."""
    for conversation in proved:
        differ = [proof for proof in conversation.proofs if proof.outcome == "differs"]
        for proof in differ[:TOLD]:
            what = f"the request of {proof.lane} at {proof.view} on {proof.api} differs: {proof.reason}"
            where = (conversation.conversation, proof.position)
            yield Diagnostic("error", DIFFERS, f"{where[0]!r} at {where[1]}: {what}", *where)
        if len(differ) > TOLD:
            message = f"{conversation.conversation!r}: {len(differ) - TOLD} more differ; --json lists them"
            yield Diagnostic("error", DIFFERS, message, conversation.conversation)
        reasons = Counter(proof.reason for proof in conversation.proofs if proof.outcome == "not-provable")
        for reason, number in sorted(reasons.items()):
            message = f"{conversation.conversation!r}: {number} not provable: {reason}"
            yield Diagnostic("error" if strict else "note", NOT_PROVABLE, message, conversation.conversation)


def receipt_notes(without: Sequence[WithoutReceipt], *, strict: bool) -> Iterator[Diagnostic]:
    """Yield a note on each agent's answers without a receipt: the first one, and the days."""
    for agent, days in groupby(without, lambda one: one.agent):
        found = [*days]
        span = " to ".join(dict.fromkeys((found[0].day, found[-1].day)))
        more = sum(one.answers for one in found) - 1
        others = f" and {more:,} more of {agent} have" if more else f" of {agent} has"
        where = f"{found[0].conversation}@{found[0].position}"
        message = f"{where}: this answer{others} no receipt ({span}): nothing proves what was sent"
        place = found[0].conversation, found[0].position
        yield Diagnostic("error" if strict else "note", "answer-without-receipt", message, *place)
