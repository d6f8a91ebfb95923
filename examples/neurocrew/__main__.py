"""The room: at the terminal by itself, with you (`--console`), or on Telegram (`--telegram`)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import stenolog
from stenolog.adapters.teamfile import load
from stenolog.chats import Console

from . import commands as commands  # registers them
from .report import report

CREW = Path(__file__).with_name("crew.toml")
SCRIPT = (
    "/intent Build a login for the bakery.",
    "/require No password may stand in a log.",
    "/kill Code Reviewer",
    "What about a lost password?",
    "/reset",
    "What did I ask you to build?",
)
"""What is said where nobody is there to type."""


def main() -> None:
    """Open the log, and let the crew talk."""
    options = arguments()
    with stenolog.open(options.db) as log:
        asyncio.run(at_terminal(log, typed=options.console))
        print("", *report(log["crew"]), sep="\n")
    if not options.console:
        print("Talk with them: python -m examples.neurocrew --console, or --telegram (see README.md)")


async def at_terminal(log: stenolog.Log, *, typed: bool) -> None:
    """The room at the terminal: with what is typed, or with the script."""
    async with load(CREW).team as team:
        await Console(team, log, conversation="crew", lines=None if typed else script()).serve()


def script() -> Iterator[str]:
    """The lines, shown as they are said."""
    for line in SCRIPT:
        print(f"\n> {line}")
        yield line


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m examples.neurocrew", description=__doc__)
    parser.add_argument("--db", default="neurocrew.db", help="the file of the log")
    parser.add_argument("--console", action="store_true", help="type yourself")
    return parser.parse_args()


if __name__ == "__main__":
    main()
