"""Command `db schema`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import click
from pydantic import TypeAdapter

from stenolog.apps.cli.arguments.options import OneOf
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line
from stenolog.domain.codec import REGISTRY


@command("schema", example="stenolog db schema envelope")
@click.argument("name", type=OneOf([*REGISTRY.events, "envelope"]), required=False)
def db_schema_command(name: str | None) -> CommandResult:
    """Print a JSON Schema, or list them.

    Of a stored event, or of what --json prints.
    """
    if name is None:
        known = {topic: (cls.__doc__ or "").partition("\n")[0] for topic, cls in REGISTRY.events.items()}
        known["envelope"] = "What every command prints with --json."
        return CommandResult(known, lambda: _listed(known))
    schema = envelope_schema() if name == "envelope" else TypeAdapter(REGISTRY.events[name]).json_schema()
    return CommandResult(schema, lambda: [json.dumps(schema, indent=2, ensure_ascii=False)])


def envelope_schema() -> dict[str, Any]:
    """Return the JSON Schema of the envelope, as checked in."""
    text = files(__package__).joinpath("envelope.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _listed(known: dict[str, str]) -> Iterator[Piece]:
    for name, words in known.items():
        yield line((f"{name:<20}  ", "bold"), words)
