"""What an example says at its end: the model calls that came to nothing, and what to look at next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Container, Sequence

from stenolog import AssistantMessage, Conversation, LlmError


def failures(talk: Conversation, but: Container[str] = ("budget",)) -> list[LlmError]:
    """Those since the last answer, where a lane stands failed by them; `but` are categories that are none."""
    errors: list[LlmError] = []
    for entry in talk.entries():
        match entry.event:
            case AssistantMessage():
                errors.clear()
            case LlmError(category=category) as error:
                errors = [] if category in but else [*errors, error]
            case _:
                pass
    failed = any(lane.status == "failed" for lane in talk.state().lanes.values())
    return errors if failed else []


def ended(failed: Sequence[LlmError]) -> int:
    """The exit code; where calls have failed, after a line that says how many, and how the last one did."""
    if not failed:
        return 0
    last, calls = failed[-1], "model call" if len(failed) == 1 else "model calls"
    why = " ".join(f"{last.category}: {last.message}".split())
    print(f"✗ {len(failed)} {calls} failed: {why}", file=sys.stderr)
    return 1


def command(talk: Conversation, agent: str, db: str) -> str:
    """The command that shows what the agent was sent for its last answer."""
    answers = (entry.event for entry in talk.entries() if isinstance(entry.event, AssistantMessage))
    views = [said.receipt.view for said in answers if said.agent == agent and said.receipt]
    at = f" --at {views[-1]}" if views else ""
    return f"stenolog request {shlex.quote(talk.name)} --agent {agent}{at} --db {shlex.quote(db)}"
