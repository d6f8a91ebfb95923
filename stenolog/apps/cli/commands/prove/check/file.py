"""Command `check file`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.importers.conversion.answers import INTERRUPTED, NO_RESULT
from stenolog.adapters.importers.detection.detect import why_refused
from stenolog.adapters.importers.detection.folders import size_of
from stenolog.adapters.importers.door.files import regular_file
from stenolog.adapters.importers.door.record_lines import lines_of
from stenolog.adapters.importers.importer import import_file
from stenolog.apps.cli.arguments.agent import print_raw, takes_agent_else
from stenolog.apps.cli.arguments.options import RegisteredName, takes_format, takes_grades
from stenolog.apps.cli.chat.status import is_words
from stenolog.apps.cli.commands.change.import_ import diagnostics, paths_of
from stenolog.apps.cli.draw.check_summary import takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, Severity, counted, line
from stenolog.apps.cli.terminal import FILES, Bytes, say
from stenolog.apps.views.asked_request import request_data
from stenolog.apps.views.lanes import request_of
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import StenologError
from stenolog.domain.events import ToolResult
from stenolog.domain.lanes.decide import not_run_results
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Omission, Request, lanes
from stenolog.projections.requests.pipeline.tool_groups import PREVIEW_RULE
from stenolog.projections.requests.sendable import no_agent

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.domain.entry import Entry

FAILS: dict[str, tuple[Severity, ...]] = {"error": ("error",), "warning": ("error", "warning")}
"""The severities that fail a check, by the option `--fail-on`."""
LOST = "skipped"
"""The code of a record that no entry was made of: an error in a check, while an import goes on."""
ORDINARY = frozenset({"tool-stub", "nothing-said", "trailing-thinking", "opening-note", "media-as-text"})
"""Repairs that a sound log needs too: a foreign log has no cards, and not every API takes everything."""
LONGEST_FILE = 44
OUTCOMES = {"imported": "green", "no conversation": "yellow", "refused": "red"}


class Grades(NamedTuple):
    """The severities that fail a check, and the codes of findings that are left out."""

    fails: tuple[Severity, ...] = FAILS["error"]
    ignored: frozenset[str] = frozenset()


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
        return [note for note in self.notes if note.severity in FAILS["warning"]]

    def graded(self, grades: Grades) -> Finding:
        """Return the findings without those that are ignored."""
        return self._replace(notes=tuple(note for note in self.notes if note.code not in grades.ignored))


@command("file", example="stenolog check file session.jsonl")
@takes_agent_else("default: the first that speaks")
@click.option(
    "--api", metavar="API", type=RegisteredName(FORMATS), help="Default: that of the session's answers."
)
@click.option("--raw", is_flag=True, help="Only the repaired body.")
@takes_grades
@takes_verbose
@takes_format
@FILES
def check_file_command(
    files: tuple[Path, ...],
    agent: str | None,
    api: str | None,
    raw: bool,
    fail_on: str,
    ignored: tuple[str, ...],
    verbose: bool,
) -> CommandResult | None:
    """Say what is wrong with transcripts.

    With -v or --agent, show a request that would be accepted. Nothing is stored.
    """
    paths = paths_of(files, [])
    if len(paths) > 1 and (raw or agent):
        raise click.UsageError("--raw and --agent are for one file")
    if not raw:
        return checked_files(paths, Grades(FAILS[fail_on], frozenset(ignored)), agent, api, verbose=verbose)
    one = _examined(paths[0], api)
    if shown := _choose(one, agent):
        if note := _preview(shown[1]):
            say(note, mark="·", style="cyan")
        print_raw(shown[1])
        return None
    return _of_one(one, None, Grades())


def checked_files(
    files: Sequence[Path],
    grades: Grades,
    agent: str | None = None,
    api: str | None = None,
    *,
    verbose: bool = False,
) -> CommandResult:
    """Return what is wrong with transcripts, and of one of them a request."""
    if len(files) == 1:
        one = _examined_or_refused(files[0], api).graded(grades)
        shown = _choose(one, agent) if one.outcome != "refused" else None
        return _of_one(one, shown, grades, verbose=verbose or agent is not None)
    found = [_examined_or_refused(file, api).graded(grades) for file in files]
    notes = tuple(note for one in found for note in one.notes)
    return CommandResult(
        [_data(one) for one in found],
        lambda: _table(found, verbose=verbose),
        _has_failed(notes, grades),
        notes,
        messages=notes if verbose else (),
        closing=(_verdict(notes, grades),),
        checked=tuple(one.file for one in found),
        fails=grades.fails,
    )


def _of_one(
    one: Finding,
    shown: tuple[tuple[Entry, ...], Request] | None,
    grades: Grades,
    *,
    verbose: bool = False,
) -> CommandResult:
    """Return the result of one file: what it is, the findings, and at the end a request."""
    return CommandResult(
        [{**_data(one), "request": request_data(shown[1]) if shown else None}],
        lambda: _what(one),
        failed=_has_failed(one.notes, grades),
        diagnostics=one.notes,
        closing=(*_end(shown, verbose=verbose), _verdict(one.notes, grades)),
        checked=(one.file,),
        fails=grades.fails,
    )


def _verdict(notes: Sequence[Diagnostic], grades: Grades) -> Piece:
    counts = Counter(note.severity for note in notes)
    words = ", ".join(counted(counts[each], each) for each in FAILS["warning"] if counts[each])
    mark = ("✗ ", "red") if _has_failed(notes, grades) else ("✓ ", "green")
    return line(mark, words or "nothing is wrong")


def _has_failed(notes: Iterable[Diagnostic], grades: Grades) -> bool:
    return any(note.severity in grades.fails for note in notes)


def _examined_or_refused(file: Path, api: str | None) -> Finding:
    try:
        return _examined(file, api)
    except (StenologError, OSError) as error:
        note = Diagnostic("error", type(error).__name__, f"{file}: {why_refused(error)}", file=str(file))
        return Finding(str(file), "", "refused", notes=(note,))


def _examined(file: Path, api: str | None) -> Finding:
    """Import the file into memory, and build every agent's request."""
    with open_log(":memory:") as log, Bytes(f"examining {file.name}", size_of(file)) as bar:
        report = import_file(log, file, progress=bar)
        conversations = [log[found.name] for found in report.conversations if found.name in log]
        number = sum(conversation.position for conversation in conversations)
        closed = [note for conversation in conversations for note in _closed(conversation)]
        requests = [built for conversation in conversations for built in _requests(conversation, api)]
        anomalies = [note for conversation in conversations for note in _anomalies(conversation)]
        repairs = [note for entries, request in requests for note in _repairs(file, request, entries)]
        read = (
            note._replace(severity="error") if note.code == LOST else note for note in diagnostics(report)
        )
        notes = (*read, *anomalies, *closed, *dict.fromkeys(repairs))
        return Finding(
            file=report.file,
            format=report.format,
            outcome="imported" if report.holds_a_conversation else "no conversation",
            entries=number,
            notes=tuple(_located(file, conversations, notes)),
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


def _repairs(file: Path, request: Request, entries: tuple[Entry, ...]) -> Iterator[Diagnostic]:
    for part in request.repairs:
        position = part.first if isinstance(part, Omission) else min(part.positions, default=None)
        where = f" at {position}" if position else ""
        severity = "note" if part.rule in ORDINARY else "warning"
        words = f"{file.name}{where}: mended: {RULES[part.rule]} ({part.rule})"
        whose = entries[0].conversation
        yield Diagnostic(severity, part.rule, words, whose, position)  # type: ignore[arg-type]


def _located(
    file: Path, conversations: Sequence[Conversation], notes: Sequence[Diagnostic]
) -> Iterator[Diagnostic]:
    """Yield the notes with the file, and the line that became the entry of each, if that is known."""
    named = {conversation.name: conversation for conversation in conversations}
    ids = {
        place: _ids(named[place[0]].entry(place[1]))
        for note in notes
        if note.conversation in named and note.position and (place := (note.conversation, note.position))
    }
    lines: dict[str, int] = {}
    if ids and file.is_file():
        with regular_file(file) as stream:
            lines = lines_of(stream, {id for some in ids.values() for id in some})
    for note in notes:
        own = ids.get((note.conversation, note.position or 0), ())
        line = note.line or next((lines[id] for id in own if id in lines), None)
        yield note._replace(file=str(file), line=line)


def _ids(entry: Entry) -> tuple[str, ...]:
    source = getattr(entry.event, "source", None)
    return (*source.lines, source.id) if source else ()


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


def _what(found: Finding) -> Iterator[Piece]:
    style = OUTCOMES[found.outcome]
    yield line(
        (found.file, "bold"), f"  {found.format}  ", (found.outcome, style), f"  {found.entries} entries"
    )


def _end(shown: tuple[tuple[Entry, ...], Request] | None, *, verbose: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import wrapped
    from stenolog.apps.cli.draw.views import drawn_request

    if shown and verbose:
        yield from drawn_request(shown[1], shown[0])
    if shown and (preview := _preview(shown[1])):
        yield wrapped(("· ", "cyan"), preview, hang=2)


def _preview(request: Request) -> str:
    if request.ready:
        return ""
    closed = any(part.rule == PREVIEW_RULE for part in request.parts)
    end = "; with a closing note the provider would take it" if closed else ""
    return f"nothing to send: {request.reason}{end}"


def _table(found: list[Finding], *, verbose: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading

    for one in found:
        if not (verbose or one.problems):
            continue
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
        return (reason.partition(", found ")[2] or reason).removeprefix("found ")
    return ", ".join(
        f"{count} {code}" for code, count in Counter(note.code for note in found.problems).items()
    )
