"""Scripts, tools and teams in files, for the tests of what runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import stenolog

TOOLS = '''
from stenolog.tools import tool


def look(where: str) -> str:
    """Look."""
    return f"a cat \\x1b[31min {where}"


@tool(approval=True)
def sell(loaves: int) -> str:
    """Sell loaves."""
    return f"{loaves} sold"


both = [look, sell]
'''
ASKS = """
from stenolog.tools import ToolContext, tool


@tool
async def book(seats: int, call: ToolContext) -> str:
    'Book seats.'
    return f"{seats} in the {await call.ask('Which train?', choices=['8:15', '9:40'])}"
"""
TEAM = """
[agents.coder]
model = "scripted:script.json"
persona = "You are coder."
tools = ["shop_tools:both"]
retries = { base = 0.01 }
"""
LONG = "a word and another " * 200


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call in a script."""
    return {"type": "tool_call", "name": name, "arguments": arguments}


LOOKS = [["Let me look.", call("look", where="box")], "It is a cat."]
SELLS = [call("sell", loaves=3), "Done."]


def script(folder: Path, *turns: Any, name: str = "script.json", **options: Any) -> str:
    """Write a script, and name the model that answers by it."""
    (folder / name).write_text(json.dumps({"turns": turns, **options}))
    return f"scripted:{name}"


def team(folder: Path, *turns: Any, file: str = TEAM, **options: Any) -> str:
    """Write a team whose coder answers by a script, and name its file."""
    (folder / "shop_tools.py").write_text(TOOLS)
    script(folder, *turns, **options)
    (folder / "team.toml").write_text(file)
    return "team.toml"


def events(name: str = "chat") -> list[Any]:
    """Return the events of a conversation."""
    with stenolog.open("talks.db") as log:
        return [entry.event for entry in log[name].entries()]
