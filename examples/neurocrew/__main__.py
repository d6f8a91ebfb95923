"""The room: at the terminal by itself, with you (`--console`), or on Telegram (`--telegram`)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import stenolog
from stenolog.adapters.teamfile import load
from stenolog.chats import Console

from ..shell import run
from . import commands as commands  # registers them
from .report import report
from .telegram import on_telegram

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
        asyncio.run(talk(log, options))
        if log["crew"].position:
            print("", *report(log["crew"]), sep="\n")
    if not (options.telegram or options.console):
        print("Talk with them: python -m examples.neurocrew --console, or --telegram (see its README.md)")


async def talk(log: stenolog.Log, options: argparse.Namespace) -> None:
    """The room, wherever it is."""
    async with load(CREW).team as team:
        if options.telegram:
            await on_telegram(team, log, options.base_url)
        else:
            lines = None if options.console else script()
            await Console(team, log, conversation="crew", lines=lines).serve()


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
    parser.add_argument("--telegram", action="store_true", help="on Telegram: see telegram.py")
    parser.add_argument("--base-url", help="of a Bot API server of your own")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
