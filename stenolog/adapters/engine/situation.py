"""Situation of an agent before a model call, for instructions that are a function.

Agent("clerk", llm=…, persona=lambda now: f"You are a clerk. Today is {now.time:%A, %d %B %Y}.")
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.domain.entry import Entry
from stenolog.domain.events import UNCHANGED, AssistantMessage, ModeSwitch, UserMessage
from stenolog.domain.lanes.state import LaneState, State, address
from stenolog.domain.settings import Settings
from stenolog.projections.fold import fold


@dataclass(frozen=True)
class Situation:
    """One lane before a model call: what its agent's instructions may depend on.

    `time` is the log's clock; a text with its seconds in it changes at each call, and ends the provider's
    cache there. `deps` are those of the run, and are never recorded.
    """

    conversation: Conversation
    lane: LaneState
    state: State
    settings: Settings
    time: datetime
    deps: Any = None

    @property
    def mode(self) -> str:
        """The mode that the agent works in."""
        return self.settings.mode_of(self.lane.agent)

    @property
    def user(self) -> str:
        """The author of the last message of a person; empty if it has none."""
        for entry in backwards(self.conversation, self.state.position):
            match entry.event:
                case UserMessage(author_kind="person", control=None, author=author):
                    return author
                case _:
                    pass
        return ""

    @property
    def memory(self) -> str:
        """The facts that the agent keeps, one a line."""
        kept = self.conversation.fold(FACTS).get(self.lane.agent, ())
        events = (self.conversation.entry(position).event for position in kept)
        return "\n".join(event.text for event in events if isinstance(event, AssistantMessage))


@fold(initial=dict[str, tuple[int, ...]](), state=dict[str, tuple[int, ...]], name="kept-facts")
def FACTS(known: dict[str, tuple[int, ...]], entry: Entry) -> dict[str, tuple[int, ...]]:
    """Collect the positions of the facts that each agent keeps."""
    match entry.event:
        case AssistantMessage(agent=agent, task=task, purpose="memory", replaces=replaced):
            kept = tuple(position for position in known.get(agent, ()) if position != replaced)
            return {**known, address(agent, task): (*kept, entry.position)}
        case ModeSwitch(context_from=start, agents=agents) if start is not UNCHANGED:
            return {agent: kept for agent, kept in known.items() if agents and agent not in agents}
        case _:
            return known
