"""Command `check gate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.apps.cli.arguments.agent import takes_apis
from stenolog.apps.cli.arguments.database import Database, DatabaseParameter
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db, takes_format
from stenolog.apps.cli.draw.skipped_conversations import SkippedConversations
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, Severity, counted, line
from stenolog.apps.cli.terminal import FILE, PLAIN_FILE, STDOUT, progress, whole_or_not_at_all
from stenolog.domain.errors import (
    InvalidEventError,
    StenologError,
    StoredDataError,
)
from stenolog.domain.policy import Policy, policy
from stenolog.domain.policy_text import policy_of
from stenolog.projections.analysis import regression
from stenolog.projections.analysis.regression import Compared, Digest, Fresh, Header
from stenolog.projections.formats import FORMATS

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

DATABASE = DatabaseParameter(dir_okay=False, path_type=Path)
SEVERITIES: dict[str, Severity] = {"changed": "error", "vanished": "error", "new": "note"}
STYLES = {"changed": "red", "vanished": "red", "new": "yellow"}


@command("gate", example="stenolog check gate --against gate.jsonl")
@click.argument("dbs", metavar="[DB]...", nargs=-1, type=DATABASE)
@click.option(
    "-o",
    "--output",
    "out",
    type=FILE,
    help="Write the digests here; - for stdout.",
)
@click.option("--against", type=PLAIN_FILE, help="List differences from this file.")
@takes_apis
@takes_format
@click.option("--policy", "written", metavar="POLICY", help="Default: each agent's own.")
@takes_db
def check_gate_command(
    db: Database,
    dbs: tuple[Database, ...],
    out: Path | None,
    against: Path | None,
    apis: tuple[str, ...],
    written: str | None,
) -> CommandResult:
    """Write the digests of all requests, or compare with a file.

    Exits with 1 if a request of the older file would be different today, or missing.
    """
    logs = _logs(dbs or (db,))
    passed = SkippedConversations({_name(each): str(each) for each in dbs or (db,)})
    if against is None:
        head = regression.header({name: FORMATS[name] for name in apis or FORMATS}, policy_of(written))
        requests = _requests(logs, head, passed)
        if out is None or out == STDOUT:
            made = [request.digest for request in requests]
            return _streamed(head, made, passed, is_asked=out == STDOUT)
        fresh = (Compared(each.place, "same") for each in _written(requests, head, out))
        return _answer(head, head, out, fresh, passed, compared=False)
    if out == STDOUT:
        raise click.UsageError("with --against, say where the digests go: --output FILE")
    with against.open(encoding="utf-8", errors="replace") as older:
        then = _of_apis(_header(older, against), apis)
        head = _same_question(then, policy_of(written))
        digests = (digest for digest in _digests(older, against) if digest.place.api in then.apis)
        requests = _requests(logs, head, passed)
        found = regression.compare(digests, _written(requests, head, out) if out else requests)
        return _answer(then, head, out, found, passed, compared=True)


def _logs(dbs: Iterable[Database]) -> dict[str, Log]:
    found: dict[str, Log] = {}
    for name, db in sorted(((_name(db), db) for db in dbs), key=itemgetter(0)):
        if name in found:
            raise InvalidEventError(f"expected databases of different names, found two called {name!r}")
        found[name] = open_log(db)
    return found


def _name(db: Database) -> str:
    return db.name if isinstance(db, Path) else str(db)


def _of_apis(then: Header, apis: tuple[str, ...]) -> Header:
    return then._replace(apis={n: version for n, version in then.apis.items() if not apis or n in apis})


def _same_question(then: Header, chosen: Policy | None) -> Header:
    """Return the older file's policy and APIs. Raises `NotRegisteredError` for an unknown one."""
    if chosen is not None and chosen.json != then.policy:
        theirs = "each agent's own" if then.policy is None else then.policy
        raise InvalidEventError(f"expected the policy of the older file, {theirs}, found {chosen.json}")
    known = {name: FORMATS[name] for name in then.apis}
    if not known:
        raise InvalidEventError(
            "expected an older file with the APIs that were asked for, found none of them"
        )
    return regression.header(known, None if then.policy is None else policy(then.policy))


def _header(older: TextIO, file: Path) -> Header:
    with _naming(file):
        return regression.read_header(older.readline())


def _digests(older: TextIO, file: Path) -> Iterator[Digest]:
    with _naming(file):
        yield from regression.read(older)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    try:
        yield
    except InvalidEventError as error:
        raise InvalidEventError(f"{file}: {error}") from None


def _requests(logs: dict[str, Log], head: Header, passed: SkippedConversations) -> Iterator[Fresh]:
    return progress(_built(logs, head, passed), "building requests")


def _built(logs: dict[str, Log], head: Header, passed: SkippedConversations) -> Iterator[Fresh]:
    given: dict[str, Any] = {"apis": {name: FORMATS[name] for name in head.apis}, "counters": COUNTERS}
    given["policy"] = None if head.policy is None else policy(head.policy)
    for db, log in logs.items():
        for name in sorted(log.names(archived=True)):

            def refused(lane: str, error: StenologError, db: str = db, name: str = name) -> None:
                passed.take(db, name, error, lane)

            request = regression.fresh(
                log[name].entries(strict=True), db=db, blobs=log.blobs, refused=refused, **given
            )
            try:
                yield from request
            except StoredDataError as error:
                passed.take(db, name, error)


def _written(requests: Iterable[Fresh], head: Header, out: Path) -> Iterator[Fresh]:
    with whole_or_not_at_all(out) as file:
        file.write(f"{regression.header_line(head)}\n")
        for request in requests:
            file.write(f"{regression.line(request.digest)}\n")
            yield request


def _streamed(
    head: Header, digests: Sequence[Digest], passed: SkippedConversations, *, is_asked: bool
) -> CommandResult:
    def data() -> Iterator[dict[str, Any]]:
        yield regression.header_data(head)
        yield from map(regression.data, digests)

    def draw() -> Iterator[Piece]:
        yield regression.header_line(head)
        yield from map(regression.line, digests)

    words = f"digests of {counted(len(digests), 'request')}: keep them with -o FILE, compare --against FILE"
    said = () if is_asked else (Diagnostic("note", "digests", words),)
    messages = (*passed.notes, *said)
    return CommandResult(data, draw, passed.failed, passed.notes, streams=True, messages=messages)


def _answer(
    then: Header,
    now: Header,
    out: Path | None,
    found: Iterable[Compared],
    passed: SkippedConversations,
    *,
    compared: bool,
) -> CommandResult:
    """Return every request's outcome; only differing ones are listed."""
    counts: Counter[str] = Counter()
    checked: dict[str, None] = {}
    listed: dict[str, list[Compared]] = {"changed": [], "vanished": [], "new": []}
    for one in found:
        counts[one.what] += 1
        checked[one.place.conversation] = None
        if one.what != "same":
            listed[one.what].append(one)
    data = {
        "requests": counts.total() - counts["vanished"],
        "compared": counts["same"] + counts["changed"] if compared else 0,
        **{what: [_flat(one) for one in some] for what, some in listed.items()},
        "then": then,
        "now": now,
        "file": None if out is None else str(out),
    }
    failed = passed.failed or bool(listed["changed"] or listed["vanished"])

    def draw() -> Iterator[Piece]:
        yield from _lines(listed)
        if then != now:
            yield line(("built then  ", "dim"), _versions(then))
            yield line(("built today ", "dim"), _versions(now))
        yield line(("✗ ", "red") if failed else ("✓ ", "green"), ", ".join(_outcome(data, compared)))

    notes = (*passed.notes, *(_note(one, passed.files) for some in listed.values() for one in some))
    return CommandResult(data, draw, failed, notes, messages=passed.notes, checked=tuple(checked))


def _note(one: Compared, files: Mapping[str, str]) -> Diagnostic:
    place, file = one.place, files.get(one.place.db, one.place.db)
    where = f"{place.conversation!r} at {place.position}: the request of {place.lane} on {place.api}"
    words = f"{where} is {one.what}" + (f": {one.difference}" if one.difference else "")
    return Diagnostic(SEVERITIES[one.what], one.what, words, place.conversation, place.position, file=file)


def _flat(one: Compared) -> dict[str, Any]:
    return {**one.place._asdict(), **({"difference": one.difference} if one.difference else {})}


def _lines(listed: dict[str, list[Compared]]) -> Iterator[Piece]:
    several = len({one.place.db for some in listed.values() for one in some}) > 1
    for what, some in listed.items():
        for one in some:
            place = one.place
            yield line(
                (f"{what:<8} ", STYLES[what]),
                (f"{place.db} " if several else "", "dim"), f"{place.conversation} at {place.position}",
                (f"  {place.lane}", "cyan"), (f"  {place.api}", "dim"), f"  {one.difference}",
            )  # fmt: skip


def _outcome(data: dict[str, Any], compared: bool) -> Iterator[str]:
    if compared:
        yield f"{counted(data['compared'], 'request')} compared"
        for what in ("changed", "vanished", "new"):
            number = len(data[what])
            if number or what == "changed":
                yield f"{number:,} {what}" if number else f"none {what}"
    else:
        yield counted(data["requests"], "request")
    if data["file"]:
        yield f"written to {data['file']}"


def _versions(header: Header) -> str:
    return ", ".join([header.pipeline, *(f"{name}@{version}" for name, version in header.apis.items())])
