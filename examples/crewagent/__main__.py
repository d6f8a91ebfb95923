"""python -m examples.crewagent: chat, agent and run mode on one conversation, told as it happens."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Recorded, Team
from stenolog.models import Model, model_of

from ..ends import command, ended, failures
from ..shell import run
from .acts import ACTS
from .crew import crew
from .script import scripted
from .story import Story


async def play(talk: Conversation, model: Model, story: Story) -> None:
    """Every act, from wherever the log stands; what has happened already does not happen again."""
    async with Team([crew(model)], mode="chat") as team:
        if failures(talk, but=["timeout"]):  # the model could not be asked: once more
            await team.proceed(talk)
        for act in ACTS:
            story.tell(act.prepare(talk))
            async for happened in team.run(talk, act.message, id=act.id):
                if isinstance(happened, Recorded):
                    story.tell([happened.entry])
                    if act.restarts and starts_work(happened.entry):
                        start_anew()
            if failures(talk, but=["timeout"]):  # what follows a timeout is for the user to say
                return


def starts_work(entry: Entry) -> bool:
    """Whether the agent has just called a tool."""
    return isinstance(entry.event, AssistantMessage) and bool(entry.event.tool_calls)


def start_anew() -> None:
    """This process is over at once, as after a crash; the same program takes its place."""
    print("\n*** the program is started anew; nothing but the log is left ***\n", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main() -> int:
    """Play it, and where there is nothing left to play, tell what was; 1 where a model call has failed."""
    options = argparse.ArgumentParser(prog="python -m examples.crewagent", description=__doc__)
    options.add_argument("--db", default="crewagent.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    model = model_of(given.model) if given.model else scripted()
    with stenolog.open(given.db) as log:
        talk = log["parser"]
        story = Story(talk)
        asyncio.run(play(talk, model, story))
        if not story.told:
            story.tell(talk.entries())
        print(f"\n{talk.position} entries in {given.db}; they are all there is.")
        print("What the last answer was made from:", command(talk, "crew", given.db), sep="\n  ")
        return ended(failures(talk))


if __name__ == "__main__":
    run(main)
