"""The workflow: who tells whom what, in which order.

Everything it knows is in the log; so it can be killed anywhere, and started again from its beginning.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from stenolog import AssistantMessage, Conversation, Entry, ModeSwitch, NewEntry, Team, UserMessage
from stenolog.engine import RunEvent
from stenolog.errors import ModelError
from stenolog.events import WorkflowRun

from ..ends import check, failures

TALK = "october"
DONE = "All mails are written: sum up."
EXAMPLE = '{"mails": [{"to": "Ann Ito, investor", "about": "Revenue, cash"}]}'


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


def begin(conversation: Conversation) -> None:
    """Write the entries that no cut removes, and the name of the run: once, all or none."""
    if conversation.position:
        return
    people = "\n".join(f"- {who.name}, {who.role}: {', '.join(who.cares)}" for who in INPUTS.stakeholders)
    stays = [
        UserMessage(author_kind="system", text=INPUTS.rules),
        UserMessage(author_kind="system", text=f"Company: {INPUTS.company}", tags=["company"]),
        UserMessage(author_kind="system", text=f"Stakeholders:\n{people}", tags=["stakeholders"]),
    ]
    run = ModeSwitch(mode="run", active_run=WorkflowRun(id=f"{TALK}-mails"), title="Mails to stakeholders")
    own_brief_alone = ModeSwitch(agents=["writer"], scope="addressed")
    conversation.extend([run, own_brief_alone, *stays], expected=0)


async def plan(conversation: Conversation, team: Team) -> AsyncIterator[RunEvent]:
    """Run the workflow up to the briefs: the report, the orchestrator, and the planner's plan."""
    begin(conversation)
    if failures(conversation):  # a model could not be asked when this was started before: once more
        await team.resume(conversation)
    async for happened in team.run(conversation, f"The report:\n{INPUTS.report}", id="report"):
        yield happened
    check(conversation)
    if not planned(conversation):  # it was not handed on, or what was answered is no plan
        wish = f"A plan is missing. Answer with JSON alone, as in {EXAMPLE}."
        async for happened in team.run(conversation, wish, to="planner"):
            yield happened
        check(conversation)
    if not planned(conversation):
        raise ModelError(
            "other", f"expected a plan as {EXAMPLE}, found {said(answers(conversation)[-1]).text!r:.80}"
        )
    if not any(entry.id == "brief-1" for entry in conversation.entries()):  # all of them are appended at once
        conversation.extend(briefs(conversation))


async def write(conversation: Conversation, team: Team) -> AsyncIterator[RunEvent]:
    """Write all mails at the same time, each on its own lane; then the orchestrator sums up."""
    async for happened in team.run(conversation):
        yield happened
    check(conversation)
    async for happened in team.run(conversation, DONE, id="done"):
        yield happened
    check(conversation)


def briefs(conversation: Conversation) -> Iterator[NewEntry]:
    """Yield the planner's brief for each instance of the writer."""
    for number, mail in enumerate(planned(conversation), 1):
        text = f"Write to {mail['to']}, about {mail['about']}."
        to, cause = [f"writer/mail-{number}"], _plans(conversation)[-1].position
        brief = UserMessage(text=text, author="planner", author_kind="agent", to=to, cause=cause)
        yield NewEntry(brief, id=f"brief-{number}")


def planned(conversation: Conversation) -> list[dict[str, str]]:
    """Return the mails of the plan; none where there is no plan yet, or what stands there is none."""
    try:
        mails = json.loads(said(_plans(conversation)[-1]).text)["mails"]
        return [{"to": str(mail["to"]), "about": str(mail["about"])} for mail in mails]
    except (IndexError, KeyError, TypeError, ValueError):
        return []


def _plans(conversation: Conversation) -> list[Entry]:
    return [entry for entry in answers(conversation) if said(entry).agent == "planner"]


def answers(conversation: Conversation) -> list[Entry]:
    """Return all answers of agents."""
    return [entry for entry in conversation.entries() if isinstance(entry.event, AssistantMessage)]


def said(entry: Entry) -> AssistantMessage:
    """Return the agent's message of an entry."""
    assert isinstance(entry.event, AssistantMessage)
    return entry.event


def answer_to(conversation: Conversation, id: str) -> Entry:
    """Return the orchestrator's answer to the message with that id."""
    asked = next(entry.position for entry in conversation.entries() if entry.id == id)
    since = (entry for entry in answers(conversation) if entry.position > asked)
    return next(entry for entry in since if said(entry).agent == "orchestrator")


def quality_of(mail: AssistantMessage) -> dict[str, Any]:
    """Return the scores of a mail; empty if it is no mail."""
    return cast(dict[str, Any], mail.meta.get("quality", {}))


def in_words(quality: dict[str, Any]) -> str:
    """Return the score, and which checks it was lowered by."""
    return f"quality {quality['score']:.0%}" + (f" (lacks: {lacking})" if (lacking := lacks(quality)) else "")


def lacks(quality: dict[str, Any]) -> str:
    """Return the checks that the mail does not pass."""
    return ", ".join(check for check, passed in quality.items() if passed is False)


def mails(conversation: Conversation) -> dict[str, Entry]:
    """Return the current mails, by their lane's task; an edit is the last message there."""
    found = {said(entry).task: entry for entry in answers(conversation) if said(entry).task}
    return dict(sorted(found.items()))
