"""Automatic recall of passages from other conversations, before an agent is asked.

    Agent("coder", llm=…, recall=AutoRecall("menu", "prices"))
    Agent("coder", llm=…, recall=AutoRecall(same_customer))

They are an entry of the agent's own (`purpose="memory"`), so its requests follow from the log.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent, Upkeep
from stenolog.adapters.tools import recall
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, DuplicateIdError, VersionConflictError
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.projections.fold import fold

TITLE = "Recalled from other conversations:"
# One common word is chance, and a passage about something else costs more than it helps.
LEAST_WORDS = 2
"""The words of a message that a passage must have, if the message has as many."""


class AutoRecall(Upkeep):
    """Passages of other conversations that share words with a message.

    `where` names conversations, or is a function that allows them; of each, the agent sees what it would be
    sent there. At most `limit` passages a message, and none twice. Raises `CallerError` without
    conversations.
    """

    def __init__(self, *where: str | recall.MayRecall, limit: int = 3) -> None:
        if not where:
            raise CallerError("expected conversations that may be recalled, or a function, found none")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise CallerError(f"limit: expected a whole number from 1 on, found {limit!r:.40}")
        self.by = None
        self.limit = limit
        self._scope = recall.RecallScope(*where)

    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> object:
        return await asyncio.to_thread(self._recall, conversation, agent)

    def _recall(self, conversation: Conversation, agent: str) -> None:
        state = conversation.state()
        lane = state.lane(agent)
        if lane.asked <= lane.answered or not state.takes_part(agent):
            return
        asking = conversation.entry(lane.asked)
        mark = f"recalled-{sha256(agent.encode()).hexdigest()[:8]}-{asking.position}"
        if not isinstance(asking.event, UserMessage | AssistantMessage) or conversation.entry_by_id(mark):
            return
        found = self._passages(conversation, agent, asking.event.text)
        if not found:
            return
        recalled = AssistantMessage(
            agent=agent,
            purpose="memory",
            text="\n\n".join([TITLE, *map(str, found)]),
            cause=asking.position,
            meta=recall.recalled(found),
        )
        try:
            conversation.append(recalled, id=mark, expected=state.position)
        except (DuplicateIdError, VersionConflictError):
            return  # another runner was first, or something was said: the next look decides anew

    def _passages(self, conversation: Conversation, agent: str, text: str) -> list[recall.Passage]:
        """Return the passages with enough of the words that the conversation does not have yet."""
        words, known = recall.key_words(text), set(conversation.fold(RECALLED).get(agent, ()))
        if not words:
            return []
        found = self._scope.passages(
            conversation, agent, recall.any_of(text), self.limit + len(known) + SPARE, elsewhere=True
        )
        enough = min(LEAST_WORDS, len(words))
        return [
            passage
            for passage in found
            if f"{passage.conversation} {passage.position}" not in known
            if sum(word in passage.text.casefold() for word in words) >= enough
        ][: self.limit]


SPARE = 20
"""Passages that are looked at beyond those wanted: some have too few of the words."""


NONE: dict[str, list[str]] = {}


@fold(initial=NONE, state=dict[str, list[str]], name="recalled")
def RECALLED(known: dict[str, list[str]], entry: Entry) -> dict[str, list[str]]:
    """Collect the passages that each agent was given."""
    event = entry.event
    if not isinstance(event, AssistantMessage) or event.purpose != "memory":
        return known
    places = [f"{conversation} {position}" for conversation, position in recall.recalled_in(event)]
    return known | {event.agent: [*known.get(event.agent, []), *places]} if places else known
