"""Commands of this room, beside those that every chat has (`/help`): what they tell is a fact in the log."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from stenolog import UserMessage
from stenolog.chats import COMMANDS, CommandContext, command
from stenolog.models import CommandLine

begin_anew = COMMANDS["reset"]


@command
async def intent(told: CommandContext) -> str:
    """TEXT what you want: pinned, and said again in reminders"""
    return await _pinned(told, "intent")


@command
async def require(told: CommandContext) -> str:
    """TEXT what must hold: likewise"""
    return await _pinned(told, "requirement")


async def _pinned(told: CommandContext, tag: str) -> str:
    if not told.rest:
        return "(expected a text)"
    await told.team.send(
        told.conversation, UserMessage(text=told.rest, author=told.author, tags=[tag]), id=told.id
    )
    return f"(pinned: {tag})"


@command
async def kill(told: CommandContext) -> str:
    """ROLE ends its process, as a crash would"""
    agent = told.team.agents.get(told.rest)
    if agent is None or not isinstance(agent.llm, CommandLine):
        return f"(expected one of {', '.join(told.team.agents)})"
    pid = agent.llm.pid(agent.name, told.conversation.name)
    if pid is None:
        return f"(no process of {agent.name} runs)"
    os.kill(pid, signal.SIGKILL)
    return f"(killed the process of {agent.name})"


@command
async def reset(told: CommandContext) -> str:
    """a new start for the agents; the log keeps everything, and is copied besides"""
    if told.id in {entry.id for entry in told.conversation.entries()}:
        return "(begun anew already)"
    log = told.conversation.log.path
    # Of a log on a server the copy is a file, too, in the folder that the program was started in.
    path = Path("neurocrew.db" if "://" in log else log)
    copy = path.with_name(f"{path.stem}-{told.conversation.position}{path.suffix}")
    if not copy.exists():
        await asyncio.to_thread(told.conversation.log.backup, copy)
    return f"({await begin_anew(told)} A copy stands in {copy.name}.)"
