"""Shared parts of every command: options, printing of results, and errors as exit codes."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError, PluginError, StenologError
from stenolog.domain.registry import HINT
from stenolog.projections.terminal_text import safe_json

from .app import DEFECT, FAILED, INTERRUPTED, OK, TERMINATED, Exit, exit_of
from .lines import CommandResult, Diagnostic, envelope
from .position_argument import KINDS, full_name
from .terminal import draw, say

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
    from stenolog.adapters.log import Conversation, Log
else:
    _ParamType = click.ParamType  # not generic before click 8.3

F = TypeVar("F", bound=Callable[..., Any])
COMPLETED = 1_000
"""So many names are proposed at most to a shell."""
NEAREST = 1_000
"""Among so many of the newest conversations the one that may have been meant is looked for."""
REPORT = "this is a defect of stenolog; run it again with --traceback and report what it prints"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a stream that can take no more data."""
SHORT = {kind: short for short, kind in KINDS.items()}
MARKS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


def command(
    name: str, cls: type[click.Command] | None = None
) -> Callable[[Callable[..., CommandResult | None]], click.Command]:
    """Make a command of a function that returns a `CommandResult`.

    It returns None where it has printed its result itself.
    """

    def build(function: Callable[..., CommandResult | None]) -> click.Command:
        @functools.wraps(function)
        def called(as_json: bool, color: Any, pager: bool, trace: bool, **given: Any) -> int:
            try:
                answer = function(**given)
                status = OK.code if answer is None else show(answer, as_json, color, pager)
                sys.stdout.flush()
                return status
            except BaseException as error:
                if isinstance(error, BrokenPipeError) and error.filename is None:
                    return nobody_reads_on()
                if isinstance(error, click.ClickException | click.exceptions.Exit):
                    raise
                return fail(error, as_json=as_json, trace=trace)

        return click.command(name, cls=cls or Command)(_shared(called))

    return build


class Command(click.Command):
    """A command that takes `-1` for the position that it is meant as, which there is none of."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments, parsed."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            below = [arg for arg in given if arg.startswith(error.option_name) and arg[1:].isdecimal()]
            if not below:
                raise
            raise click.UsageError(f"expected a position from 1 on, found {below[0]}", ctx) from None


def _shared(function: F) -> F:
    """Return the options that every command takes."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON envelope."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="Colours: auto is on a terminal, unless NO_COLOR is set.",
        ),
        click.option(
            "--plugin",
            "plugins",
            multiple=True,
            metavar="MODULE",
            is_eager=True,
            expose_value=False,
            callback=_load_plugins,
            help="Load this plugin too: a module, module:function or FILE.py. Repeatable.",
        ),
        click.option("--pager/--no-pager", default=True, help="Page what is taller than the terminal."),
        click.option("--traceback", "trace", is_flag=True, help="Show the traceback of an error."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _load_plugins(_context: click.Context, _parameter: click.Parameter, plugins: tuple[str, ...]) -> None:
    """Load the named plugins before any other option is read, since an option may need them."""
    from stenolog.adapters.plugins import load_plugin

    for plugin in plugins:
        try:
            load_plugin(plugin)
        except PluginError as error:
            raise click.BadParameter(str(error), param_hint="'--plugin'") from error


def show(answer: CommandResult, as_json: bool, color: Any, pager: bool) -> int:
    """Print an answer, and say which exit code it is."""
    status = "failed" if answer.failed else "ok"
    if as_json:
        data: Any = answer.data() if callable(answer.data) else answer.data
        for piece in data if answer.streams else [data]:
            click.echo(safe_json(envelope(status, piece, answer.diagnostics)))
    else:
        draw(answer.draw(), color, page=pager and not answer.streams)
        for note in answer.diagnostics if answer.messages is None else answer.messages:
            mark, style = MARKS[note.severity]
            say(note.message, mark=mark, style=style)
        draw(answer.closing, color, page=False)
    return FAILED.code if answer.failed else OK.code


def fail(error: BaseException, *, as_json: bool, trace: bool) -> int:
    """Report an error, on stderr or as an envelope, and return the exit code."""
    exit = exit_of(error)
    if trace and exit not in (INTERRUPTED, TERMINATED):
        _try_to_say("".join(traceback.format_exception(error)).rstrip())
    message = _message(error, exit)
    note = Diagnostic("error", type(error).__name__, message)
    if _stdout_is_broken(error) or (as_json and not _printed(envelope("error", None, [note]))):
        _let_go_of_stdout()
        as_json = False
    if not as_json and exit not in (INTERRUPTED, TERMINATED):
        _try_to_say(message, mark="✗", style="red")
    return exit.code


def _try_to_say(text: str, mark: str = "", style: str = "") -> None:
    """Write to stderr, and ignore a failure: there is no other place to report it."""
    with suppress(OSError):
        say(text, mark=mark, style=style)


def _printed(data: dict[str, Any]) -> bool:
    """Print an envelope; whether that was possible."""
    try:
        click.echo(safe_json(data))
    except OSError:
        return False
    return True


def _stdout_is_broken(error: BaseException) -> bool:
    """Return whether the error may come from writing to stdout: an `OSError` of a file has its name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in FULL


def _let_go_of_stdout() -> None:
    """Discard the output still to be written, because Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: BaseException, exit: Exit) -> str:
    if exit in (INTERRUPTED, TERMINATED):
        return "interrupted"
    if exit is DEFECT:
        return f"{type(error).__name__}: {error}\n  {REPORT}"
    if isinstance(error, OSError) and not isinstance(error, StenologError):
        where = error.filename or ("(stdout)" if _stdout_is_broken(error) else "")
        return f"{error.strerror or error} {where}".rstrip()
    return str(error)


def names(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return the conversations whose name begins so, for the shell's completion."""
    from stenolog.adapters.log import open as open_log

    path = Path(ctx.params.get("db") or "talks.db")
    if not path.exists():
        return []
    try:
        with open_log(path) as log:
            first = log.names(prefix=begun, limit=COMPLETED, order="a-z")
            # With the last one a shell that is told the first ones sees what all of them begin with.
            return first if len(first) < COMPLETED else first + log.names(prefix=begun, limit=1, order="z-a")
    except StenologError:
        return []  # a shell that completes is no place for an error


class RegisteredName(_ParamType):
    """The name of something in a registry, which is read when the command runs: plugins add to it."""

    name = "name"

    def __init__(self, registry: Mapping[str, Any]) -> None:
        self.registry = registry

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the names, as a choice is shown."""
        return f"[{'|'.join(self.registry)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Fails with the names that are known, and how a plugin is loaded."""
        if value not in self.registry:
            known = ", ".join(self.registry)
            self.fail(f"{value!r} is not one of {known}: {HINT}", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [CompletionItem(each) for each in self.registry if each.startswith(incomplete)]


def takes_db(function: F) -> F:
    """Return the option `--db`."""
    return click.option(
        "--db",
        type=click.Path(path_type=Path),
        envvar="STENOLOG_DB",
        default="talks.db",
        show_default=True,
        show_envvar=True,
        is_eager=True,
        help="The database.",
    )(function)


class _Kind(click.Choice[str]):
    """A kind of entries by its short name, or by the one that is shown; it becomes the latter."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind."""
        return KINDS[super().convert(SHORT.get(value, value), param, ctx)]


def takes_kinds(function: F) -> F:
    """Return the option `--kind`."""
    return click.option(
        "--kind",
        "kinds",
        type=_Kind([*KINDS]),
        multiple=True,
        help="Only this kind; repeatable. tool_result is taken for tool, and so on.",
    )(function)


def takes_conversation(function: F) -> F:
    """Return the option `--db` and a conversation, which may be left out where there is only one."""
    return takes_db(
        click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)(
            function
        )
    )


def open_log(db: Path, *, create: bool = False) -> Log:
    """Return the log of a database, closed when the command ends.

    Raises FileNotFoundError where none exists.
    """
    from stenolog.adapters.log import open as open_log

    if db.is_dir():
        raise FileNotFoundError(None, "expected a database, found a folder:", str(db))
    if not create and not db.exists():
        hint = "`stenolog chat`, `run`, `import FILE` and `demo --db` make one, or name another with --db:"
        raise FileNotFoundError(None, f"no database here; {hint}", str(db))
    return click.get_current_context().with_resource(open_log(db))


def find_conversation(log: Log, written: str) -> Conversation:
    """Return the conversation that was meant; the only one there is, where none was named."""
    if written in log:
        return log[written]
    if written:
        begun = log.names(archived=True, prefix=written)
        newest = log.names(archived=True, limit=NEAREST, order="newest") if not begun else []
        return log[full_name(begun or reversed(newest), written)]
    known = log.names(archived=True, limit=2)
    if len(known) == 1:
        return log[known[0]]
    if not known:
        raise ConversationNotFoundError("the database holds no conversation yet")
    many = log.count(archived=True)
    raise InvalidEventError(f"name one of the {many} conversations: `stenolog ls` lists them")


def find_conversations(log: Log, written: str) -> list[Conversation]:
    """Return the conversation that was meant, or all of them where none was named."""
    return [find_conversation(log, written)] if written else [log[name] for name in log.names(archived=True)]


def nobody_reads_on() -> int:
    """Discard further output when the reader has gone: `stenolog log | head` is no error."""
    _let_go_of_stdout()
    return OK.code
