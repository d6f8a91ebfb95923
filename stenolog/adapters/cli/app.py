"""The commands by what they are for; a command's module is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from stenolog._version import __version__
from stenolog.adapters.plugins.loader import failed_plugins, load_plugins

from .terminal import say

SECTIONS = {
    "See": {
        "demo": "demo",
        "ls": "ls_command",
        "log": "log_commands",
        "show": "log_commands",
        "tail": "log_commands",
        "search": "search_command",
        "timeline": "view_commands",
        "request": "view_commands",
        "steps": "view_commands",
        "state": "view_commands",
        "outputs": "outputs",
        "output": "outputs",
        "stats": "stats",
    },
    "Explain": {
        "explain": "explain_commands",
        "blame": "explain_commands",
        "why": "explain_commands",
        "diff": "explain_commands",
        "view": "explain_commands",
    },
    "Run": {
        "chat": "chat_command",
        "run": "run_commands",
        "record": "record_commands",
        "rerun": "record_commands",
        "claims": "claims",
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
        "gc": "gc",
        "backup": "admin_commands",
        "restore": "admin_commands",
    },
    "Set up": {
        "schema": "setup",
        "completion": "setup",
    },
}
MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}


class App(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the sections."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in MODULES:
            return None
        commands = import_module(f".{MODULES[cmd_name]}", __package__)
        made: click.Command = getattr(commands, f"{cmd_name}_command")
        return made

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in the help, under what they are for."""
        for title, section in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            with formatter.section(title):
                formatter.write_dl([(name, made.get_short_help_str(70)) for name, made in commands if made])


@click.command(cls=App, name="stenolog", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def app() -> None:
    """Take a conversation with LLM agents down word for word, and read it back.

    Begin with `stenolog demo`: it needs no key and no network.
    """
    load_plugins()
    for name, fault in failed_plugins().items():
        say(f"the plugin {name} cannot be loaded: {fault}", mark="!", style="yellow")
