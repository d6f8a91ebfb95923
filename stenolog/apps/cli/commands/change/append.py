"""Command `append`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.importers.own.given_entries import Placed, on_lines, parsed, read_given
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.arguments.time import moment
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, line, new_entries
from stenolog.domain.entry import NewEntry, check_name

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

STDIN = "-"
"""The argument that means stdin, with the text or the events."""
IN_WORDS = ("user", "system", "assistant")


@command("append", example="stenolog append demo --user 'And now?' --to coder")
@click.option("--user", metavar="TEXT", help="A person's message; - for stdin.")
@click.option("--system", metavar="TEXT", help="A message of the system.")
@click.option("--assistant", metavar="AGENT TEXT", nargs=2, help="An agent's answer.")
@click.option("--author", metavar="NAME", help="Who says it.")
@click.option("--to", metavar="AGENT", multiple=True, help="Whom it is for; repeatable.")
@click.option("--id", metavar="ID", help="The event's id.")
@click.option("--time", metavar="TIME", help="Default: now.")
@click.option(
    "--expected",
    metavar="ENTRY",
    type=click.IntRange(0),
    help="The conversation's last entry; 0: new.",
)
@click.argument("target", metavar="CONVERSATION", shell_complete=names)
@click.argument("events", metavar="[EVENT]...", nargs=-1)
@takes_db
def append_command(
    db: Database,
    target: str,
    events: tuple[str, ...],
    id: str | None,
    time: str | None,
    expected: int | None,
    **words: Any,
) -> CommandResult:
    """Append events to a conversation: all of them or none.

    An EVENT is JSON: {"kind": "user_message", "text": "Hi"}, or an entry as `export` writes it; without one,
    JSON Lines from stdin. A missing conversation is made. An id that exists is not appended again.
    """
    check_name(target, what="conversation")
    written = _in_words(**words)
    if written and events:
        raise click.UsageError("expected either words, as by --user, or EVENTs; found both")
    values = written or [*_values(events)]
    at = None if time is None else moment(time, to_its_end=False)
    log = open_log(db, create=True)
    given = read_given(values, log.blobs)
    if not given.entries:
        raise click.UsageError("expected an event, found none")
    if id is not None and len(given.entries) > 1:
        raise click.UsageError(f"--id is for one event; each of these {len(given.entries)} can have its own")
    log.blobs.put_all(given.blobs)
    return _appended(
        log,
        target,
        [each._replace(id=each.id if id is None else id, time=each.time or at) for each in given.entries],
        expected,
    )


def _values(events: Sequence[str]) -> Iterator[Placed]:
    if not events and sys.stdin.isatty():
        raise click.UsageError("expected --user TEXT or the like, an EVENT as JSON, or JSON Lines on stdin")
    if events in ((), (STDIN,)):
        yield from on_lines(sys.stdin.buffer.read())
    else:
        yield from (parsed(f"event {nth}", event) for nth, event in enumerate(events, 1))


def _in_words(author: str | None, to: tuple[str, ...], **given: Any) -> list[Placed]:
    """Return the event that options describe, as JSON, or nothing."""
    options = [name for name in IN_WORDS if given[name] is not None]
    if len(options) > 1:
        raise click.UsageError(f"expected one of --{', --'.join(IN_WORDS)}, found {len(options)}")
    if author is not None and options in ([], ["assistant"]):
        raise click.UsageError("--author goes with --user or --system")
    if to and not options:
        raise click.UsageError("--to goes with --user and the like; an EVENT has its own field")
    if not options:
        return []
    (name,) = options
    agent, text = given[name] if name == "assistant" else ("", given[name])
    if text == STDIN:
        text = _text(sys.stdin.buffer.read()).rstrip("\r\n")
    if not text.strip():
        raise click.UsageError(f"--{name}: expected words, found none")
    event: dict[str, Any] = {"kind": "assistant_message", "agent": agent}
    if name != "assistant":
        kind = "person" if name == "user" else name
        event = {"kind": "user_message", "author": author or "", "author_kind": kind}
    return [(f"--{name}", {**event, "text": text, "to": [*to]})]


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin: expected UTF-8, found the byte {content[error.start]:#x}") from None


def _appended(log: Log, name: str, entries: list[NewEntry], expected: int | None) -> CommandResult:
    from stenolog.adapters.conversation import log as logs  # late: --help needs no log

    conversation = log[name]
    is_new = name not in log
    items = logs.prepare_all(log, entries)
    records = log.recorder.append(items, conversation.stream, expected)
    found = logs.to_entries(conversation, entries, records)
    # An entry that stood there already keeps the random salt that it was written with.
    fresh = [
        entry for entry, record, item in zip(found, records, items, strict=True) if record.salt == item.salt
    ]
    already = len(found) - len(fresh)

    def draw() -> Iterator[Piece]:
        at = f" at {fresh[0].position}" if fresh else ""
        at += f"-{fresh[-1].position}" if len(fresh) > 1 else ""
        yield line(
            ("✓ " if fresh else "· ", "green" if fresh else "cyan"),
            (name, "bold"),
            f"  {new_entries(len(fresh), already)}{at}",
        )

    data = {"conversation": name, "appended": len(fresh), "already": already, "entries": found}
    notes = (Diagnostic("note", "new", f"{name} is a new conversation", name),) if is_new else ()
    return CommandResult(data, draw, diagnostics=notes)
