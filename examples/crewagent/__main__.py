"""python -m examples.crewagent: chat, agent and run mode on one conversation, told as it happens."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Recorded, Team
from stenolog.models import Model, model_of

from .acts import ACTS
from .crew import crew
from .script import scripted
from .story import told


async def play(talk: Conversation, model: Model) -> None:
    """Every act, from wherever the log stands; what has happened already does not happen again."""
    async with Team([crew(model)], mode="chat") as team:
        for act in ACTS:
            say(talk, act.prepare(talk))
            async for happened in team.run(talk, act.message, id=act.id):
                if isinstance(happened, Recorded):
                    say(talk, [happened.entry])
                    if act.restarts and starts_work(happened.entry):
                        start_anew()


def say(talk: Conversation, entries: Iterable[Entry]) -> None:
    """Tell of some entries on the terminal."""
    for line in (line for entry in entries for line in told(talk, entry)):
        print(line, flush=True)


def starts_work(entry: Entry) -> bool:
    """Whether the agent has just called a tool."""
    return isinstance(entry.event, AssistantMessage) and bool(entry.event.tool_calls)


def start_anew() -> None:
    """This process is over at once, as after a crash; the same program takes its place."""
    print("\n*** the program is started anew; nothing but the log is left ***\n", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main() -> None:
    """Play it, and where there is nothing left to play, tell what was."""
    options = argparse.ArgumentParser(prog="python -m examples.crewagent", description=__doc__)
    options.add_argument("--db", default="crewagent.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    with stenolog.open(given.db) as log:
        talk = log["parser"]
        before = talk.position
        asyncio.run(play(talk, model_of(given.model) if given.model else scripted()))
        if talk.position == before:
            say(talk, talk.entries())
        print(f"\n{talk.position} entries in {given.db}; they are all there is.")


if __name__ == "__main__":
    main()
