"""Command `move`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.adapters.conversation.queries.exporters import EXPORTERS, session_of
from stenolog.apps.cli.arguments.agent import agent_or_only, takes_agent_else
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import RegisteredName, takes_conversation
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import new_file
from stenolog.apps.views.lanes import lane
from stenolog.apps.views.sessions import FirstRequest, first_sent
from stenolog.apps.views.sessions import lacks as lacking
from stenolog.projections.formats.readable import texts
from stenolog.projections.programs import PROGRAMS, Program, home_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.projections.moments.session import AgentSession


class _Programs(Mapping[str, Program]):
    """The programs that go on with a session, as they are registered."""

    def __getitem__(self, name: str) -> Program:
        return self._registered()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._registered())

    def __len__(self) -> int:
        return len(self._registered())

    def _registered(self) -> dict[str, Program]:
        return {each.name: each for each in PROGRAMS.values() if each.exporter is not None}


PROGRAMS_TO = _Programs()


@command("move", example="stenolog move demo --to pi")
@click.option("--to", type=RegisteredName(PROGRAMS_TO), required=True, help="The program that goes on.")
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The program's own folder. Default: where it keeps its sessions.",
)
@click.option("--check", is_flag=True, help="Compare what the program was sent, as a tap recorded it.")
@click.option("--sent", metavar="NAME", help="The recording for --check. Default: the session's.")
@takes_agent_else("whose session it is; required if several")
@takes_conversation
def move_command(
    db: Database,
    target: str,
    to: str,
    home: Path | None,
    check: bool,
    sent: str | None,
    agent: str | None,
) -> CommandResult:
    """Write a conversation as another program's session.

    Prints the command that goes on with it, and starts nothing.
    """
    if sent is not None and not check:
        raise click.UsageError("--sent is for --check")
    program = PROGRAMS_TO[to]
    log = open_log(db)
    conversation = find_conversation(log, target)
    session = session_of(conversation, lane(agent_or_only(conversation, agent, conversation.position)).agent)
    if check:
        known = program.requests.client if program.requests is not None else program.executable
        recorded = find_conversation(log, sent or f"{known}-{session.id}")
        return _checked(program, conversation, recorded, first_sent(session, recorded))
    folder = session.folder if Path(session.folder).is_dir() and session.folder != "/" else str(Path.cwd())
    if session.folder not in ("/", folder):
        notes = (*session.notes, f"its folder {session.folder}, which is not here: {folder} is used")
        session = session._replace(notes=notes)
    return _moved(program, conversation, session._replace(folder=folder), home)


def _moved(
    program: Program, conversation: Conversation, session: AgentSession, home: Path | None
) -> CommandResult:
    write, sessions = EXPORTERS[program.name].write_session, program.folders[0]
    assert write is not None, "a program's exporter writes sessions"
    made = write(session)
    file = (home or Path(home_of(sessions, os.environ)).expanduser()) / sessions.place / made.place
    is_new = new_file(file, made.text)
    resume = shlex.join(made.command)

    def draw() -> Iterator[Piece]:
        where = "is now" if is_new else "was already"
        words = f"{conversation.name} {where} a session of {program.name}: {file}"
        yield line(("✓ ", "green"), words, kept=2)
        yield line("go on: ", (f"cd {shlex.quote(session.folder)} && {resume}", "bold"), kept=2)

    data = {
        "conversation": conversation.name,
        "program": program.name,
        "session": made.id,
        "file": str(file),
        "folder": session.folder,
        "command": list(made.command),
        "is_new": is_new,
    }
    return CommandResult(data, draw, diagnostics=lacking(conversation, made))


def _checked(
    program: Program, conversation: Conversation, recorded: Conversation, sent: FirstRequest
) -> CommandResult:
    lacks, found = sent.carried.lacks, [*sent.differences()]
    number = sent.carried.found + len(lacks)
    words = f"the first request of {recorded.name} has {sent.carried.found} of {counted(number, 'part')}"

    def draw() -> Iterator[Piece]:
        mark = ("✗ ", "red") if lacks else ("✓ ", "green")
        yield line(mark, f"{words} of {conversation.name}", kept=1)
        for sign, block in found:
            yield line(f"  {sign} {block.pointer}  ", " ".join(texts(block.value)) or block.key)
        own = f"a system prompt of {sent.prompt:,} characters and {counted(sent.tools, 'tool')}"
        yield line(f"  beside them, {program.name}'s own: {own}")

    data = {
        "conversation": conversation.name,
        "recorded": recorded.name,
        "parts": number,
        "found": sent.carried.found,
        "differences": [
            {"sign": sign, "pointer": block.pointer, "text": " ".join(texts(block.value))}
            for sign, block in found
        ],
        "system_prompt": sent.prompt,
        "tools": sent.tools,
    }
    return CommandResult(data, draw, failed=bool(lacks))
