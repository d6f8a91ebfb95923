"""The database and the conversation that a command line means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.store.contract.address import make_home
from stenolog.apps.cli.suggest import closest
from stenolog.apps.cli.terminal import say
from stenolog.domain.errors import ConversationNotFoundError

from .database import Database, ServerDatabase
from .position import full_name

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

NEAREST = 1_000
"""Among so many of the newest conversations the one that may have been meant is looked for."""
POSITION = re.compile(r"-?\d+(/\d+)?|@.*", re.ASCII)
"""A word of this form is a position; one of any other form may be a name."""
MAKE_ONE = "begin with `stenolog demo` or `stenolog import FILE`, or name another database with --db"


def open_log(db: Database, *, create: bool = False) -> Log:
    """Open the log of a database until the command ends.

    Raises FileNotFoundError if there is none, unless `create`.
    """
    return click.get_current_context().with_resource(opened(db, create=create))


def opened(db: Database, *, create: bool = False, **options: Any) -> Log:
    """Open as `open_log`, for the caller to close; `options` are those of `stenolog.open`."""
    from stenolog.adapters.conversation.log import open as open_or_make
    from stenolog.adapters.conversation.log import open_existing

    if isinstance(db, ServerDatabase):
        try:
            return (open_or_make if create else open_existing)(db.address, **options)
        except FileNotFoundError as error:
            raise FileNotFoundError(None, f"no log here; {MAKE_ONE}", str(db)) from error
    if db.is_dir():
        raise FileNotFoundError(None, "expected a database, found a folder", str(db))
    if create:
        make_home(db)
    elif not db.exists():
        raise FileNotFoundError(None, f"no database here; {MAKE_ONE}", str(db))
    return open_or_make(db, **options)


def find_conversation(log: Log, written: str) -> Conversation:
    """Return the conversation that is meant; without a name the newest, named on stderr."""
    if not written:
        return log[_newest(log)]
    if written in log:
        return log[written]
    if fork := _fork_meant(log, written):
        return log[fork]
    begun = log.names(archived=True, prefix=written)
    newest = log.names(archived=True, limit=NEAREST, order="newest") if not begun else []
    try:
        return log[full_name(begun or reversed(newest), written)]
    except ConversationNotFoundError as error:
        raise ConversationNotFoundError(f"{error}{_command_meant(written)}") from None


def _fork_meant(log: Log, written: str) -> str:
    """Return the fork `0ab1c2d3-…~1` that `0ab1c2d3~1` means, or ""."""
    begins, mark, number = written.partition("~")
    known = log.names(archived=True, prefix=begins) if begins and mark else []
    found = [name for name in known if name.partition("~")[1:] == (mark, number)]
    return found[0] if len(found) == 1 else ""


def _command_meant(written: str) -> str:
    group = getattr(click.get_current_context().parent, "command", None)
    if not isinstance(group, click.Group) or not group.name or group.name == "stenolog":
        return ""
    near = closest(written, group.commands or group.list_commands(click.get_current_context()), most=1)
    return f"; or is it the command: stenolog {group.name} {near[0]}?" if near else ""


def find_both(log: Log, words: Sequence[str], default: str | None = None) -> tuple[Conversation, str]:
    """Return the conversation, the newest if left out, and the word after it.

    If that word may be left out too (`default`), a single word is a position if it looks like one and no
    conversation has exactly that name.
    """
    if not words and default is None:
        raise click.UsageError(f"expected {_wanted()}, found nothing")
    if len(words) > 2:
        raise click.UsageError(f"expected {_wanted()}, found {len(words)} words: {' '.join(words)}")
    if len(words) == 2 and _are_swapped(log, *words):
        corrected = f"{click.get_current_context().command_path} {words[1]} {words[0]}"
        raise click.UsageError(f"the conversation comes first: {corrected}")
    if len(words) == 2:
        return find_conversation(log, words[0]), words[1]
    word = words[0] if words else ""
    if default is None or (POSITION.fullmatch(word) and word not in log):
        return find_conversation(log, ""), word
    return find_conversation(log, word), default


def _are_swapped(log: Log, first: str, second: str) -> bool:
    if "ENTRY" not in _wanted() or not POSITION.fullmatch(first) or POSITION.fullmatch(second):
        return False
    return first not in log and bool(log.names(archived=True, prefix=second, limit=1))


def _wanted() -> str:
    ctx = click.get_current_context()
    return " ".join(param.make_metavar(ctx) for param in ctx.command.params if param.name == "words")


def _newest(log: Log) -> str:
    known = log.names(limit=2, order="latest") or log.names(archived=True, limit=2, order="latest")
    if not known:
        raise ConversationNotFoundError("no conversation yet: `stenolog import FILE` brings one in")
    if len(known) > 1:
        say(f"the newest conversation: {known[0]}", mark="·", style="cyan")
    return known[0]


def find_conversations(log: Log, written: str) -> list[Conversation]:
    """Return the conversation, or all without a name."""
    return [find_conversation(log, written)] if written else [log[name] for name in log.names(archived=True)]
