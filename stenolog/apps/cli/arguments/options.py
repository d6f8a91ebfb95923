"""Options and arguments of several commands, each with one spelling."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from stenolog.adapters.store.contract.address import VARIABLE, default_database
from stenolog.apps.cli.suggest import did_you_mean
from stenolog.domain.base.registry import HINT
from stenolog.domain.errors import StenologError
from stenolog.projections.views.lines import FINER_KINDS, KINDS

from .database import Database, DatabaseParameter, database_of
from .lookup import opened

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
    _Choice = click.Choice[str]
else:
    _ParamType = click.ParamType  # not generic before click 8.3
    _Choice = click.Choice

F = TypeVar("F", bound=Callable[..., Any])
SUMMARY_OVER = "Summarise above so many tokens."
PATIENCE = 2.0
"""Seconds that a shell's completion waits for a server, or for others that write."""
COMPLETED = 1_000
"""So many names are proposed at most to a shell."""


class OneOf(_Choice):
    """One of some words; an error names the nearest."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return "": the message names the words already."""
        return ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            hint = did_you_mean(str(value), map(str, self.choices), most=1)
            self.fail(
                f"expected one of {', '.join(map(str, self.choices))}, found {value!r}{hint}", param, ctx
            )
        return value


class RegisteredName(_ParamType):
    """A name in a registry, read when the command runs, since plugins add to it."""

    name = "name"

    def __init__(self, registry: Mapping[str, Any]) -> None:
        self.registry = registry

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the names, as choices are shown."""
        return f"[{'|'.join(self.registry)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Fails with the known names and how to load a plugin."""
        if value not in self.registry:
            known = ", ".join(self.registry)
            meant = did_you_mean(str(value), self.registry, most=1)
            self.fail(f"expected one of {known}, found {value!r}{meant or f': {HINT}'}", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names with this beginning."""
        return [CompletionItem(each) for each in self.registry if each.startswith(incomplete)]


class _Kind(OneOf):
    """A kind of entries by its word or the event's name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word = super().convert(KINDS.get(value, value), param, ctx)
        return next((kind for kind, its_word in KINDS.items() if its_word == word), word)


def names(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return the conversations with this beginning, for shell completion."""
    try:
        db = ctx.params.get("db") or database_of(default_database())
        if isinstance(db, Path) and not db.exists():
            return []
        with opened(db, deadline=PATIENCE) as log:
            first = log.names(prefix=begun, limit=COMPLETED, order="a-z")
            # With the last one a shell that is told the first ones sees what all of them begin with.
            return first if len(first) < COMPLETED else first + log.names(prefix=begun, limit=1, order="z-a")
    except StenologError:
        return []  # a shell that completes is no place for an error


def takes_db(function: F) -> F:
    """Add the option `--db`."""
    return click.option(
        "--db",
        type=DatabaseParameter(path_type=Path),
        envvar=VARIABLE,
        default=default_database,
        metavar="FILE",
        is_eager=True,
        hidden=True,  # in the help of `stenolog`
    )(function)


def typed(db: Database, *words: str) -> str:
    """Return a command as typed, with `--db` unless the database is the default."""
    elsewhere = () if db == database_of(default_database()) else ("--db", str(db))
    return shlex.join(["stenolog", *words, *elsewhere])


takes_at = click.option("--at", metavar="ENTRY", default="@", help="Up to this entry or time.")
takes_format = click.option(
    "--format",
    "drawn_as",
    type=OneOf(["text", "json", "github", "sarif", "junit"]),
    default="text",
    metavar="FORM",
    help="For CI: github, sarif or junit; also json, text.",
)


def takes_grades(function: F) -> F:
    """Add the options that decide which findings in files fail a check."""
    fail_on = click.option(
        "--fail-on",
        type=OneOf(["error", "warning"]),
        default="error",
        help="Exit with 1 from this severity on.",
    )
    ignored = click.option(
        "--ignore", "ignored", metavar="CODE", multiple=True, help="Leave out these findings; repeatable."
    )
    return fail_on(ignored(function))


takes_jobs = click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes to use.")
takes_name = click.argument("target", metavar="CONVERSATION", shell_complete=names)


takes_kinds = click.option(
    "--kind", "kinds", type=_Kind([*KINDS.values()]), multiple=True, help="Only this kind; repeatable."
)
takes_any_kinds = click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    type=_Kind([*KINDS.values(), *FINER_KINDS]),
    multiple=True,
    help="Only this kind, such as user or summary; repeatable.",
)


def takes_conversation(function: F) -> F:
    """Add `--db` and a conversation; the newest, if omitted."""
    argument = click.argument(
        "target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names
    )
    return takes_db(argument(function))


def takes_conversation_or_paths(function: F) -> F:
    """Add `--db` and a conversation, or paths, as `words`: see `words.name_or_paths`."""

    def completed(ctx: click.Context, parameter: click.Parameter, begun: str) -> Any:
        return names(ctx, parameter, begun) or [CompletionItem(begun, type="file")]

    written = "[CONVERSATION|PATH...]"
    return takes_db(click.argument("words", metavar=written, nargs=-1, shell_complete=completed)(function))


def takes_conversation_and(metavar: str) -> Callable[[F], F]:
    """Add `--db`, an optional conversation and another word, as `words`: see `lookup.find_both`."""

    def decorate(function: F) -> F:
        written = f"[CONVERSATION] {metavar}"
        return takes_db(click.argument("words", metavar=written, nargs=-1, shell_complete=names)(function))

    return decorate
