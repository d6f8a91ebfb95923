"""Tool `recall`: an agent searches earlier words, here and in other conversations.

    Agent("coder", llm=…, tools=[recall])                             # only this conversation
    Agent("coder", llm=…, tools=[recall_from("menu", "prices")])      # and those two
    Agent("coder", llm=…, tools=[recall_from(same_customer)])         # and those that a function allows

Of another conversation an agent recalls what it would be sent there: nothing erased, hidden, reset, edited
away or addressed to others. What a summary covers may be recalled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.visibility import visible_to
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import AssistantMessage, Event, ToolResult, UserMessage

from .base import BaseTool, ToolContext, ToolOutput
from .functions import tool

MayRecall: TypeAlias = Callable[[str, Conversation, Conversation], bool]
"""Returns whether an agent (its name), at work in the first conversation, may recall the second."""
KINDS = ("user_message", "assistant_message", "tool_result")
CANDIDATES = (40, 2_000)
"""Hits that are looked at: few at first, and all that a search ranks where those are not enough."""
LONGEST_PASSAGE = 800
"""Characters of a passage; a longer text is cut around the first word that was looked for."""
NOTHING = "nothing found"


class Passage(NamedTuple):
    """Words of an entry that an agent recalls; `who` said them, and to whom."""

    conversation: str
    position: int
    time: str
    who: str
    text: str

    def __str__(self) -> str:
        return f"[{self.conversation} {self.position}, {self.time}, {self.who}]\n{self.text}"


class RecallScope:
    """Other conversations that may be recalled: by name, or by a function.

    Raises `CallerError` for anything else.
    """

    def __init__(self, *where: str | MayRecall) -> None:
        for each in where:
            if not callable(each) and not (isinstance(each, str) and each):
                expected = "names of conversations, or a function that allows them"
                raise CallerError(f"recall: expected {expected}, found {each!r:.80}")
        self._names = frozenset(each for each in where if isinstance(each, str))
        self._rules = [each for each in where if callable(each)]

    def passages(
        self, conversation: Conversation, agent: str, query: str, limit: int, *, elsewhere: bool = False
    ) -> list[Passage]:
        """Return the best passages for a query that the agent may see, at most `limit`.

        `elsewhere` leaves out the agent's own conversation. Raises `InvalidEventError`.
        """
        found: dict[tuple[str, str], Passage] = {}
        views: dict[str, Callable[[Entry], bool]] = {}
        for source, entry, who in self._hits(conversation, agent, query, elsewhere):
            if source.name not in views:
                views[source.name] = visible_to(source, agent)
            text = _spoken_text(entry)
            if text.strip() and views[source.name](entry):
                at = entry.time.isoformat(" ", "minutes")[:16]
                passage = Passage(source.name, entry.position, at, who, _around(text, query))
                # Forks share entries, so the id says which words are the same.
                found.setdefault((entry.id, text), passage)
            if len(found) >= limit:
                break
        return [*found.values()]

    def found(self, conversation: Conversation, agent: str, query: str, limit: int) -> list[Passage]:
        """Return the passages with all words of a query, else those with any longer one."""
        found = self.passages(conversation, agent, query, limit)
        if not found and (wider := any_of(query)):
            found = self.passages(conversation, agent, wider, limit)
        return found

    def _hits(
        self, conversation: Conversation, agent: str, query: str, elsewhere: bool
    ) -> Iterator[tuple[Conversation, Entry, str]]:
        """Yield the entries with these words, the best first; those of this conversation come first."""
        log, allowed = conversation.log, dict[str, bool]()
        if not elsewhere:
            for hit in conversation.search(query, kinds=KINDS, limit=CANDIDATES[0]):
                yield conversation, conversation.entry(hit.position), hit.who
        if not self._names and not self._rules:
            return
        begin = 0
        for most in CANDIDATES:
            hits = log.search(query, kinds=KINDS, limit=most)
            for hit in hits[begin:]:
                name = hit.conversation
                if name not in allowed:
                    allowed[name] = name != conversation.name and self._allows(agent, conversation, log[name])
                if allowed[name]:
                    other = log[name]
                    yield other, other.entry(hit.position), hit.who
            begin = len(hits)
            if begin < most:
                return

    def _allows(self, agent: str, conversation: Conversation, other: Conversation) -> bool:
        return other.name in self._names or any(rule(agent, conversation, other) for rule in self._rules)


def recall_from(*where: str | MayRecall, limit: int = 5) -> BaseTool:
    """Return the tool `recall` for these conversations, by name or by a function, and the agent's own.

    `limit`: the number of passages that a call returns. Raises `CallerError`.
    """
    scope = RecallScope(*where)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise CallerError(f"recall: limit: expected a whole number from 1 on, found {limit!r:.40}")

    @tool(repeat="safe")
    def recall(query: str, call: ToolContext) -> ToolOutput:
        """Find what was said earlier, also in other conversations, by words that occur in it."""
        assert call.conversation is not None, "the engine gives the conversation"
        agent = call.lane.partition("/")[0]
        found = scope.found(call.conversation, agent, query, limit)
        return ToolOutput(("\n\n".join(map(str, found)) or NOTHING,), meta=recalled(found))

    return recall


recall = recall_from()
"""The tool `recall` for the conversation that an agent is in, and no other."""


def recalled_in(event: Event) -> list[tuple[str, int]]:
    """Return the conversations and positions from which an event has recalled words."""
    ours = getattr(event, "meta", {}).get("stenolog")
    recalled = ours.get("recalled") if isinstance(ours, Mapping) else None
    pairs = recalled if isinstance(recalled, Sequence) and not isinstance(recalled, str) else ()
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


def recalled(passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the `meta` that names the passages' sources, so that copies of an entry can be found."""
    return {"stenolog": {"recalled": [[p.conversation, p.position] for p in passages]}} if passages else {}


MOST_WORDS = 16
SHORTEST_WORD = 4
"""Characters: shorter words are in every message."""


def key_words(text: str) -> list[str]:
    """Return the longer words of a text, each once, in lower case."""
    found = re.findall(rf"\w{{{SHORTEST_WORD},}}", text.casefold())
    return [*dict.fromkeys(found)][:MOST_WORDS]


def any_of(text: str) -> str:
    """Return a query for any of a text's longer words; empty if it has none."""
    return " OR ".join(f'"{word}"' for word in key_words(text))


def _spoken_text(entry: Entry) -> str:
    """Return the words of an entry, without thoughts, calls and recalled passages."""
    event = entry.event
    match event:
        case AssistantMessage(purpose="summary" | "memory" | "routing"):
            return ""
        case UserMessage() | AssistantMessage() | ToolResult() if not recalled_in(event):
            return event.text
        case _:
            return ""


def _around(text: str, query: str) -> str:
    if len(text) <= LONGEST_PASSAGE:
        return text
    folded = text.casefold()
    found = [at for word in re.findall(r"\w+", query.casefold()) if (at := folded.find(word)) >= 0]
    begin = max(0, min(found, default=0) - LONGEST_PASSAGE // 4)
    cut = text[begin : begin + LONGEST_PASSAGE]
    return f"{'…' if begin else ''}{cut}{'…' if begin + LONGEST_PASSAGE < len(text) else ''}"
