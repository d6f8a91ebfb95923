"""Command `erase`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line
from stenolog.apps.cli.terminal import ask
from stenolog.apps.views.positions import position_ranges
from stenolog.projections.analysis.quotes import quoting

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


@command("erase", example="stenolog erase demo 4 --reason 'a password'")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", default="", help="Why; kept in the log.")
@click.option("--by", metavar="NAME", help="Who erases. Default: the system's user.")
@click.option("--subject", metavar="TEXT", default="", help="Entries of all conversations with this text.")
@click.option("--author", metavar="NAME", default="", help="Entries of all conversations by this author.")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@click.argument("entries", metavar="[ENTRIES...]", nargs=-1)
@takes_db
def erase_command(
    db: Database,
    target: str,
    entries: Sequence[str],
    yes: bool,
    reason: str,
    by: str | None,
    subject: str,
    author: str,
) -> CommandResult:
    """Erase the words of entries permanently.

    From the log's own files, not from session files, exports and backups. Number and digest stay, so the log
    can still be checked. `stenolog explain text` finds quotes. Entries: 8 41, or 40-44,91. With --subject or
    --author it shows them first, and exits with 1 if something stays.
    """
    if [bool(entries), bool(subject), bool(author)].count(True) != 1 or bool(target) != bool(entries):
        raise click.UsageError("expected CONVERSATION ENTRIES, or one of --subject and --author")
    if subject or author:
        _check_can_ask(yes)
        from ._erase_subject import erase_everywhere

        return erase_everywhere(open_log(db), text=subject, author=author, yes=yes, reason=reason, by=by)
    from ._erase_subject import elsewhere, sources

    conversation = find_conversation(open_log(db), target)
    spans = position_ranges(entries, partial(resolve, conversation))
    chosen = list(dict.fromkeys(at for span in spans for at in range(span.first, span.last + 1)))
    _check_can_ask(yes)
    which = ("entry " if len(chosen) == 1 else "entries ") + ", ".join(map(str, chosen))
    if not yes:
        ask(f"Erase what {which} of {conversation.name!r} says, for good?", "nothing was erased")
    systems = sources(conversation, chosen)
    quoted = quoting(conversation.entries(), chosen)
    erased = conversation.erase(*chosen, reason=reason, by=by)

    def draw() -> Iterator[Piece]:
        yield line(("✓ ", "green"), f"{conversation.name}: erased: {which}")
        for name, position in erased.recorded_at.items():
            yield f"· recorded: {name} at {position}"
        if not erased.is_complete:
            words = f"others are reading: the words may still stand in {db}-wal; `stenolog db gc` goes on"
            yield line(("! ", "yellow"), words)
        yield line(("· ", "cyan"), elsewhere(systems))

    data = {"conversation": conversation.name, **erased._asdict(), "quoted_at": quoted}
    return CommandResult(data, draw, diagnostics=_still_there(conversation, quoted, erased.kept_blobs))


def _check_can_ask(yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation here: add --yes")


def _still_there(
    conversation: Conversation, quoted: Sequence[int], kept: Mapping[str, Sequence[str]]
) -> tuple[Diagnostic, ...]:
    places = [f"the blob {sha}, which {', '.join(names)} names" for sha, names in kept.items()]
    if quoted:
        places.append(
            f"{counted(len(quoted), 'other entry', 'other entries')}: {', '.join(map(str, quoted))}"
        )
    words = "the same words still stand in"
    return tuple(Diagnostic("warning", "quoted", f"{words} {each}", conversation.name) for each in places)
