"""The list of a conversation's entries: all, or those of a kind, of a lane, or with some words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.store.contract.values import Stream
from stenolog.apps.inspect.conversation_index import KINDS, ConversationIndex
from stenolog.apps.inspect.query import Query
from stenolog.domain.errors import InvalidEventError

HITS = 1000
"""The most entries with some words that a list shows."""


class Listing(NamedTuple):
    """The positions of a list, and its filters: a kind (`only`), a lane (`of`), words (`q`)."""

    positions: Sequence[int]
    only: str = ""
    of: str = ""
    q: str = ""

    @property
    def filters(self) -> dict[str, str]:
        """The parameters of an address that narrow the list so."""
        return {name: value for name, value in (("only", self.only), ("of", self.of), ("q", self.q)) if value}


def listing(query: Query) -> Listing:
    """Return the list that an address asks for. Raises `InvalidEventError`."""
    only, of, words = query.word("only"), query.word("of"), query.word("q")
    if only and only not in KINDS:
        raise InvalidEventError(f"only: expected one of {', '.join(KINDS)}, found {only!r:.60}")
    positions = query.index.filtered(only, of)
    if words.strip():
        hits = query.conversation.search(words, limit=HITS, newest=True)
        found = {hit.position for hit in hits}
        positions = [position for position in positions if position in found]
    return Listing(positions, only, of, words)


def lanes_of(index: ConversationIndex) -> list[str]:
    """Return the lanes that can be chosen, in the order of their first entries."""
    return [where for where, _ in sorted(index.spans.items(), key=lambda item: item[1][0]) if where]


def forks_of(talk: Conversation) -> dict[int, list[str]]:
    """Return the names of this conversation's forks, by the last position that they share."""
    recorder, found = talk.log.recorder, dict[int, list[str]]()
    if talk.key is None:
        return found
    shared: Mapping[int, str] = recorder.erasure.conversations_with(talk.stream, 1)
    for key, name in shared.items():
        segments = recorder.lineage(Stream(name, key))
        if len(segments) > 1 and segments[-2].key == talk.key:
            found.setdefault(segments[-1].after, []).append(name)
    return found
