"""The five agents: who they are, what they see, and how the first of them leads the others."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from stenolog import AssistantMessage, Conversation, ModeSwitch, NewEntry, VersionConflictError
from stenolog.context import Attribution, MissedMessages, SinceLastTurn
from stenolog.engine import Agent, Orchestrator, RetryPolicy, Team
from stenolog.models import CommandLine, Model
from stenolog.tools import ToolContext, tool

from .completions import completions
from .script import PARTS, scripted

MANAGER = "project-manager"
OWN_VIEW = Attribution(others="💬 {name}") | MissedMessages()
RETRIES = RetryPolicy(attempts={**RetryPolicy().attempts, "process_exited": 9}, base=0.05, max_delay=10)
PERSONAS = {
    MANAGER: (
        "You lead a project. Enter a phase with hand_over, then ask those who work in it by @name: "
        "planner, executor, reviewer, tester. When all is done, answer without naming anybody."
    ),
    "planner": "You plan the work in two or three steps.",
    "reviewer": "You read what was built, and say what is wrong with it.",
    "tester": "You test what was built.",
}


@tool(repeat="keyed")
def hand_over(call: ToolContext, phase: str, summary: str) -> str:
    """Enter a phase. The summary is what those who work in it must know."""
    assert call.conversation is not None, "the engine gives it"
    why = AssistantMessage(
        agent=call.lane, purpose="routing", text=note(call.conversation, call.position, phase)
    )
    switch = ModeSwitch(mode=phase, handoff=summary)
    drafts = [NewEntry(why, f"routing-{call.key}"), NewEntry(switch, f"phase-{call.key}")]
    while True:
        with suppress(VersionConflictError):
            call.conversation.extend(drafts, expected=call.conversation.position)
            return f"You are in phase {phase}."


def note(conversation: Conversation, at: int, phase: str) -> str:
    """Return the manager's note to itself: how far the project is. Its calls are addressed to all."""
    tasks = completions(conversation.entries(at=at))
    done = sorted(f"{task.agent} ({task.phase})" for task in tasks if task.answered)
    return f"Next: {phase}. Answered so far: {', '.join(done) or 'nobody'}."


def team(model: Model | None = None) -> Team:
    """Return the team; `model` replaces the scripts. The executor is a program with its own session."""
    coder = CommandLine([sys.executable, str(Path(__file__).with_name("coder.py"))], mode="long-lived")
    agents = [
        Agent(
            name,
            llm=model or scripted(PARTS[name]),
            persona=persona,
            policy=OWN_VIEW,
            tools=[hand_over] if name == MANAGER else [],
            retries=RETRIES,
        )
        for name, persona in PERSONAS.items()
    ]
    executor = Agent("executor", llm=coder, policy=OWN_VIEW | SinceLastTurn(), retries=RETRIES)
    return Team([*agents, executor], turns=Orchestrator(agent=MANAGER))
