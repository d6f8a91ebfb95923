"""The commands, found in the folders of `commands`, and errors' exit codes."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click

from stenolog._version import __version__
from stenolog.adapters.plugins import failed_plugins, load_plugins, plugin_at_fault
from stenolog.domain import errors

from .suggest import did_you_mean
from .terminal import say

PACKAGE = f"{__package__}.commands"
COMMANDS = Path(__file__).parent / "commands"


def commands_in(folder: str) -> dict[str, str]:
    """Return the commands of a folder below `commands`, each with its module or package."""
    names = (each.stem for each in sorted((COMMANDS / folder).iterdir()) if each.suffix in ("", ".py"))
    package = folder.replace("/", ".")
    return {name.rstrip("_"): f"{package}.{name}" for name in names if not name.startswith("_")}


SECTIONS = {
    section.replace("_", " ").capitalize(): commands_in(section)
    for section in ("see", "why", "run", "prove", "cost", "change", "set_up")
}
"""The commands by what they are for, each with its module or package; a folder of `commands` each."""
MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}
MEANT = {
    "add": ("append", "import"),
    "find": ("search",),
    "grep": ("search",),
    "list": ("ls",),
    "dir": ("ls",),
    "sessions": ("ls",),
    "projects": ("ls",),
    "open": ("inspect",),
    "ui": ("inspect",),
    "web": ("inspect",),
    "resume": ("run", "chat"),
    "cat": ("show", "log"),
    "history": ("log", "ls"),
    "rm": ("delete", "archive"),
    "remove": ("delete", "archive"),
    "mv": ("rename",),
    "cp": ("fork", "db backup"),
    "copy": ("fork", "db backup"),
    "usage": ("cost",),
    "tokens": ("cost",),
    "stats": ("cost --context",),
    "advise": ("cost --advise",),
    "help": ("--help", "COMMAND --help"),
    "version": ("-V",),
    "diff": ("request --diff ENTRY",),
    "blame": ("explain entry",),
    "drift": ("bisect --releases CLIENT",),
    "budget": ("cost --plan",),
    "replay": ("check replay",),
    "rerun": ("retry",),
    "gate": ("retry --all",),
    "verify": ("check log",),
    "fsck": ("check requests",),
    "doctor": ("check file",),
    "backup": ("db backup",),
    "restore": ("db restore",),
    "gc": ("db gc",),
    "schema": ("db schema",),
}
"""Words of other programs, and the commands that do the same here."""
COMMON = """\
All take --db FILE (default: $STENOLOG_DB, or yours), --json, --local (times in
your zone), --color WHEN, --no-pager, --plugin MODULE, --traceback. Version: -V\
"""


class Commands(click.Group):
    """A group whose commands are a package's modules, imported when called.

    Other words are arguments of the `default` command, if any.
    """

    def __init__(self, package: str, help: str, *, example: str, default: str = "") -> None:
        below = package.removeprefix(f"{PACKAGE}.")
        super().__init__(below.rpartition(".")[2], help=help, epilog=f"\b\nExample: stenolog {example}")
        self.modules = commands_in(below.replace(".", "/"))
        self.default = default

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        if option := super().get_help_option(ctx):
            option.hidden = True
        return option

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.default and not (args and (args[0] in self.modules or args[0] in ctx.help_option_names)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name. Raises `UsageError` with the nearest for another."""
        if cmd_name not in self.modules:
            raise click.UsageError(self.unknown(cmd_name), ctx)
        return command_in(self.modules[cmd_name], cmd_name)

    def unknown(self, written: str) -> str:
        return f"no command {written!r} of {self.name}{did_you_mean(written, self.modules)}"


def command_in(module: str, name: str) -> click.Command:
    """Return the command of that name in a module of `commands`, or a package's group."""
    values = vars(import_module(f"{PACKAGE}.{module}")).values()
    return next(each for each in values if isinstance(each, click.Command) and each.name == name)


class App(Commands):
    """The group of all commands."""

    def __init__(self, name: str, **attrs: Any) -> None:
        click.Group.__init__(self, name, **attrs)
        self.modules = MODULES
        self.default = ""

    def unknown(self, written: str) -> str:
        if written in MEANT:
            meant = " or ".join(f"stenolog {words}" for words in MEANT[written])
            return f"no command {written!r}; did you mean: {meant}?"
        return f"no command {written!r}{did_you_mean(written, MODULES)}"

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Usage: stenolog COMMAND [ARGUMENTS]\n")
        formatter.write(f"{(self.help or '').strip()}\n")
        for title, section in SECTIONS.items():
            for at, name in enumerate(section):
                command = self.get_command(ctx, name)
                words = command.get_short_help_str(58) if command else ""
                formatter.write(f"{'' if at else title:<9}{name:<11} {words}\n")
        formatter.write(f"{COMMON}\n")


@click.command(cls=App, name="stenolog", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def app() -> None:
    """Record conversations with LLM agents, and read them back. Begin: stenolog demo"""
    with redirect_stdout(sys.stderr):  # what a plugin prints is no output of a command
        load_plugins()
    for name, fault in failed_plugins().items():
        say(f"the plugin {name} cannot be loaded: {fault}", mark="!", style="yellow")


class Terminated(KeyboardInterrupt):
    """The command was told to end by SIGTERM or SIGHUP."""


class Exit(NamedTuple):
    """An exit code, its meaning, and its errors."""

    code: int
    meaning: str
    errors: tuple[type[BaseException], ...] = ()


OK = Exit(0, "done")
FAILED = Exit(
    1,
    "the check that the command is there for has failed; of `run` and `chat`, an agent has; `search` found "
    "nothing",
)
USAGE = Exit(
    2, "what was asked for cannot be done as it was asked", (errors.CallerError, click.ClickException)
)
NOT_FOUND = Exit(
    3,
    "there is no such database, conversation, position or file",
    (
        errors.ConversationNotFoundError,
        errors.PositionNotFoundError,
        FileNotFoundError,
    ),
)
CORRUPT = Exit(4, "the stored data is damaged, of a later release, or no log", (errors.StoredDataError,))
CONFLICT = Exit(5, "somebody else appended first; nothing was written", (errors.VersionConflictError,))
ADAPTER = Exit(
    6,
    "a provider, a tool, a plugin or the machine has failed",
    (errors.ProviderError, errors.ToolError, errors.OperationalError, OSError),
)
DEFECT = Exit(70, "a defect of stenolog itself: please report it")
INTERRUPTED = Exit(
    130,
    "interrupted from the keyboard, or the answer to a question was no",
    (KeyboardInterrupt, click.Abort),
)

TERMINATED = Exit(143, "ended by SIGTERM, or by SIGHUP as when its terminal is closed", (Terminated,))

EXITS = (OK, FAILED, USAGE, NOT_FOUND, CORRUPT, CONFLICT, ADAPTER, DEFECT, INTERRUPTED, TERMINATED)


def exit_of(error: BaseException) -> Exit:
    """Return an error's exit: that of its nearest class in the table."""
    named = {cls: exit for exit in EXITS for cls in exit.errors}
    found = next((named[cls] for cls in type(error).__mro__ if cls in named), DEFECT)
    return ADAPTER if found is DEFECT and plugin_at_fault(error) else found
