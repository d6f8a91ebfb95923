"""python -m examples.tenex: a project from Ann's wish to the finished page, then who has seen what of it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from textwrap import fill

import stenolog
from stenolog import LlmError, Log
from stenolog.chats import mentioned
from stenolog.engine import EntryAppended, Team
from stenolog.importers import import_file
from stenolog.models import model_from_string

from ..ends import command, ended, failures
from ..shell import Terminal, run
from .completions import completions, lanes
from .team import MANAGER, team
from .views import LEGEND, said, side_by_side

EVENTS = Path(__file__).parents[2] / "docs" / "examples" / "nostr.jsonl"
MENU, SITE, FORK, OTHER = "menu", "opening-hours", "what-if-dark", "gift-cards"
SAYS = {
    "past": (MENU, "@reviewer, what became of the menu?"),
    "wish": (SITE, "@project-manager, we need a page with our opening hours."),
    "good": (SITE, "Thank you! And is it good, @reviewer?"),
    "dark": (FORK, "@executor, make it dark."),
    "other": (OTHER, "@executor, which page do you work on?"),
}
out = Terminal(highlight=False, markup=False)


async def work(log: Log, agents: Team) -> list[LlmError]:
    """Say everything that Ann says, from where the log ends, and return the failed calls."""
    names = {name: name for name in agents.agents}
    async with agents:
        for id, (where, text) in SAYS.items():
            if where == FORK and FORK not in log:
                log[SITE].fork(log[SITE].state().lane(MANAGER).answered, FORK)  # where it was done
            conversation = log[where]
            for agent in {
                error.agent for error in failures(conversation)
            }:  # at an earlier start: it is asked again
                await agents.resume(conversation, agent)
            async for happened in agents.run(conversation, text, to=mentioned(text, names), id=id):
                if isinstance(happened, EntryAppended) and (line := said(happened.entry)):
                    row = f"{conversation.name:<14}{happened.entry.position:>3}  {line}"
                    out.print(row, no_wrap=True, overflow="ellipsis")
            if failed := failures(conversation):
                return failed
    return []


def show(log: Log) -> None:
    """Print the views on the executor's return, its request, the tasks and the sessions."""
    conversation = log[SITE]
    asked = conversation.state().lane("executor").seen or conversation.position
    out.print(f"\nWhat each agent is shown of {SITE} at {asked}, where the executor was asked last")
    out.print(f"({LEGEND}):\n", side_by_side(conversation, asked), sep="\n")
    out.print("\nWhat the executor was sent there, word by word:\n")
    for line in conversation.request("executor", asked, "plain").body["prompt"].splitlines():
        out.print(fill(f"  | {line}", out.width, subsequent_indent="  |   ", break_on_hyphens=False))
    out.print(f"\nWho was asked in which phase of {SITE}, as the log tells it:\n")
    for task in completions(conversation.entries()):
        answered = f"at {task.answered}" if task.answered else "not yet"
        out.print(f"  {task.phase:<8} {task.agent:<16} asked at {task.asked:>2}, answered: {answered}")
    out.print("\nHow far each has read, by its receipts, where it answered last, and its session:\n")
    for name in (name for name in (SITE, FORK, OTHER) if name in log):
        for agent, seen, at, session in lanes(log[name]):
            out.print(f"  {name:<14} {agent:<16} read {seen:>2}, answered {at:>2}  {session}".rstrip())
    out.print(f"\nWhy? {command(conversation, 'executor', str(log.path))}", soft_wrap=True)


def main() -> int:
    """Do it, and show it; 1 where a model could not be asked."""
    options = argparse.ArgumentParser(prog="python -m examples.tenex", description=__doc__)
    options.add_argument("--db", default="tenex.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    agents = team(model_from_string(given.model) if given.model else None)
    with stenolog.open(given.db) as log:
        if SITE in log:
            out.print(f"({given.db} is of an earlier start: it goes on there. --db another.db begins anew.)")
        import_file(log, EVENTS, name=MENU)  # importing it again adds nothing
        out.print(f"What was said before stands in {MENU}, imported from {EVENTS.name}:")
        out.print(f"  stenolog log {MENU} --db {given.db}", soft_wrap=True)
        out.print("What Ann says now, and what comes of it; entries without words are left out:\n")
        failed = asyncio.run(work(log, agents))
        if SITE in log:
            show(log)
        return ended(failed)


if __name__ == "__main__":
    run(main)
