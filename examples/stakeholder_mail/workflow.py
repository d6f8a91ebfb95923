"""The workflow: what is said to whom, in which order. Everything it knows is in the log; so it can be killed
anywhere, and started again from its beginning.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from stenolog import AssistantMessage, Conversation, Draft, Entry, ModeSwitch, Run, Team, UserMessage
from stenolog.engine import Happening

TALK = "october"
DONE = "All mails are written: sum up."


class Stakeholder(NamedTuple):
    """Somebody who gets a mail."""

    name: str
    role: str
    cares: list[str]


class Inputs(NamedTuple):
    """What comes in."""

    rules: str
    company: str
    report: str
    stakeholders: list[Stakeholder]


def _inputs(file: Path) -> Inputs:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    return Inputs(**{**given, "stakeholders": [Stakeholder(**each) for each in given["stakeholders"]]})


INPUTS = _inputs(Path(__file__).with_name("inputs.toml"))


def begin(talk: Conversation) -> None:
    """What stays, whatever is cut later, and the name of the run: once, all of it or nothing."""
    if talk.position:
        return
    people = "\n".join(f"- {who.name}, {who.role}: {', '.join(who.cares)}" for who in INPUTS.stakeholders)
    stays = [
        UserMessage(author_kind="system", text=INPUTS.rules),
        UserMessage(author_kind="system", text=f"Company: {INPUTS.company}", tags=["company"]),
        UserMessage(author_kind="system", text=f"Stakeholders:\n{people}", tags=["stakeholders"]),
    ]
    run = ModeSwitch(mode="run", active_run=Run(id=f"{TALK}-mails"), title="Mails to stakeholders")
    own_brief_alone = ModeSwitch(agents=["writer"], scope="addressed")
    talk.extend([run, own_brief_alone, *stays], expected=0)


async def plan(talk: Conversation, team: Team) -> AsyncIterator[Happening]:
    """The report comes in; the orchestrator hands on to the planner, whose plan becomes briefs."""
    begin(talk)
    async for happened in team.run(talk, f"The report:\n{INPUTS.report}", id="report"):
        yield happened
    talk.extend(briefs(talk))


async def write(talk: Conversation, team: Team) -> AsyncIterator[Happening]:
    """All mails at the same time, each on a lane of its own; then the orchestrator sums up."""
    async for happened in team.run(talk):
        yield happened
    async for happened in team.run(talk, DONE, id="done"):
        yield happened


def briefs(talk: Conversation) -> Iterator[Draft]:
    """What the planner tells each instance of the writer; said again under its id, it is there already."""
    answer = next(entry for entry in answers(talk) if said(entry).agent == "planner")
    for number, mail in enumerate(json.loads(said(answer).text)["mails"], 1):
        text = f"Write to {mail['to']}, about {mail['about']}."
        to, cause = [f"writer/mail-{number}"], answer.position
        brief = UserMessage(text=text, author="planner", author_kind="agent", to=to, cause=cause)
        yield Draft(brief, id=f"brief-{number}")


def answers(talk: Conversation) -> list[Entry]:
    """Everything that an agent has said."""
    return [entry for entry in talk.entries() if isinstance(entry.event, AssistantMessage)]


def said(entry: Entry) -> AssistantMessage:
    """What an agent has said."""
    assert isinstance(entry.event, AssistantMessage)
    return entry.event


def answer_to(talk: Conversation, id: str) -> Entry:
    """What was answered to the message with that id."""
    asked = next(entry.position for entry in talk.entries() if entry.id == id)
    return next(entry for entry in answers(talk) if said(entry).cause == asked)


def quality_of(mail: AssistantMessage) -> dict[str, Any]:
    """What was noted of a mail; empty for what is no mail."""
    return cast(dict[str, Any], mail.meta.get("quality", {}))


def mails(talk: Conversation) -> dict[str, Entry]:
    """Each mail as it stands now, by its lane's task; an edit is the last that was said there."""
    found = {said(entry).task: entry for entry in answers(talk) if said(entry).task}
    return dict(sorted(found.items()))
