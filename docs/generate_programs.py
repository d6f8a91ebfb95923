"""The page of typical programs, made of the files in `examples/programs`, with their lines counted."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
MADE = "<!-- Made by `python docs/generate.py`; change the programs, not this page. -->"
TITLES = {
    "chat": "A chat that is on disk",
    "stream": "Streaming",
    "own_loop": "A tool, in a loop of your own",
    "tools_team": "A tool, with a team",
    "two_agents": "Two agents",
    "budget": "A budget",
    "fork": "Fork and retry",
    "search": "Search",
    "at_once": "Several conversations at once",
    "export": "Export",
    "projection": "A projection that is stored",
    "typed_output": "An answer that is an object",
    "hand_off": "A hand-off with a payload",
    "overflow": "A chat that outgrows its model",
    "fall_back": "A second model",
    "question": "A tool that asks a person",
    "check": "A check of answers",
    "picture": "A picture",
    "memory": "An agent that keeps facts",
    "server": "A server with a stop button",
    "evaluation": "Two models, scored by a third",
}
PROGRAMS = {name: EXAMPLES / "programs" / f"{name}.py" for name in TITLES}
PROGRAMS["own_loop"] = EXAMPLES / "own_loop.py"
PEERS = {name: sorted((EXAMPLES / "programs" / "peers").glob(f"{name}_*.py")) for name in TITLES}
LIBRARIES = {"agents_sdk": "OpenAI Agents SDK", "pydantic_ai": "pydantic-ai"}
SOURCE = "https://github.com/stenolog/stenolog/blob/main/"
INTRODUCTION = """\
Each program is whole: save it and run it. `OPENAI_API_KEY` holds the key; `OPENAI_BASE_URL` names another
server of the same API. The tests run each, and the same programs written with two other libraries, which all
keep what was said.

Lines with text, without the first docstring; an empty cell is a program that we did not write:
"""


def programs_page() -> str:
    """Return the page."""
    shortest = "chat"
    return (
        f"# Typical programs\n\n{MADE}\n\n{INTRODUCTION}\n{_table()}\n"
        f"{TITLES[shortest]}, whole:\n\n```py\n{_code(PROGRAMS[shortest])}```\n"
    )


def lines(program: Path) -> int:
    """Return the number of a program's lines, without blank ones and the docstring at its top."""
    return sum(1 for line in _code(program).splitlines() if line.strip())


def _table() -> str:
    head = f"| program | stenolog | {' | '.join(LIBRARIES.values())} |\n|---|---:|---:|---:|\n"
    return head + "".join(f"| {_row(name)} |\n" for name in TITLES)


def _row(name: str) -> str:
    link = SOURCE + PROGRAMS[name].relative_to(EXAMPLES.parent).as_posix()
    counted = [_of_peer(name, library) for library in LIBRARIES]
    return " | ".join([f"[{TITLES[name]}]({link})", str(lines(PROGRAMS[name])), *counted])


def _of_peer(name: str, library: str) -> str:
    found = [peer for peer in PEERS[name] if peer.stem == f"{name}_{library}"]
    return str(lines(found[0])) if found else ""


def _code(program: Path) -> str:
    """Return a program without its docstring."""
    text = program.read_text()
    first = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[first.end_lineno :]).lstrip("\n") + "\n"


PAGES = {"how-to/ten-programs.md": programs_page}
