"""The roles of NeuroCrew Lab, `roles.yaml`, as a file of a team."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from stenolog.errors import CallerError
from stenolog.importers import as_dict, as_list, as_str, yaml_document

from .files import NEUROCREW as CHATS
from .files import PASS

_ROLES = re.compile(rb"^[\s-]*role_name\s*:", re.MULTILINE)
FORMATS = {"gemini": "gemini-cli", "qwen": "qwen-code", "claude": "claude-code", "codex": "codex"}
"""The formats of the programs that mark their answers' ends."""
SILENCE = 3
"""The seconds of silence that end an answer of any other program."""


def is_roles(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file lists roles with their commands, by its first bytes."""
    return b"cli_command" in first and _ROLES.search(first) is not None


def team_file(stream: BinaryIO) -> str:
    """Return the team of a `roles.yaml`, in TOML; empty for a chat.

    Raises `CallerError` for a role without name or command.

    Raises as `yaml_document` does.
    """
    first = stream.read(65_536)
    stream.seek(0)
    if not is_roles(first, stream):
        return ""
    document = yaml_document(stream)
    roles = as_list(as_dict(document).get("roles") if isinstance(document, dict) else document)
    return "\n".join(_lines([as_dict(role) for role in roles]))


def _lines(roles: list[dict[str, Any]]) -> Iterator[str]:
    moderators = [_name(role) for role in roles if role.get("is_moderator") is True]
    yield from ("exclusive = true", "", "[turns]", 'rule = "round_robin"', f"pass_token = {_written(PASS)}")
    if moderators:
        yield f"moderator = {_written(moderators)}"
    for role in roles:
        yield from ("", f"[agents.{_written(_name(role))}]", f"model = {_model(role)}")
        for key, field in (("persona_file", "prompt_file"), ("persona", "system_prompt")):
            if told := as_str(role.get(field)):
                yield f"{key} = {_written(told)}"
                break
    yield ""


def _name(role: dict[str, Any]) -> str:
    if name := as_str(role.get("display_name")) or as_str(role.get("role_name")):
        return name
    raise CallerError(f"roles: expected a role_name in each, found the keys {', '.join(map(str, role))}")


def _model(role: dict[str, Any]) -> str:
    command = as_str(role.get("cli_command"))
    if not command.strip():
        raise CallerError(f"roles: {_name(role)}: expected a cli_command, found {command!r:.60}")
    form = FORMATS.get(command.split()[0].rpartition("/")[2])
    how = f"format = {_written(form)}" if form else f'mode = "long-lived", idle_ends = {SILENCE}'
    return f"{{ use = {_written(f'cli:{command}')}, {how} }}"


def _written(value: str | list[str]) -> str:
    """Return a text, or a list of them, in TOML, whose basic strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


NEUROCREW = replace(CHATS, is_start=is_roles, team=team_file)
