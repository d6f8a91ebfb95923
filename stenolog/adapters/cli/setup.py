"""`schema`, `completion`: what other programs and the shell need to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import click
from pydantic import TypeAdapter

from stenolog.domain.codec import REGISTRY

from .framework import command
from .lines import Piece, line
from .result import CommandResult

SHELLS = {
    "bash": 'eval "$(stenolog completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(stenolog completion zsh)"   in ~/.zshrc',
    "fish": "stenolog completion fish | source   in ~/.config/fish/config.fish",
}


@command("schema")
@click.argument("name", type=click.Choice([*REGISTRY.events, "envelope"]), required=False)
def schema_command(name: str | None) -> CommandResult:
    """Print a JSON Schema, or list them. Of an event as it is stored, or of what --json prints."""
    if name is None:
        known = {topic: _first_line(cls) for topic, cls in REGISTRY.events.items()}
        known["envelope"] = "What every command prints with --json."
        return CommandResult(known, lambda: _listed(known))
    schema = envelope_schema() if name == "envelope" else TypeAdapter(REGISTRY.events[name]).json_schema()
    return CommandResult(schema, lambda: [json.dumps(schema, indent=2, ensure_ascii=False)])


def envelope_schema() -> dict[str, Any]:
    """The JSON Schema of the envelope, as it is checked in."""
    text = files(__package__).joinpath("envelope.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _listed(known: dict[str, str]) -> Iterator[Piece]:
    for name, words in known.items():
        yield line((f"{name:<20}  ", "bold"), words)


@command("completion")
@click.argument("shell", type=click.Choice([*SHELLS]))
def completion_command(shell: str) -> CommandResult:
    """Print what makes a shell complete a command line. Commands, options, names of conversations."""
    from click.shell_completion import get_completion_class

    from .app import app

    script = get_completion_class(shell)
    assert script is not None, shell
    source = script(app, {}, "stenolog", "_STENOLOG_COMPLETE").source()
    return CommandResult({"shell": shell, "script": source, "use": SHELLS[shell]}, lambda: [source])
