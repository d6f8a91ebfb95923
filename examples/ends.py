"""The last words of an example: the model calls that came to nothing, and what to look at next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Container, Sequence

from stenolog import AssistantMessage, Conversation, LlmError
from stenolog.engine import address
from stenolog.errors import ModelError


def failures(conversation: Conversation, but: Container[str] = ("budget",)) -> list[LlmError]:
    """Return the errors since the last answer of each failed lane, but those of `but`."""
    errors: dict[str, list[LlmError]] = {}
    for entry in conversation.entries():
        match entry.event:
            case LlmError(agent=agent, task=task, category=category) as error if category not in but:
                errors.setdefault(address(agent, task), []).append(error)
            case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
                errors.pop(address(agent, task), None)
            case _:
                pass
    lanes = conversation.state().lanes
    return [error for lane in errors if lanes[lane].status == "failed" for error in errors[lane]]


def check(conversation: Conversation) -> None:
    """Raise `ModelError` if a lane has failed."""
    for error in failures(conversation):
        raise ModelError(error.category, f"{address(error.agent, error.task)}: {error.message}")


def ended(failed: Sequence[LlmError]) -> int:
    """Return the exit code.

    If calls have failed, it prints their number and the error of the last one.
    """
    if not failed:
        return 0
    last, calls = failed[-1], "model call" if len(failed) == 1 else "model calls"
    why = " ".join(f"{last.category}: {last.message}".split())
    print(f"✗ {len(failed)} {calls} failed: {why}", file=sys.stderr)
    return 1


def command(conversation: Conversation, agent: str, db: str) -> str:
    """Return the command that shows what the agent was sent for its last answer."""
    answers = (entry.event for entry in conversation.entries() if isinstance(entry.event, AssistantMessage))
    views = [said.receipt.view for said in answers if said.agent == agent and said.receipt]
    at = f" --at {views[-1]}" if views else ""
    return f"stenolog request {shlex.quote(conversation.name)} --agent {agent}{at} --db {shlex.quote(db)}"
