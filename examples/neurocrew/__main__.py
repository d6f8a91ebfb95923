"""The room: at the terminal by itself, with you (`--console`), or on Telegram (`--telegram`)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill

import stenolog
from stenolog import Conversation
from stenolog.chats import Console, safe
from stenolog.engine import load_team

from ..shell import run
from . import commands as commands  # registers them
from .report import kept, report
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
    """Open the log, and let the crew conversation."""
    options = arguments()
    with stenolog.open(options.db) as log:
        asyncio.run(conversation(log, options))
        if log["crew"].position:
            show("", *report(log["crew"]))
    if not (options.telegram or options.console):
        show("Talk with them: python -m examples.neurocrew --console, or --telegram (see its README.md)")


async def conversation(log: stenolog.Log, options: argparse.Namespace) -> None:
    """Run the room, on Telegram or at the console."""
    async with load_team(CREW).team as team:
        if options.telegram:
            await on_telegram(team, log, options.base_url)
        else:
            lines = begin(log["crew"], typing=options.console)
            await Console(team, log, conversation="crew", lines=lines, show=show).serve()


def begin(conversation: Conversation, *, typing: bool) -> Iterable[str] | None:
    """Return the lines to say, or None for a person who types. Says what is left of an earlier start."""
    over = not typing and f"console:{len(SCRIPT)}" in {entry.id for entry in conversation.entries()}
    if over:
        show(f"({conversation.log.path} has this from an earlier start; --db another.db begins anew.)")
        show(*kept(conversation))
    elif conversation.position:
        show(
            f"({conversation.log.path} has {conversation.position} entries from an earlier start; "
            "it goes on there.)"
        )
    if typing:
        show("Type, and they answer in turn. /help lists the commands; Ctrl-D ends.")
    return None if typing else () if over else script()


def script() -> Iterator[str]:
    """Yield the lines, shown as they are said."""
    for line in SCRIPT:
        show(f"\n> {line}")
        yield line


def show(*texts: str) -> None:
    """Print texts, in lines no longer than the terminal's; but a command is to be copied."""
    width = get_terminal_size().columns
    for line in "\n".join(map(safe, texts)).split("\n"):
        if len(line) > width and "stenolog request" not in line:
            line = fill(line, width, subsequent_indent="    ", break_on_hyphens=False)
        print(line, flush=True)


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m examples.neurocrew", description=__doc__)
    parser.add_argument("--db", default="neurocrew.db", help="the file of the log")
    parser.add_argument("--console", action="store_true", help="type yourself")
    parser.add_argument("--telegram", action="store_true", help="on Telegram: see telegram.py")
    parser.add_argument("--base-url", help="of a Bot API server of your own")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
