"""Shared parts of commands: options, printing of results, and errors as exit codes."""

from __future__ import annotations

import errno
import functools
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from stenolog.adapters.plugins import plugin_at_fault
from stenolog.adapters.store.contract.address import hide_passwords
from stenolog.domain.errors import CorruptLogError, PluginError, StenologError

from .app import DEFECT, FAILED, INTERRUPTED, OK, TERMINATED, Exit, exit_of
from .arguments.options import OneOf
from .lines import MENDED, CommandResult, Diagnostic
from .terminal import Color, Declined, draw, print_envelope, say

F = TypeVar("F", bound=Callable[..., Any])
REPORT = "this is a defect of stenolog; run it again with --traceback and report what it prints"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a stream that can take no more data."""
MARKS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


def command(
    name: str, cls: type[click.Command] | None = None, *, example: str
) -> Callable[[Callable[..., CommandResult | None]], click.Command]:
    """Make a command of a function that returns a `CommandResult`, or None if it has printed its own."""

    def build(function: Callable[..., CommandResult | None]) -> click.Command:
        @functools.wraps(function)
        def called(as_json: bool, color: Any, pager: bool, local: bool, trace: bool, **given: Any) -> int:
            form = given.pop("drawn_as", "text")
            if as_json and form not in ("text", "json"):
                raise click.UsageError(f"--json and --format {form}: expected one of them")
            form = "json" if as_json else form
            try:
                answer = function(**given)
                status = OK.code if answer is None else show(answer, form, color, pager)
                sys.stdout.flush()
                return status
            except BaseException as error:
                if isinstance(error, BrokenPipeError) and error.filename is None:
                    return nobody_reads_on()
                if isinstance(error, click.ClickException | click.exceptions.Exit):
                    raise
                return fail(error, form=form, trace=trace)

        epilog = f"\b\nExample: {example}"
        return click.command(name, cls=cls or Command, epilog=epilog)(_shared(called))

    return build


class Command(click.Command):
    """A command that explains `-1` as a wrong position, not as an option."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        if option := super().get_help_option(ctx):
            option.hidden = True
        return option

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            below = [arg for arg in given if arg.startswith(error.option_name) and arg[1:].isdecimal()]
            if not below:
                raise
            raise click.UsageError(f"expected an entry from 1 on, found {below[0]}", ctx) from None


def _shared(function: F) -> F:
    """Add the options of every command; `stenolog --help` describes them."""
    options = (
        click.option("--json", "as_json", is_flag=True, hidden=True),
        click.option("--color", type=OneOf(["auto", "always", "never"]), default="auto", hidden=True),
        click.option(
            "--plugin",
            "plugins",
            multiple=True,
            is_eager=True,
            expose_value=False,
            callback=_load_plugins,
            hidden=True,
        ),
        click.option("--pager/--no-pager", default=True, hidden=True),
        click.option("--local", is_flag=True, hidden=True),
        click.option("--traceback", "trace", is_flag=True, hidden=True),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _load_plugins(_context: click.Context, _parameter: click.Parameter, plugins: tuple[str, ...]) -> None:
    """Load plugins before other options are read, which may need them."""
    from stenolog.adapters.plugins import load_plugin

    for plugin in plugins:
        try:
            with redirect_stdout(sys.stderr):
                load_plugin(plugin)
        except PluginError as error:
            raise click.BadParameter(str(error), param_hint="'--plugin'") from error


def show(answer: CommandResult, form: str, color: Any, pager: bool) -> int:
    """Print an answer, and return its exit code."""
    status = "failed" if answer.failed else "ok"
    if form == "json":
        data: Any = answer.data() if callable(answer.data) else answer.data
        for piece in data if answer.streams else [data]:
            print_envelope(status, piece, answer.diagnostics)
    elif form != "text":
        db = click.get_current_context().params.get("db")
        _print_report(form, answer, str(db) if isinstance(db, Path) else "")
    else:
        draw(answer.draw(), color, page=pager and not answer.streams)
        for note in answer.diagnostics if answer.messages is None else answer.messages:
            mark, style = MARKS[note.severity]
            say(note.message, mark=mark, style=style)
        draw(answer.closing, color, page=False)
    return FAILED.code if answer.failed else OK.code


def _print_report(form: str, answer: CommandResult, database: str = "") -> None:
    from .draw import reports  # late: for checks, if CI asks

    for row in reports.REPORTS[form](reports.found_by(answer, database)):
        click.echo(row)


def fail(error: BaseException, *, form: str = "text", trace: bool = False, color: Color | None = None) -> int:
    """Report an error, on stderr or as the answer's form has it; return the exit code.

    `color` is for an error outside of a command.
    """
    exit = exit_of(error)
    if trace and exit not in (INTERRUPTED, TERMINATED):
        _try_to_say(hide_passwords("".join(traceback.format_exception(error)).rstrip()))
    message = hide_passwords(_message(error, exit))
    note = Diagnostic("error", type(error).__name__, message)
    if _stdout_is_broken(error) or (form != "text" and not _printed(form, note)):
        _let_go_of_stdout()
        form = "text"
    if isinstance(error, Declined):
        _try_to_say(message, mark="·", style="cyan", color=color)
    elif form == "text" and exit not in (INTERRUPTED, TERMINATED):
        _try_to_say(message, mark="✗", style="red", color=color)
    return exit.code


def _try_to_say(text: str, mark: str = "", style: str = "", color: Color | None = None) -> None:
    with suppress(OSError):
        say(text, mark=mark, style=style, color=color)


def _printed(form: str, note: Diagnostic) -> bool:
    """Print an error as the answer would be; return whether that was possible."""
    try:
        if form == "json":
            print_envelope("error", None, [note])
        else:
            _print_report(form, CommandResult(failed=True, diagnostics=(note,)))
    except OSError:
        return False
    return True


def _stdout_is_broken(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.filename is None and error.errno in FULL


def _let_go_of_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: BaseException, exit: Exit) -> str:
    if exit in (INTERRUPTED, TERMINATED):
        return str(error) or "interrupted"
    if (
        isinstance(error, Exception)
        and not isinstance(error, StenologError)
        and (plugin := plugin_at_fault(error))
    ):
        return f"{type(error).__name__}: {error}\n  in the plugin {plugin}; --traceback shows more"
    if exit is DEFECT:
        return f"{type(error).__name__}: {error}\n  {REPORT}"
    if isinstance(error, OSError) and not isinstance(error, StenologError):
        where = error.filename or ("stdout" if _stdout_is_broken(error) else "")
        what = error.strerror or str(error)
        return f"{where}: {what[:1].lower()}{what[1:]}" if where else what
    if isinstance(error, CorruptLogError) and isinstance(error.__cause__, sqlite3.Error):
        return f"{error}\n  {MENDED}"
    return str(error)


def nobody_reads_on() -> int:
    """Discard further output once the reader has gone, as in `stenolog log | head`."""
    _let_go_of_stdout()
    return OK.code
