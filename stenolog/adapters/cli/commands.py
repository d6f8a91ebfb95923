"""The commands by what they are for; a command's module is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from stenolog import __version__

SECTIONS = {
    "See": {
        "demo": "demo",
        "ls": "listing",
        "log": "reading",
        "show": "reading",
        "tail": "reading",
        "search": "search",
        "timeline": "views",
        "request": "views",
        "steps": "views",
        "state": "views",
        "outputs": "outputs",
        "output": "outputs",
        "stats": "stats",
    },
    "Explain": {
        "explain": "explaining",
        "blame": "explaining",
        "why": "explaining",
        "diff": "explaining",
        "view": "explaining",
    },
    "Run": {
        "chat": "chat",
        "run": "running",
        "record": "recording",
        "rerun": "recording",
        "claims": "claims",
    },
    "Prove": {
        "replay": "proofs",
        "verify": "proofs",
        "fsck": "proofs",
        "gate": "proving",
        "doctor": "doctor",
    },
    "Try": {
        "budget": "trying",
        "whatif": "trying",
        "bisect": "trying",
    },
    "Change": {
        "import": "exchange",
        "export": "exchange",
        "fork": "acts",
        "rename": "acts",
        "archive": "acts",
        "delete": "acts",
        "erase": "acts",
        "gc": "gc",
        "backup": "acts",
        "restore": "acts",
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
