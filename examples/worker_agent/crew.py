"""With a team: workers that inherit and share, a run that is ended, a conversation that is condensed."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stenolog import Agent, Conversation, Entry, ModeSwitch, Team, UserMessage
from stenolog.context import Pins, Prompt
from stenolog.engine import AgentTool, AutoSummary, EntryAppended, Limits, RetryPolicy
from stenolog.events import WorkflowRun
from stenolog.models import Model

from ..ends import failures
from .project import read_file, read_page, run_tests

BUDGET = Limits(max_tokens=100_000)
SHARE = 0.25
"""What a worker may use of what its caller has left."""
AGAIN = RetryPolicy(base=0.1)
"""A model call that a crash cut off is tried again soon."""
CAREFUL = Pins(authors=["system"]) | Prompt(cut_note=True)


def review(model: Model) -> Team:
    """Return a lead and two workers: one in a fork of the conversation, one on its own lane within it."""
    reader = Agent("reader", llm=model, tools=[read_file], retries=AGAIN)
    tester = Agent("tester", llm=model, tools=[run_tests], retries=AGAIN)
    workers = [
        AgentTool(reader, context="fork", share=SHARE),
        AgentTool(tester, context="scope", share=SHARE),
    ]
    return Team([Agent("lead", llm=model, tools=workers, limits=BUDGET, retries=AGAIN)])


def walk(model: Model) -> Team:
    """Return the team of an agent that would never come to an end."""
    few = Limits(max_steps=4)
    return Team([Agent("walker", llm=model, tools=[read_page], limits=few, retries=AGAIN)])


def library(model: Model) -> Team:
    """Return the team of an agent that reads more than fits its requests; the system's words are pinned.

    Whenever a request has grown beyond 600 tokens, the middle of the conversation is summarised first.
    """
    middle = AutoSummary(by=Agent("summariser", llm=model, retries=AGAIN), over=600, keep=4)
    librarian = Agent("librarian", llm=model, tools=[read_page], policy=CAREFUL, retries=AGAIN)
    return Team([librarian], summary=middle)


async def do_review(conversation: Conversation, model: Model) -> AsyncGenerator[Entry, None]:
    """Ask three agents one question. Every entry is marked with the run and its node."""
    if not conversation.position:
        conversation.append(
            ModeSwitch(mode="run", active_run=WorkflowRun(id="review-1", node="look")), expected=0
        )
    async for entry in _run(review(model), conversation, "We bake one tray too few. Why?"):
        yield entry


async def do_walk(conversation: Conversation, model: Model) -> AsyncGenerator[Entry, None]:
    """Yield the entries of a run that is ended, with a reason."""
    async for entry in _run(walk(model), conversation, "Read the book, and all other books."):
        yield entry


async def do_library(conversation: Conversation, model: Model) -> AsyncGenerator[Entry, None]:
    """Ask two questions, of which the first takes more reading than fits a request."""
    if not conversation.position:
        conversation.append(UserMessage(text="Never write into the book.", author_kind="system"), id="rule")
    for number, question in enumerate(["Read the recipe book.", "What was on the third page?"]):
        async for entry in _run(library(model), conversation, question, f"question-{number}"):
            yield entry
        if failures(conversation):
            return


async def _run(
    team: Team, conversation: Conversation, question: str, id: str = "question"
) -> AsyncGenerator[Entry, None]:
    """Ask it; where the model could not be asked before, this is one more attempt."""
    if failures(conversation):
        await team.resume(conversation)
    async for happened in team.run(conversation, question, id=id):
        if isinstance(happened, EntryAppended):
            yield happened.entry
