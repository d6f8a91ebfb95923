"""The workflow: who tells whom what, in which order.

Everything it knows is in the log; so it can be killed anywhere, and started again from its beginning.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from stenolog import AssistantMessage, Conversation, Entry, Log, ModeSwitch, NewEntry, Team, UserMessage
from stenolog.engine import RunEvent
from stenolog.errors import ModelError
from stenolog.events import WorkflowRun

from ..ends import check, failures

TALK = "october"
WITHOUT = "october-without-context"
"""The fork in which the writers are shown their briefs alone."""
DONE = "All mails are written: sum up."
EXAMPLE = '{"mails": [{"to": "Ann Ito, investor", "about": "revenue, cash"}]}'
GOOD = 0.9
"""A mail with a lower score is written again."""
ROUNDS = 2
"""The most reviews of a mail."""


class Inputs(NamedTuple):
    """The input."""

    rules: str
    report: str
    selected: list[str]


INPUTS = Inputs(**tomllib.loads(Path(__file__).with_name("inputs.toml").read_text(encoding="utf-8")))


def begin(conversation: Conversation) -> None:
    """Write the rules, the report and the name of the run: once, all or none."""
    if not conversation.position:
        run = ModeSwitch(
            mode="run", active_run=WorkflowRun(id=f"{TALK}-mails"), title="Mails to stakeholders"
        )
        conversation.extend([run, UserMessage(author_kind="system", text=INPUTS.rules)], expected=0)


async def plan(conversation: Conversation, team: Team) -> AsyncIterator[RunEvent]:
    """Run the workflow up to the briefs: the report, its analysis, the user's selection, the plan."""
    begin(conversation)
    if failures(conversation):  # a model could not be asked when this was started before: once more
        await team.resume(conversation)
    async for happened in _run(
        conversation, team, UserMessage(text=INPUTS.report, tags=["report"]), "report"
    ):
        yield happened
    if not found(conversation):
        wish = UserMessage(text="The line 'Stakeholders:' is missing, and a line for each of them.")
        async for happened in _run(conversation, team, wish):
            yield happened
    if not found(conversation):
        raise ModelError(
            "other", f"expected an analysis that names stakeholders, found {_latest(conversation)!r:.80}"
        )
    chosen = [name for name in found(conversation) if name in INPUTS.selected]
    selection = UserMessage(text=f"Write to: {', '.join(chosen)}.", to=["task_planner"])
    async for happened in _run(conversation, team, selection, "selection"):
        yield happened
    if not planned(conversation):
        wish = UserMessage(
            text=f"A plan is missing. Answer with JSON alone, as in {EXAMPLE}.", to=["task_planner"]
        )
        async for happened in _run(conversation, team, wish):
            yield happened
    if not planned(conversation):
        raise ModelError("other", f"expected a plan as {EXAMPLE}, found {_latest(conversation)!r:.80}")
    once(conversation, briefs(conversation))


async def write(conversation: Conversation, team: Team) -> AsyncIterator[RunEvent]:
    """Write all mails at the same time, each on its own lane, score and refine them; then sum up."""
    async for happened in drafts(conversation, team):
        yield happened
    for number in range(1, ROUNDS):
        once(conversation, refinements(conversation, number))
        async for happened in drafts(conversation, team):
            yield happened
    async for happened in _run(conversation, team, UserMessage(text=DONE), "done"):
        yield happened


async def drafts(conversation: Conversation, team: Team) -> AsyncIterator[RunEvent]:
    """Write the mails that are asked for, and have each scored."""
    async for happened in _run(conversation, team):
        yield happened
    once(conversation, reviews(conversation))
    async for happened in _run(conversation, team):
        yield happened


def without_context(log: Log) -> Conversation:
    """Return the fork at the briefs, in which the same mails are written with nothing but the brief."""
    if WITHOUT in log:
        return log[WITHOUT]
    last = max(entry.position for entry in log[TALK] if entry.id.startswith("brief-"))
    return log[TALK].fork(after=last, name=WITHOUT)


async def _run(
    conversation: Conversation, team: Team, message: UserMessage | None = None, id: str = ""
) -> AsyncIterator[RunEvent]:
    """Say the message, with an `id` once, and run the team until nobody has anything to do."""
    if message is not None and id:
        once(conversation, [NewEntry(message, id=id)])
    elif message is not None:
        conversation.append(message)
    async for happened in team.run(conversation):
        yield happened
    check(conversation)


def once(conversation: Conversation, new: Sequence[NewEntry]) -> None:
    """Append the entries that are not there by their ids, all or none."""
    position = conversation.position
    missing = [entry for entry in new if conversation.entry_by_id(str(entry.id)) is None]
    if missing:
        conversation.extend(missing, expected=position)


def briefs(conversation: Conversation) -> list[NewEntry]:
    """Return the briefs for the writers; from here on, writers and reviewers hear what is for them alone."""
    if conversation.entry_by_id("briefs") is not None:
        return []
    own_brief_alone = ModeSwitch(agents=["email_writer", "reviewer"], scope="addressed")
    told = (f"Write to {mail['to']}, about {mail['about']}." for mail in planned(conversation))
    cause = _plans(conversation)[-1].position
    new = [_to(f"email_writer/mail-{n}", text, "task_planner", cause) for n, text in enumerate(told, 1)]
    numbered = (NewEntry(brief, id=f"brief-{n}") for n, brief in enumerate(new, 1))
    return [NewEntry(own_brief_alone, id="briefs"), *numbered]


def reviews(conversation: Conversation) -> list[NewEntry]:
    """Return a request to score each mail that was not scored yet."""
    plan, made = planned(conversation), []
    for task, mail in mails(conversation).items():
        one = plan[int(task.removeprefix("mail-")) - 1]
        text = f"Score the mail to {one['to']}, about {one['about']}:\n\n{said(mail).text}"
        request = _to(f"reviewer/{task}", text, "task_planner", mail.position)
        made.append(NewEntry(request, id=f"review-{mail.position}"))
    return made


def refinements(conversation: Conversation, number: int) -> list[NewEntry]:
    """Return the requests to write the mails again that scored too low."""
    made = []
    for task, mail in mails(conversation, anew=False).items():
        review = review_of(conversation, mail)
        quality = quality_of(said(review)) if review else {}
        if review and quality and quality["score"] < GOOD:
            text = f"The reviewer lacks: {quality['lacks']}. {quality['advice']}".rstrip()
            wish = _to(f"email_writer/{task}", text, "reviewer", review.position)
            made.append(NewEntry(wish, id=f"refine-{number}-{task}"))
    return made


def _to(lane: str, text: str, author: str, cause: int) -> UserMessage:
    return UserMessage(text=text, author=author, author_kind="agent", to=[lane], cause=cause)


def found(conversation: Conversation) -> list[str]:
    """Return the names of the stakeholders that the orchestrator has found in the report."""
    texts = [said(entry).text for entry in answers(conversation) if said(entry).agent == "orchestrator"]
    listed = (re.findall(r"^- ([^,\n]+),.*:", text, re.MULTILINE) for text in texts)
    return next(filter(None, listed), [])


def planned(conversation: Conversation) -> list[dict[str, str]]:
    """Return the mails of the plan; none where there is no plan yet, or what stands there is none."""
    try:
        mails = json.loads(said(_plans(conversation)[-1]).text)["mails"]
        return [{"to": str(mail["to"]), "about": str(mail["about"])} for mail in mails]
    except (IndexError, KeyError, TypeError, ValueError):
        return []


def _plans(conversation: Conversation) -> list[Entry]:
    """Return the planner's answers to the selection; behind the briefs there is no plan."""
    selection, last = conversation.entry_by_id("selection"), conversation.entry_by_id("briefs")
    after, before = (
        selection.position if selection else 0,
        last.position if last else conversation.position + 1,
    )
    plans = (entry for entry in answers(conversation) if said(entry).agent == "task_planner")
    return [entry for entry in plans if selection and after < entry.position < before]


def _latest(conversation: Conversation) -> str:
    return said(answers(conversation)[-1]).text


def answers(conversation: Conversation) -> list[Entry]:
    """Return all answers of agents; a summary is none."""
    entries = (entry for entry in conversation.entries() if isinstance(entry.event, AssistantMessage))
    return [entry for entry in entries if said(entry).purpose == "answer"]


def said(entry: Entry) -> AssistantMessage:
    """Return the agent's message of an entry."""
    assert isinstance(entry.event, AssistantMessage)
    return entry.event


def answer_to(conversation: Conversation, id: str) -> Entry:
    """Return the orchestrator's answer to the message with that id."""
    asked = next(entry.position for entry in conversation.entries() if entry.id == id)
    since = (entry for entry in answers(conversation) if entry.position > asked)
    return next(entry for entry in since if said(entry).agent == "orchestrator")


def quality_of(review: AssistantMessage) -> dict[str, Any]:
    """Return what a review says: score, lacks and advice; empty if it is no review."""
    return cast(dict[str, Any], review.meta.get("quality", {}))


def in_words(quality: dict[str, Any]) -> str:
    """Return the score, and what the mail lacks."""
    return f"quality {quality['score']:.0%}" + (f" (lacks: {quality['lacks']})" if quality["lacks"] else "")


def mails(conversation: Conversation, *, anew: bool = True) -> dict[str, Entry]:
    """Return the current mails, by task; not `anew` without what took the place of one."""
    written = (entry for entry in answers(conversation) if said(entry).agent == "email_writer")
    found = {said(entry).task: entry for entry in written if anew or said(entry).replaces is None}
    return dict(sorted(found.items()))


def review_of(conversation: Conversation, mail: Entry) -> Entry | None:
    """Return the review of a mail; None if there is none yet."""
    asked = conversation.entry_by_id(f"review-{mail.position}")
    since = (entry for entry in answers(conversation) if asked and entry.position > asked.position)
    lane = "reviewer", said(mail).task
    return next((entry for entry in since if (said(entry).agent, said(entry).task) == lane), None)


def scores(conversation: Conversation, *, anew: bool = True) -> dict[str, dict[str, Any]]:
    """Return the score of each mail that has one; not `anew` without what took the place of one."""
    current = mails(conversation, anew=anew).items()
    reviewed = {task: review_of(conversation, mail) for task, mail in current}
    return {task: quality_of(said(review)) for task, review in reviewed.items() if review is not None}


def firsts(conversation: Conversation, agent: str) -> Iterator[Entry]:
    """Yield the first answer on each lane of an agent."""
    seen: set[str] = set()
    for entry in answers(conversation):
        if said(entry).agent == agent and said(entry).task not in seen:
            seen.add(said(entry).task)
            yield entry
