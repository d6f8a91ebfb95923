"""python -m examples.crewagent: chat, agent and run mode on one conversation, told as it happens."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Team
from stenolog.engine import EntryAppended
from stenolog.models import Model, model_from_string

from ..ends import command, ended, failures
from ..shell import run
from .acts import ACTS
from .crew import crew
from .script import scripted
from .story import Story


async def play(conversation: Conversation, model: Model, story: Story) -> None:
    """Play every act, from where the log ends; an act is not repeated."""
    async with Team([crew(model)], mode="chat") as team:
        if failures(conversation, but=["timeout"]):  # the model could not be asked: once more
            await team.resume(conversation)
        for act in ACTS:
            story.tell(act.prepare(conversation))
            async for happened in team.run(conversation, act.message, id=act.id):
                if isinstance(happened, EntryAppended):
                    story.tell([happened.entry])
                    if act.restarts and starts_work(happened.entry):
                        start_anew()
            if failures(conversation, but=["timeout"]):  # what follows a timeout is for the user to say
                return


def starts_work(entry: Entry) -> bool:
    """Return whether the agent has just called a tool."""
    return isinstance(entry.event, AssistantMessage) and bool(entry.event.tool_calls)


def start_anew() -> None:
    """Replace this process by the same program, as after a crash."""
    print("\n*** the program is started anew; nothing but the log is left ***\n", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main() -> int:
    """Play it, and where there is nothing left to play, tell what was; 1 where a model call has failed."""
    options = argparse.ArgumentParser(prog="python -m examples.crewagent", description=__doc__)
    options.add_argument("--db", default="crewagent.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    model = model_from_string(given.model) if given.model else scripted()
    with stenolog.open(given.db) as log:
        conversation = log["parser"]
        story = Story(conversation)
        asyncio.run(play(conversation, model, story))
        if not story.told:
            story.tell(conversation.entries())
        print(f"\n{conversation.position} entries in {given.db}; they are all there is.")
        print("What the last answer was made from:", command(conversation, "crew", given.db), sep="\n  ")
        return ended(failures(conversation))


if __name__ == "__main__":
    run(main)
