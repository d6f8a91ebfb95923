"""Output of `import`: the result of each file, refused records with their reasons, and totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stenolog.adapters.importers.detect import supported
from stenolog.adapters.importers.importer import Refused
from stenolog.adapters.importers.report import Imported, Report

from .lines import Piece, line
from .result import Diagnostic
from .words import counted

EMPTY, NOTHING = ("· ", "cyan"), "nothing to import"
NAMED = 5
"""So many files that are refused for the same reason are named."""


def diagnostics(report: Report) -> Iterator[Diagnostic]:
    """Yield the records that could not be imported, and the repairs that were made."""
    for conversation in report.conversations:
        if conversation.failed:
            yield Diagnostic(
                "error",
                "failed",
                f"{report.file}: {conversation.name}: {conversation.failed}",
                conversation.name,
            )
    skipped = [("", skip) for skip in report.skipped]
    for conversation in report.conversations:
        whose = f"{conversation.name}: " if len(report.conversations) > 1 else ""
        skipped += ((whose, skip) for skip in conversation.skipped)
    for whose, skip in skipped:
        yield Diagnostic(
            "warning", "skipped", f"{report.file}: {whose}{skip.unit} {skip.line}: {skip.reason}"
        )
    if report.incomplete:
        words = "the end is cut off; import it again once it has grown"
        yield Diagnostic("note", "incomplete", f"{report.file}: {words}")
    for what, count in report.repaired.items():
        yield Diagnostic("note", "repaired", f"{report.file}: {what}: {count}")
    if not report.holds_a_conversation:
        yield Diagnostic("note", "empty", f"{report.file}: nobody says anything in it")


def said_of(refused: Iterable[Refused]) -> Iterator[Diagnostic]:
    """The refusals, those for one reason as one; what would have been taken is told once."""
    expected = f"expected {supported()}, "
    alike: dict[tuple[str, str], list[str]] = {}
    for file, error in refused:
        alike.setdefault((type(error).__name__, str(error)), []).append(file)
    for (code, why), files in alike.items():
        yield Diagnostic("error", code, f"{_some(files)}: {why.removeprefix(expected)}")
    if any(why.startswith(expected) for _, why in alike):
        yield Diagnostic("note", "expected", expected.removesuffix(", "))


def _some(files: Sequence[str]) -> str:
    if len(files) == 1:
        return files[0]
    more = f" and {len(files) - NAMED:,} more (--json names them)" if len(files) > NAMED else ""
    return f"{len(files):,} files, {', '.join(files[:NAMED])}{more}"


def lines(reports: Iterable[Report]) -> Iterator[Piece]:
    """Each conversation, and below it what was kept of it elsewhere, or not as messages."""
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
            if conversation.beyond:
                kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(conversation.beyond.items()))
                yield line((f"  not messages: {kinds}", "dim"))
        if not report.conversations:
            yield line(EMPTY, (report.file, "bold"), f"  {NOTHING}", (f"  {report.format}", "dim"))


def _status(conversation: Imported) -> tuple[str, str]:
    if conversation.failed:
        return "✗ ", "red"
    return ("✓ ", "green") if conversation.appended or conversation.already else EMPTY


def _counts(conversation: Imported) -> str:
    """Describe the result for a conversation; one without messages is not made."""
    if not (conversation.appended or conversation.already or conversation.failed):
        return NOTHING
    already = f", {conversation.already} were there already" if conversation.already else ""
    return f"{conversation.appended} {'entry' if conversation.appended == 1 else 'entries'}{already}"


def summary(reports: Sequence[Report], refused: Sequence[Refused], passed_over: int, more: str = "") -> Piece:
    """All files together; `more` says how the rest is shown."""
    conversations = [conversation for report in reports for conversation in report.conversations]
    total = Imported(
        "",
        sum(conversation.appended for conversation in conversations),
        sum(conversation.already for conversation in conversations),
    )
    files = counted(len(reports) + len(refused), "file")
    out = f", {len(refused):,} of them refused" if refused else ""
    others = f"; {counted(passed_over, 'other')} passed over" if passed_over else ""
    rest = (f"  {more}", "dim") if more else ""
    return line((f"{files}{out}, {_counts(total)}{others}", "bold"), rest)
