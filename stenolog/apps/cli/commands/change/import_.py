"""Command `import`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.importers.detection.detect import supported, why_refused
from stenolog.adapters.importers.detection.folders import SUFFIXES, files_in, size_of
from stenolog.adapters.importers.importer import import_file, import_files, import_stream
from stenolog.adapters.importers.intake.report import Imported, Refused, Report
from stenolog.adapters.programs.claude_code import SESSIONS
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.draw.layout import wrapped
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line, new_entries, paragraph
from stenolog.apps.cli.terminal import FILES, Bytes, say, there
from stenolog.domain.errors import UnknownFormatError

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log


KEYS, MAPPED = "an object with the keys", "--mapping FILE says where it has its messages"
STDIN = Path("-")
"""The path that means stdin."""


@command("import", example=f"stenolog import {SESSIONS}")
@click.option("--name", help="Name the conversation. Default: its own name, or the file's.")
@click.option("--again", is_flag=True, help="Import deleted conversations again.")
@click.option("--keep-raw", is_flag=True, help="Keep the files too, as blobs.")
@click.option(
    "--key",
    "agents",
    metavar="KEY=NAME",
    multiple=True,
    help="Name the agent with this public key; repeatable.",
)
@click.option(
    "--mapping",
    type=click.Path(path_type=Path),
    help="TOML or JSON: where messages are.",
)
@click.option("--zone", default="", help="Of times without one. Default: UTC.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show each conversation.",
)
@FILES
@takes_db
def import_command(
    db: Database,
    files: tuple[Path, ...],
    name: str | None,
    again: bool,
    keep_raw: bool,
    agents: tuple[str, ...],
    mapping: Path | None,
    zone: str,
    verbose: bool,
) -> CommandResult:
    """Import transcripts, exports, or a stenolog database.

    Files are recognised by their content; folders are searched. If a file has grown, only new entries are
    appended. - reads stdin. A database comes with its forks and digests: all or nothing.
    """
    given = dict(map(_key_and_name, agents))
    options: dict[str, Any] = {"keep_raw": keep_raw, "agents": given, "again": again, "mapping": mapping}
    options["zone"] = zone
    if STDIN in files:
        if len(files) > 1:
            raise click.UsageError("- is stdin: expected no other file beside it")
        report = import_stream(open_log(db, create=True), sys.stdin.buffer, name=name, **options)
        return _answer([report], 0, verbose=verbose)
    others: list[Path] = []
    paths = paths_of(files, others)
    if name and len(paths) > 1:
        raise click.UsageError("--name is for one file")
    log = open_log(db, create=True)
    done: list[Report | Refused] = []
    try:
        done.extend(_imported(log, paths, name, options))
    except KeyboardInterrupt:
        _say_how_far(done, len(paths))
        raise
    return _answer(done, len(others), verbose=verbose)


def paths_of(given: Sequence[Path], others: list[Path]) -> list[Path]:
    """Return the files to import; add those that folders skip by name to `others`.

    Raises `UnknownFormatError` if folders have none, FileNotFoundError for a missing path.
    """
    paths = [file for path in given for file in files_in(there(path), passed_over=others.append)]
    if not paths:
        wanted = f"files that end with {', '.join(sorted(SUFFIXES))}"
        raise UnknownFormatError(f"expected {wanted} in {', '.join(map(str, given))}, found none")
    return paths


def _imported(
    log: Log, paths: list[Path], name: str | None, options: dict[str, Any]
) -> Iterator[Report | Refused]:
    """Import the files and yield each outcome; a single file's refusal is an error."""
    quiet = bool(click.get_current_context().params["as_json"])
    with Bytes("importing", sum(map(size_of, paths)), quiet=quiet) as bar:
        files = bar.counting(paths)
        if len(paths) == 1:
            try:
                yield import_file(log, next(files), name=name, progress=bar, **options)
            except UnknownFormatError as error:
                hint = f"; {MAPPED}" if KEYS in str(error) else ""
                raise UnknownFormatError(f"{paths[0]}: {error}{hint}") from None
        else:
            yield from import_files(log, files, progress=bar, **options)


def _say_how_far(done: list[Report | Refused], files: int) -> None:
    refused = [each for each in done if isinstance(each, Refused)]
    for note in said_of(each for each in refused if not each.as_before):
        if note.severity == "error":
            say(note.message, mark="✗", style="red")
    words = f"{len(done) - len(refused)} of {files} files are imported" + (
        f", {len(refused)} refused" if refused else ""
    )
    words = words if files > 1 else "a part of the file may be imported"
    say(f"interrupted: {words}; the same command goes on from there", mark="!", style="yellow")


def _key_and_name(given: str) -> tuple[str, str]:
    key, is_there, name = given.partition("=")
    if not (key and is_there and name):
        raise click.UsageError(f"--key: expected KEY=NAME, found {given!r}")
    return key, name


def _answer(done: list[Report | Refused], passed_over: int, *, verbose: bool) -> CommandResult:
    """Report one file by conversations, several by one line; `verbose`: in detail."""
    reports = [each for each in done if isinstance(each, Report)]
    is_short = not verbose and len(done) > 1
    is_many = len(done) > 1 or bool(passed_over)
    deleted = sum(len(report.left_out) for report in reports)
    teams = [_write_team(report) for report in reports if report.team]
    reports_shown = [report for report in reports if not report.team]
    refused = [each for each in done if isinstance(each, Refused)]
    held = [note for report in reports for note in diagnostics(report)]
    notes = [
        Diagnostic("error", type(error).__name__, f"{file}: {error}") for file, error, _ in refused
    ] + held
    if passed_over:
        notes.append(Diagnostic("note", "passed-over", f"{counted(passed_over, 'file')} skipped by name"))
    mute = ("note",) if is_short else ()
    return CommandResult(
        reports,
        lambda: (*teams, *(() if is_short else lines(reports_shown, verbose=verbose))),
        failed=any(note.severity == "error" for note in notes),
        diagnostics=tuple(notes),
        messages=(
            *said_of(each for each in refused if verbose or not each.as_before),
            *(note for note in held if note.code != "empty" and note.severity not in mute),
        ),
        closing=(
            *([summary(reports, refused, passed_over, "-v shows each" if is_short else "")] * is_many),
            *([line(*left_out(deleted))] * bool(deleted)),
        ),
    )


def _write_team(report: Report) -> Piece:
    """Write a team's file here. Raises `UsageError` if one exists."""
    path = Path(report.file).with_suffix(".toml").name
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(report.team)
    except FileExistsError:
        raise click.UsageError(f"{path} is here already: move it away, and import again") from None
    return line(
        ("✓ ", "green"), (path, "bold"), f"  a team; stenolog run {path}", (f"  {report.format}", "dim")
    )


def left_out(count: int) -> tuple[str | tuple[str, str], ...]:
    """Say that so many deleted conversations were not imported again."""
    was, it = ("was", "it") if count == 1 else ("were", "them")
    words = f"{counted(count, 'deleted conversation')} {was} left out"
    return EMPTY, words, (f"  import --again FILE brings {it} back", "dim")


EMPTY, NOTHING = ("· ", "cyan"), "nothing to import"
NAMED = 5
"""So many files that are refused for the same reason are named."""


def diagnostics(report: Report) -> Iterator[Diagnostic]:
    """Yield the records that could not be imported, and the repairs."""
    for conversation in report.conversations:
        if conversation.failed:
            yield Diagnostic(
                "error",
                "failed",
                f"{report.file}: {conversation.name}: {conversation.failed}",
                conversation.name,
            )
        for what, count in conversation.ignored.items():
            if what.startswith("missing: "):
                words = f"{report.file}: {conversation.name}: {what}: {count}"
                yield Diagnostic("warning", "missing", words, conversation.name)
    skipped = [("", skip) for skip in report.skipped]
    for conversation in report.conversations:
        whose = f"{conversation.name}: " if len(report.conversations) > 1 else ""
        skipped += ((whose, skip) for skip in conversation.skipped)
    for whose, skip in skipped:
        words = f"{report.file}: {whose}{skip.unit} {skip.line}: {skip.reason}"
        line = skip.line if skip.unit == "line" else None
        yield Diagnostic("warning", "skipped", words, file=report.file, line=line)
    if report.team:
        return
    if report.incomplete:
        words = "the end is cut off; import it again once it has grown"
        yield Diagnostic("note", "incomplete", f"{report.file}: {words}")
    for what, count in report.repaired.items():
        yield Diagnostic("note", "repaired", f"{report.file}: {what}: {count}")
    if not report.holds_a_conversation:
        yield Diagnostic("note", "empty", f"{report.file}: it has no messages")


def said_of(refused: Iterable[Refused]) -> Iterator[Diagnostic]:
    """Yield the refusals, one for each reason, and the known formats once."""
    expected = f"expected {supported()}"
    alike: dict[tuple[str, str], list[str]] = {}
    is_expected = False
    for file, error, _ in refused:
        alike.setdefault((type(error).__name__, why_refused(error)), []).append(file)
        is_expected |= str(error).startswith(expected)
    for (code, why), files in alike.items():
        yield Diagnostic("error", code, f"{_some(files)}: {why}")
    if is_expected:
        yield Diagnostic("note", "expected", expected)


def _some(files: Sequence[str]) -> str:
    if len(files) == 1:
        return files[0]
    more = f" and {len(files) - NAMED:,} more (--json names them)" if len(files) > NAMED else ""
    return f"{len(files):,} files, {', '.join(files[:NAMED])}{more}"


def lines(reports: Iterable[Report], *, verbose: bool) -> Iterator[Piece]:
    """Yield each conversation, its forks, and what became no messages."""
    for report in reports:
        for conversation in report.conversations:
            yield line(
                _status(conversation),
                (conversation.name, "bold"),
                f"  {_counts(conversation)}",
                (f"  {report.format}", "dim"),
            )
            for fork in conversation.forks:
                yield line(("  └ ", "dim"), f"{fork}  a branch that was left")
            if verbose and conversation.ignored:
                kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(conversation.ignored.items()))
                yield wrapped((f"not messages: {kinds}", "dim"), hang=2, indent=2)
        for deleted in report.left_out:
            yield line(EMPTY, (deleted.name, "bold"), "  deleted, left out", (f"  {report.file}", "dim"))
        if not (report.conversations or report.left_out):
            yield line(EMPTY, (report.file, "bold"), f"  {NOTHING}", (f"  {report.format}", "dim"))


def _status(conversation: Imported) -> tuple[str, str]:
    if conversation.failed:
        return "✗ ", "red"
    return ("✓ ", "green") if conversation.appended or conversation.already else EMPTY


def _counts(conversation: Imported) -> str:
    if not (conversation.appended or conversation.already or conversation.failed):
        return NOTHING
    return new_entries(conversation.appended, conversation.already)


def summary(reports: Sequence[Report], refused: Sequence[Refused], passed_over: int, more: str = "") -> Piece:
    """Return the line for all files; `more` says how to see the rest."""
    conversations = [conversation for report in reports for conversation in report.conversations]
    total = Imported(
        "",
        sum(conversation.appended for conversation in conversations),
        sum(conversation.already for conversation in conversations),
    )
    files = counted(len(reports) + len(refused), "file")
    old = sum(each.as_before for each in refused)
    out = f"; {len(refused):,} refused" if refused else ""
    out += f", {'as' if old == len(refused) else f'{old:,} as'} before" if old else ""
    into = counted(
        len({each.name for each in conversations if each.appended or each.already}), "conversation"
    )
    others = f"; {passed_over:,} skipped" if passed_over else ""
    rest = f" ({more})" if more else ""
    # It wraps: a line that is cut would lose its hint.
    return paragraph(f"{files}: {into}, {_counts(total)}{out}{others}{rest}", "bold")
