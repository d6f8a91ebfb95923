"""Sessions of other programs that go on with a conversation: what they lack, and what was sent of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from stenolog.adapters.conversation.queries.requests.moments import read_moment
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.analysis.cache.difference import Carried, carried
from stenolog.projections.formats.caching import Block
from stenolog.projections.formats.readable import texts
from stenolog.projections.requests import LaneId

from .envelope import Diagnostic

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.projections.moments.session import AgentSession, SessionFile


BEGIN = 60
"""Characters by which a part that a program has shortened is found again."""


class FirstRequest(NamedTuple):
    """The first request of a program that went on with a session, compared with what the log says.

    `prompt` are the characters of the program's own system prompt, `tools` the number of its tools.
    """

    carried: Carried
    prompt: int
    tools: int

    def differences(self) -> Iterator[tuple[str, Block]]:
        """Yield each difference: `-` is missing, `~` begins the same and goes on otherwise, `+` came."""
        came = [*self.carried.adds]
        for block in self.carried.lacks:
            other = next((each for each in came if _begin(each) == _begin(block)), None)
            if other is not None:
                came.remove(other)
            yield "-" if other is None else "~", block
        yield from (("+", block) for block in came)


def lacks(conversation: Conversation, made: SessionFile) -> tuple[Diagnostic, ...]:
    """Return notes on what a session file cannot hold of a conversation."""
    return tuple(
        Diagnostic("note", "not-in-session", f"not in the session: {words}", conversation.name)
        for words in made.notes
    )


def first_sent(session: AgentSession, recorded: Conversation) -> FirstRequest:
    """Return what the first request in a recording has of a session.

    Raises `InvalidEventError` if the recording has no request.
    """
    for entry in recorded.entries():
        event = entry.event
        if not isinstance(event, AssistantMessage | LlmError) or event.receipt is None:
            continue
        if isinstance(event, AssistantMessage) and event.purpose != "answer":
            continue
        view = event.receipt.view
        sent = read_moment(recorded, LaneId(event.agent, event.task), view).request
        said = session.request(sent.api.partition("@")[0], str(sent.body.get("model")))
        card = recorded.settings(at=view).card_of(event.agent)
        return FirstRequest(carried(said, sent), len(card.persona), len(card.tools or ()))
    raise InvalidEventError(f"{recorded.name!r}: expected a recorded request, found none")


def _begin(block: Block) -> str:
    words = " ".join(texts(block.value)).split()
    return " ".join(words)[:BEGIN]
