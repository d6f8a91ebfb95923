"""Commands by section, each in a module imported when it is called, and the exit codes of errors.

docs/reference/exit-codes.md is drawn from the table of exit codes.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from stenolog._version import __version__
from stenolog.adapters.plugins import failed_plugins, load_plugins
from stenolog.domain import errors

from .suggest import did_you_mean
from .terminal import say

SECTIONS = {
    "See": {
        "demo": "demo",
        "ls": "log_commands",
        "log": "log_commands",
        "show": "log_commands",
        "tail": "log_commands",
        "search": "search_command",
        "timeline": "view_commands",
        "request": "view_commands",
        "steps": "view_commands",
        "state": "view_commands",
        "outputs": "admin_commands",
        "output": "admin_commands",
        "stats": "stats",
    },
    "Explain": {
        "explain": "explain_commands",
        "blame": "explain_commands",
        "why": "explain_commands",
        "diff": "explain_commands",
        "view": "explain_commands",
        "trace-value": "damage_commands",
    },
    "Run": {
        "chat": "chat_command",
        "run": "run_commands",
        "record": "run_commands",
        "rerun": "run_commands",
        "claims": "run_commands",
    },
    "Prove": {
        "replay": "verify_commands",
        "verify": "verify_commands",
        "fsck": "verify_commands",
        "gate": "gate_command",
        "doctor": "doctor_command",
    },
    "Try": {
        "budget": "policy_commands",
        "whatif": "policy_commands",
        "bisect": "policy_commands",
    },
    "Change": {
        "import": "import_export",
        "export": "import_export",
        "fork": "admin_commands",
        "rename": "admin_commands",
        "archive": "admin_commands",
        "delete": "admin_commands",
        "erase": "admin_commands",
        "gc": "admin_commands",
        "backup": "admin_commands",
        "restore": "admin_commands",
        "salvage": "damage_commands",
    },
    "Set up": {
        "schema": "admin_commands",
        "completion": "admin_commands",
    },
}
MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}


class App(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the sections."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name. Raises `UsageError` with the nearest for another one."""
        if cmd_name not in MODULES:
            raise click.UsageError(f"no command {cmd_name!r}{did_you_mean(cmd_name, MODULES)}", ctx)
        commands = import_module(f".{MODULES[cmd_name]}", __package__)
        made: click.Command = getattr(commands, f"{cmd_name.replace('-', '_')}_command")
        return made

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, grouped by what they are for."""
        for title, section in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            with formatter.section(title):
                formatter.write_dl([(name, made.get_short_help_str(70)) for name, made in commands if made])


@click.command(cls=App, name="stenolog", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def app() -> None:
    """Take a conversation with LLM agents down word for word, and read it back.

    Begin with `stenolog demo`: it needs no key and no network.
    """
    load_plugins()
    for name, fault in failed_plugins().items():
        say(f"the plugin {name} cannot be loaded: {fault}", mark="!", style="yellow")


class Terminated(KeyboardInterrupt):
    """The command was told to end by SIGTERM or SIGHUP."""


class Exit(NamedTuple):
    """An exit code, what it means, and the errors that lead to it."""

    code: int
    meaning: str
    errors: tuple[type[BaseException], ...] = ()


OK = Exit(0, "done")
FAILED = Exit(1, "the check that the command is there for has failed; of `run` and `chat`, an agent has")
USAGE = Exit(
    2, "what was asked for cannot be done as it was asked", (errors.CallerError, click.ClickException)
)
NOT_FOUND = Exit(
    3,
    "there is no such database, conversation, position, agent or file",
    (
        errors.ConversationNotFoundError,
        errors.PositionNotFoundError,
        errors.AgentNotFoundError,
        FileNotFoundError,
    ),
)
CORRUPT = Exit(4, "the stored data is damaged, of a later release, or no log", (errors.StoredDataError,))
CONFLICT = Exit(5, "somebody else appended first; nothing was written", (errors.VersionConflictError,))
ADAPTER = Exit(
    6,
    "a provider, a tool or the machine has failed",
    (errors.ProviderError, errors.ToolError, errors.OperationalError, OSError),
)
DEFECT = Exit(70, "a defect of stenolog itself: please report it")
INTERRUPTED = Exit(130, "interrupted from the keyboard", (KeyboardInterrupt,))

TERMINATED = Exit(143, "ended by SIGTERM, or by SIGHUP as when its terminal is closed", (Terminated,))

EXITS = (OK, FAILED, USAGE, NOT_FOUND, CORRUPT, CONFLICT, ADAPTER, DEFECT, INTERRUPTED, TERMINATED)


def exit_of(error: BaseException) -> Exit:
    """Return the exit of an error: that of the nearest class above it that the table names."""
    named = {cls: exit for exit in EXITS for cls in exit.errors}
    return next((named[cls] for cls in type(error).__mro__ if cls in named), DEFECT)
