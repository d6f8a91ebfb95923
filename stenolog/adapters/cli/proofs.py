"""`replay`, `verify`, `fsck`: what can be proved about a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, Transition, step
from stenolog.projections.requests.prefixes import Invalid, invalid_requests

from .answer import Answer, Diagnostic
from .lines import Piece, line
from .receipts import request_data, request_line, request_notes
from .screen import progress
from .shell import chosen, command, found, opened, takes_conversation
from .views import step_lines

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation
    from stenolog.adapters.verify import Anomaly, Problem, Report


class Replay(NamedTuple):
    """A fold from zero: every transition, the state it led to, and whether the log says the same."""

    conversation: str
    transitions: tuple[Transition, ...]
    state: State
    digest: str
    equal: bool


def replayed(talk: Conversation) -> Replay:
    """Fold the conversation from its first entry, and compare with the state that the log gives."""
    state: State = INITIAL
    made: list[Transition] = []
    for entry in progress(talk.entries(), f"replaying {talk.name}", talk.position):
        state, transitions = step(state, entry)
        made += transitions
    return Replay(talk.name, tuple(made), state, talk.digest, state == talk.state(upto=state.position))


@command("replay")
@takes_conversation
def replay_command(db: Path, conversation: str) -> Answer:
    """Fold the log from zero, show each transition with its decision, and compare with the kept state."""
    replay = replayed(found(opened(db), conversation))
    return Answer(replay, lambda: replay_lines(replay), failed=not replay.equal)


def replay_lines(replay: Replay) -> Iterator[Piece]:
    """The transitions, and what they prove."""
    yield from step_lines(replay.transitions)
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


@command("verify")
@click.option("--head", metavar="SHA", help="A digest kept elsewhere: it must stand in the log.")
@click.option("--requests", is_flag=True, help="Build each request that has a receipt again, and compare.")
@click.option("--strict", is_flag=True, help="With --requests: one that is not provable is a failure too.")
@takes_conversation
def verify_command(db: Path, conversation: str, head: str | None, requests: bool, strict: bool) -> Answer:
    """Work out anew every digest, link, payload, blob and checkpoint; name what is not as it was written."""
    from stenolog.adapters.proving import prove
    from stenolog.adapters.verify import verify

    if strict and not requests:
        raise click.UsageError("--strict goes with --requests")
    log = opened(db)
    subject = found(log, conversation) if conversation else log
    report = verify(subject, head=head, watch=progress)
    proved = list(progress(prove(subject), "building requests again")) if requests else []
    receipts = list(request_notes(proved, strict=strict))
    data = {
        "conversations": report.conversations,
        "blobs": report.blobs,
        "anomalies": len(report.anomalies),
        "requests": request_data(proved) if requests else None,
    }
    notes = (
        *(_problem(problem) for problem in report.problems),
        *(_anomaly(anomaly) for anomaly in report.anomalies),
        *(Diagnostic("note", "unproved", note) for note in report.notes),
        *receipts,
    )
    differs = any(note.severity == "error" for note in receipts)

    def draw() -> Iterator[Piece]:
        yield from _verify_lines(report)
        if requests:
            yield request_line(request_data(proved), failed=differs)

    return Answer(data, draw, failed=differs or not report.ok, diagnostics=notes)


def _problem(problem: Problem) -> Diagnostic:
    where = f"{problem.conversation!r} at {problem.position}" if problem.conversation else "the database"
    message = (
        f"{where}: {problem.pointer or problem.code}: expected {problem.expected}, found {problem.found}"
    )
    place = (problem.conversation, problem.position, problem.pointer)
    return Diagnostic("error", problem.code, message, *place)


def _anomaly(anomaly: Anomaly) -> Diagnostic:
    lane = f" ({anomaly.lane})" if anomaly.lane else ""
    message = f"{anomaly.conversation!r} at {anomaly.position}{lane}: {anomaly.what}"
    return Diagnostic("warning", "anomaly", message, anomaly.conversation, anomaly.position)


def _verify_lines(report: Report) -> Iterator[Piece]:
    broken = {problem.conversation for problem in report.problems}
    for checked in report.conversations:
        mark = ("✗ ", "red") if checked.conversation in broken else ("✓ ", "green")
        words = f"{checked.conversation}: {checked.entries} entries, head at {checked.position}"
        yield line(mark, words, (f"  {checked.digest}", "dim"))
    if report.blobs:
        yield line(("✓ ", "green"), f"{report.blobs} blobs")


@command("fsck")
@click.option("--all-prefixes", is_flag=True, help="At every position, and not at the last one alone.")
@takes_conversation
def fsck_command(db: Path, conversation: str, all_prefixes: bool) -> Answer:
    """Build every agent's request on every wire, and name each law of its provider that one breaks."""
    talks = chosen(opened(db), conversation)
    broken = {
        talk.name: list(
            invalid_requests(
                progress(talk.entries(), f"checking {talk.name}", talk.position),
                all_prefixes=all_prefixes,
                blobs=talk.log.blobs,
            )
        )
        for talk in talks
    }
    notes = tuple(_breach(name, invalid) for name, found in broken.items() for invalid in found)
    data = {"conversations": list(broken), "all_prefixes": all_prefixes, "invalid": len(notes)}
    return Answer(data, lambda: _fsck_lines(broken), failed=bool(notes), diagnostics=notes)


def _breach(conversation: str, invalid: Invalid) -> Diagnostic:
    law = invalid.breach
    message = (
        f"{conversation!r} at {invalid.position}: the request of {invalid.lane} on {invalid.wire} "
        f"breaks {law.law} at {law.pointer}: {law.found}"
    )
    return Diagnostic("error", law.law, message, conversation, invalid.position, law.pointer)


def _fsck_lines(broken: dict[str, list[Invalid]]) -> Iterator[Piece]:
    for name, invalid in broken.items():
        mark = ("✗ ", "red") if invalid else ("✓ ", "green")
        yield line(mark, f"{name}: {len(invalid)} invalid requests")
