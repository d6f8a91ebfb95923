"""python -m examples.tenex: a project from Ann's wish to the finished page, then who has seen what of it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from textwrap import indent

from rich.console import Console

import stenolog
from stenolog import Conversation, Log, Recorded
from stenolog.adapters.transcripts import import_file
from stenolog.chats import mentioned
from stenolog.engine import Team
from stenolog.models import model_of

from ..shell import run
from .completions import completions, lanes
from .team import MANAGER, team
from .views import asked_last, said, side_by_side

EVENTS = Path(__file__).parents[2] / "docs" / "examples" / "nostr.jsonl"
MENU, SITE, FORK, OTHER = "menu", "opening-hours", "what-if-dark", "gift-cards"
SAYS = {
    "past": (MENU, "@reviewer, what became of the menu?"),
    "wish": (SITE, "@project-manager, we need a page with our opening hours."),
    "good": (SITE, "Thank you! And is it good, @reviewer?"),
    "dark": (FORK, "@executor, make it dark."),
    "other": (OTHER, "@executor, which page do you work on?"),
}


async def work(log: Log, agents: Team) -> None:
    """Everything that Ann says, and what comes of it, from wherever the log stands."""
    import_file(log, EVENTS, name=MENU)  # a conversation of the past; importing it again adds nothing
    names = {name: name for name in agents.agents}
    async with agents:
        for id, (conversation, text) in SAYS.items():
            if conversation == FORK and FORK not in log:
                log[SITE].fork(done_at(log[SITE]), FORK)
            talk = log[conversation]
            async for happened in agents.run(talk, text, to=mentioned(text, names), id=id):
                if isinstance(happened, Recorded) and (line := said(happened.entry, 68)):
                    print(f"{talk.name:<14}{happened.entry.position:>3}  {line}")


def done_at(talk: Conversation) -> int:
    """The position at which the project manager has closed the project: its last answer."""
    speakers = ((e.position, getattr(e.event, "agent", "")) for e in talk.entries())
    return max(position for position, agent in speakers if agent == MANAGER)


def show(log: Log) -> None:
    """Who saw what when the executor came back, what it was sent; what was done, read, answered; sessions."""
    out, talk = Console(width=100, highlight=False, markup=False), log[SITE]
    asked = asked_last(talk, "executor")
    out.print("", side_by_side(talk, asked), "\nWhat the executor was sent there:", sep="\n")
    print(indent(talk.request("executor", asked, "plain").body["prompt"], "  | ", lambda line: True))
    out.print("\nTasks")
    for task in completions(talk.entries()):
        out.print(f"  {task.phase:<8} {task.agent:<16} asked at {task.asked}, answered at {task.answered}")
    out.print("\nRead up to (by its receipts), answered at, session")
    for conversation in (SITE, FORK, OTHER):
        for where, seen, answered, session in lanes(log[conversation]):
            out.print(f"  {conversation:<14} {where:<16} {seen:>3} {answered:>3}  {session}")
    out.print(f"\nWhy? stenolog request {SITE} --agent executor --db {log.path}")


def main() -> None:
    """Do it, and show it."""
    options = argparse.ArgumentParser(prog="python -m examples.tenex", description=__doc__)
    options.add_argument("--db", default="tenex.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    with stenolog.open(given.db) as log:
        asyncio.run(work(log, team(model_of(given.model) if given.model else None)))
        show(log)


if __name__ == "__main__":
    run(main)
