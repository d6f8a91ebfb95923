"""A single card in a file, written as an agent of a team file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.errors import CallerError

from . import schema
from .load import TeamFileReader

AGENT = "agent"
KEYS = ("persona", "persona_file", "tools", "parameters", "policy", "model", "output")
"""The keys of an agent that are on its card, and so change its requests."""
FIELDS = {"persona_file": ("persona",), "model": ("model", "provider"), "output": ("parameters",)}
"""The fields of a card that a key sets, if it is not named like its field."""


def load_card(path: Path) -> dict[str, Any]:
    """Return the fields of a card that a file sets, in TOML or JSON.

    Raises `CallerError` with the wrong key, what was expected and found; `OSError`.
    """
    form, read = ("JSON", json.loads) if path.suffix == ".json" else ("TOML", tomllib.loads)
    try:
        data: Any = read(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CallerError(f"{path}: expected {form}: {error}") from None
    keys = [*data] if isinstance(data, dict) else []
    if not keys or (strange := [key for key in keys if key not in KEYS]):
        found = strange[0] if keys else "none"
        raise CallerError(f"{path}: expected fields of a card ({', '.join(KEYS)}), found {found}")
    file = schema.checked({"agents": {AGENT: data}}, path)
    agent = TeamFileReader(path, file, keys=False).agent(AGENT, file.agents[AGENT])
    card = agent.card([tool.spec for tool in agent.tools if isinstance(tool, BaseTool)])
    return {name: getattr(card, name) for key in keys for name in FIELDS.get(key, (key,))}
