"""Command `check file`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.importers.conversion.answers import INTERRUPTED, NO_RESULT
from stenolog.adapters.importers.detection.folders import size_of
from stenolog.adapters.importers.importer import import_file
from stenolog.apps.cli.arguments.agent import print_raw, takes_agent_else
from stenolog.apps.cli.arguments.options import RegisteredName
from stenolog.apps.cli.chat.status import is_words
from stenolog.apps.cli.commands.change.import_ import diagnostics
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, line
from stenolog.apps.cli.terminal import FILES, Bytes, say, there
from stenolog.apps.views.asked_request import request_data
from stenolog.apps.views.lanes import request_of
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import StenologError
from stenolog.domain.events import ToolResult
from stenolog.domain.lanes.decide import not_run_results
from stenolog.projections.analysis.explain import PREVIEW
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Omission, Request, lanes
from stenolog.projections.requests.sendable import no_agent

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.domain.entry import Entry

ORDINARY = frozenset({"tool-stub", "nothing-said", "trailing-thinking", "opening-note", "media-as-text"})
"""Repairs that a sound log needs too: a foreign log has no cards, and not every API takes everything."""
LONGEST_FILE = 44
OUTCOMES = {"imported": "green", "no conversation": "yellow", "refused": "red"}


class Finding(NamedTuple):
    """Findings in one file; `requests` are those of its agents, by conversation."""

    file: str
    format: str
    outcome: str
    entries: int = 0
    notes: tuple[Diagnostic, ...] = ()
    requests: tuple[tuple[tuple[Entry, ...], Request], ...] = ()

    @property
    def problems(self) -> list[Diagnostic]:
        return [note for note in self.notes if note.severity != "note"]


@command("file", example="stenolog check file session.jsonl")
@takes_agent_else("default: the first that speaks")
@click.option(
    "--api", metavar="API", type=RegisteredName(FORMATS), help="Default: that of the session's answers."
)
@click.option("--raw", is_flag=True, help="Only the repaired body.")
@FILES
def check_file_command(
    files: tuple[Path, ...], agent: str | None, api: str | None, raw: bool
) -> CommandResult | None:
    """Say what is wrong with transcripts.

    And show a request that would be accepted. Nothing is stored.
    """
    for file in files:
        there(file)
    if len(files) > 1:
        if raw or agent:
            raise click.UsageError("--raw and --agent are for one file")
        return _of_many([_examined_or_refused(file, api) for file in files])
    one = _examined(files[0], api)
    shown = _choose(one, agent)
    if raw and shown:
        if note := _preview(shown[1]):
            say(note, mark="·", style="cyan")
        print_raw(shown[1])
        return None
    data = [{**_data(one), "request": request_data(shown[1]) if shown else None}]
    return CommandResult(
        data, lambda: _all_sections(one, shown), failed=bool(one.problems), diagnostics=one.notes
    )


def _of_many(found: list[Finding]) -> CommandResult:
    notes = tuple(note for one in found for note in one.notes)
    failed = any(one.problems for one in found)
    return CommandResult([_data(one) for one in found], lambda: _table(found), failed, notes, messages=())


def _examined_or_refused(file: Path, api: str | None) -> Finding:
    try:
        return _examined(file, api)
    except (StenologError, OSError) as error:
        note = Diagnostic("error", type(error).__name__, f"{file}: {error}")
        return Finding(str(file), "", "refused", notes=(note,))


def _examined(file: Path, api: str | None) -> Finding:
    """Import the file into memory, and build every agent's request."""
    with open_log(":memory:") as log, Bytes(f"examining {file.name}", size_of(file)) as bar:
        report = import_file(log, file, progress=bar)
        conversations = [log[found.name] for found in report.conversations if found.name in log]
        entries = sum(conversation.position for conversation in conversations)
        closed = [note for conversation in conversations for note in _closed(conversation)]
        requests = [built for conversation in conversations for built in _requests(conversation, api)]
        anomalies = [note for conversation in conversations for note in _anomalies(conversation)]
        repairs = [note for _, request in requests for note in _repairs(file, request)]
        return Finding(
            file=report.file,
            format=report.format,
            outcome="imported" if report.holds_a_conversation else "no conversation",
            entries=entries,
            notes=(*diagnostics(report), *anomalies, *closed, *dict.fromkeys(repairs)),
            requests=tuple(requests),
        )


def _closed(conversation: Conversation) -> Iterator[Diagnostic]:
    """Close calls made obsolete by a person's later message; yield all closed ones."""
    entries = list(conversation.entries())
    spoken = max((entry.position for entry in entries if is_words(entry)), default=0)
    left = [call for _, call in conversation.state().open_calls() if call.position < spoken]
    results = zip(left, not_run_results(left, INTERRUPTED), strict=True)
    entries += conversation.extend(
        [NewEntry(result, f"{call.entry}:{call.nth}{NO_RESULT}") for call, result in results]
    )
    at = {entry.id: entry.position for entry in entries}
    for entry in entries:
        if entry.id.endswith(NO_RESULT) and isinstance(entry.event, ToolResult) and entry.event.call:
            position = at[entry.event.call.entry]
            words = f"mended: {entry.event.name} has no result, and a person went on"
            where = f"{conversation.name!r} at {position}"
            yield Diagnostic(
                "warning", "call-without-result", f"{where}: {words}", conversation.name, position
            )


def _requests(conversation: Conversation, api: str | None) -> Iterator[tuple[tuple[Entry, ...], Request]]:
    entries = tuple(conversation.entries())
    for lane in lanes(entries):
        yield entries, request_of(conversation, lane.address, conversation.position, api)


def _anomalies(conversation: Conversation) -> Iterator[Diagnostic]:
    for step in conversation.transitions():
        if step.anomaly:
            words = f"{conversation.name!r} at {step.position}: {step.anomaly}"
            yield Diagnostic("warning", "anomaly", words, conversation.name, step.position)


def _repairs(file: Path, request: Request) -> Iterator[Diagnostic]:
    for part in request.repairs:
        position = part.first if isinstance(part, Omission) else min(part.positions, default=None)
        where = f" at {position}" if position else ""
        severity = "note" if part.rule in ORDINARY else "warning"
        words = f"{file.name}{where}: mended: {RULES[part.rule]} ({part.rule})"
        yield Diagnostic(severity, part.rule, words, position=position)  # type: ignore[arg-type]


def _choose(found: Finding, agent: str | None) -> tuple[tuple[Entry, ...], Request] | None:
    if agent is None:
        return next(iter(found.requests), None)
    known = {_lane(request): (entries, request) for entries, request in found.requests}
    if agent not in known:
        raise click.UsageError(f"{found.file}: {no_agent(agent, [*known])}")
    return known[agent]


def _lane(request: Request) -> str:
    return f"{request.agent}/{request.task}" if request.task else request.agent


def _data(found: Finding) -> dict[str, Any]:
    agents = list(dict.fromkeys(_lane(request) for _, request in found.requests))
    problems = dict(Counter(note.code for note in found.problems))
    fields = {"file": found.file, "format": found.format, "outcome": found.outcome, "entries": found.entries}
    return {**fields, "agents": agents, "problems": problems}


def _all_sections(found: Finding, shown: tuple[tuple[Entry, ...], Request] | None) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import wrapped
    from stenolog.apps.cli.draw.views import drawn_request

    style = OUTCOMES[found.outcome]
    yield line(
        (found.file, "bold"), f"  {found.format}  ", (found.outcome, style), f"  {found.entries} entries"
    )
    if shown:
        yield from drawn_request(shown[1], shown[0])
    preview = _preview(shown[1]) if shown else ""
    if not found.problems:
        yield line(("✓ ", "green"), f"nothing is wrong{' with the transcript' if preview else ''}")
    if preview:
        yield wrapped(("· ", "cyan"), preview, hang=2)


def _preview(request: Request) -> str:
    """Return why nobody would send the request, and whether a note closes it; empty if sendable."""
    if request.ready:
        return ""
    closed = any(part.rule == PREVIEW for part in request.parts)
    end = "; with a closing note the provider would take it" if closed else ""
    return f"nothing to send: {request.reason}{end}"


def _table(found: list[Finding]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading

    for one in found:
        yield line(
            (f"{one.outcome:<16}", OUTCOMES[one.outcome]),
            f"{one.format:<12}",
            f"{one.entries or '':>7}  ",
            f"{_end_of(one.file):<{LONGEST_FILE}}  ",
            (_in_short(one), "dim"),
        )
    yield heading("by format")
    formats = Counter((one.format or "none of ours", one.outcome) for one in found)
    for (form, outcome), count in sorted(formats.items()):
        yield line(f"{count:>5}  ", f"{form:<14}  ", (outcome, OUTCOMES[outcome]))


def _end_of(file: str) -> str:
    return file if len(file) <= LONGEST_FILE else f"…{file[1 - LONGEST_FILE :]}"


def _in_short(found: Finding) -> str:
    if found.outcome == "refused":
        reason = found.notes[0].message.removeprefix(f"{found.file}: ")
        return reason.partition(", found ")[2] or reason
    return ", ".join(
        f"{count} {code}" for code, count in Counter(note.code for note in found.problems).items()
    )
