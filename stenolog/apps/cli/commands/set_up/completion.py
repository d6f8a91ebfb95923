"""Command `completion`."""

from __future__ import annotations

import click

from stenolog.apps.cli.arguments.options import OneOf
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult

SHELLS = {
    "bash": 'eval "$(stenolog completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(stenolog completion zsh)"   in ~/.zshrc',
    "fish": "stenolog completion fish | source   in ~/.config/fish/config.fish",
}


@command("completion", example="stenolog completion bash")
@click.argument("shell", type=OneOf([*SHELLS]))
def completion_command(shell: str) -> CommandResult:
    """Print a script that makes a shell complete commands."""
    from click.shell_completion import get_completion_class

    from stenolog.apps.cli.app import app

    script = get_completion_class(shell)
    assert script is not None, shell
    source = script(app, {}, "stenolog", "_STENOLOG_COMPLETE").source()
    return CommandResult({"shell": shell, "script": source, "use": SHELLS[shell]}, lambda: [source])
