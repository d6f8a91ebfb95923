"""Findings of a check for CI: workflow commands of GitHub, SARIF 2.1.0, JUnit's XML."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from stenolog._version import __version__
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Severity, counted
from stenolog.projections.terminal_text import safe, safe_json

HOME = "https://github.com/stenolog/stenolog"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ORDER: tuple[Severity, ...] = ("error", "warning", "note")
"""The gravest first: GitHub shows ten of each kind."""


class Found(NamedTuple):
    """Findings about the checked files or conversations; those of the `fails` severities fail them."""

    notes: tuple[Diagnostic, ...]
    checked: tuple[str, ...]
    fails: tuple[Severity, ...]


def found_by(answer: CommandResult, database: str = "") -> Found:
    """Return what a check found. A finding without a file is about the database."""
    placed = (note if note.file else note._replace(file=database) for note in answer.diagnostics)
    notes = sorted(placed, key=lambda note: ORDER.index(note.severity))
    return Found(tuple(notes), answer.checked, answer.fails)


def github(found: Found) -> Iterator[str]:
    """Yield a workflow command for each error and warning; no text that was read can begin another."""
    for note in found.notes:
        if note.severity == "note":
            continue
        given = {"file": _in_repository(note.file), "line": note.line or "", "title": note.code}
        where = ",".join(f"{name}={_escaped(str(value), ',:')}" for name, value in given.items() if value)
        yield f"::{note.severity} {where}::{_escaped(note.message)}"
    numbers = (sum(note.severity == each for note in found.notes) for each in ORDER)
    counts = ", ".join(counted(number, each) for number, each in zip(numbers, ORDER, strict=True) if number)
    yield f"{len(found.checked):,} checked: {counts or 'nothing found'}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in safe(text))


def _in_repository(file: str) -> str:
    path = Path(file)
    with suppress(ValueError, OSError):
        path = path.absolute().relative_to(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    return path.as_posix() if file else ""


def sarif(found: Found) -> Iterator[str]:
    """Yield one SARIF log."""
    rules = list(dict.fromkeys(note.code for note in found.notes))
    driver = {"name": "stenolog", "version": __version__, "informationUri": HOME}
    run = {
        "tool": {"driver": {**driver, "rules": [{"id": code} for code in rules]}},
        "results": [_result(note, rules.index(note.code)) for note in found.notes],
    }
    yield safe_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(note: Diagnostic, rule: int) -> dict[str, Any]:
    message = {"text": _without_links(note.message)}
    result = {"ruleId": note.code, "ruleIndex": rule, "level": note.severity, "message": message}
    location: dict[str, Any] = {}
    if note.file:
        location["physicalLocation"] = {"artifactLocation": _artifact(_in_repository(note.file))}
    if note.line:
        location["physicalLocation"]["region"] = {"startLine": note.line}
    if note.conversation:
        at = "" if note.position is None else f"@{note.position}{note.pointer}"
        location["logicalLocations"] = [{"fullyQualifiedName": f"{note.conversation}{at}"}]
    return {**result, "locations": [location]} if location else result


def _artifact(place: str) -> dict[str, str]:
    if Path(place).is_absolute():
        return {"uri": Path(place).as_uri()}
    return {"uri": quote(os.fsencode(place)), "uriBaseId": "%SRCROOT%"}


def _without_links(text: str) -> str:
    return re.sub(r"\{(\d+)\}", r"{{\1}}", re.sub(r"\[(?=[^\]]*\]\()", r"\\[", text))


def junit(found: Found) -> Iterator[str]:
    """Yield a suite with a test for each file or conversation."""
    cases: dict[str, list[Diagnostic]] = {name: [] for name in found.checked}
    for note in found.notes:
        known = (name for name in (note.file, note.conversation) if name in cases)
        cases.setdefault(next(known, note.file or note.conversation or "stenolog"), []).append(note)
    failed = sum(any(note.severity in found.fails for note in notes) for notes in cases.values())
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites><testsuite name="stenolog" tests="{len(cases)}" failures="{failed}" errors="0">'
    for name, notes in cases.items():
        yield f'<testcase classname="stenolog.check" name={quoteattr(_xml(name))}>'
        bad = [note for note in notes if note.severity in found.fails]
        others = [note for note in notes if note.severity not in found.fails]
        if bad:
            given = f"type={quoteattr(_xml(bad[0].code))} message={quoteattr(_xml(bad[0].message))}"
            yield f"<failure {given}>{_lines(bad)}</failure>"
        if others:
            yield f"<system-out>{_lines(others)}</system-out>"
        yield "</testcase>"
    yield "</testsuite></testsuites>"


def _lines(notes: list[Diagnostic]) -> str:
    at = ((note, f"line {note.line}: " if note.line else "") for note in notes)
    return escape(
        _xml("\n".join(f"{note.severity}: {line}{note.message} ({note.code})" for note, line in at))
    )


def _xml(text: str) -> str:
    return re.sub("[\ufffe\uffff]", "\ufffd", safe(text))


REPORTS: Mapping[str, Callable[[Found], Iterator[str]]] = {"github": github, "sarif": sarif, "junit": junit}
"""The formats of a report by the names that `--format` has."""
