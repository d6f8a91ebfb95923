"""Cache of the conversations' indexes: in memory, and as checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import PersistentFold
from stenolog.adapters.providers.prices import listed
from stenolog.apps.views.cost_table import CostTable
from stenolog.domain.erasure import erasure_of
from stenolog.projections.fold import Fold

from .background import Later, Warmer
from .conversation_index import ConversationIndex

MOST = 64
"""The conversations whose indexes are kept in memory."""
WORTH_KEEPING = 512
"""So many entries must be new before the index is written down again."""

# It is never folded entry by entry, as it changes in place; only stored and found by this.
STORED: PersistentFold[ConversationIndex] = PersistentFold(
    Fold("inspector", ConversationIndex(), lambda index, entry: index, version=8),
    ConversationIndex.dump,
    ConversationIndex.load,
)


class IndexCache:
    """Indexes of the conversations last shown; each reads only what is new.

    It calls `forget` after an erasure, so that other caches lose the erased words too.
    """

    def __init__(self, forget: Callable[[], None] = lambda: None) -> None:
        self._forget = forget
        self.warmer = Warmer()
        self.later = Later()
        self._costs: CostTable | None = None
        self._kept: OrderedDict[int, ConversationIndex] = OrderedDict()
        self._lock = Lock()

    def costs(self, log: Log) -> CostTable:
        """Return the costs of the log's conversations."""
        with self._lock:
            self._costs = self._costs or CostTable(log, listed())
            return self._costs

    def of(self, conversation: Conversation) -> ConversationIndex:
        """Return the index of a conversation up to its end."""
        with self._lock:
            key = conversation.key or 0
            index = self._kept.pop(key, None)
            if index is None or not folds.is_at(conversation, index.position, index.digest):
                index = _stored(conversation)
            before, index = index, _extended(conversation, index)
            if index is not before:
                self._forget()
                self.later.forget()
                if conversation.log.windows is not None:
                    conversation.log.windows.drop(key)
            self._kept[key] = index
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
            return index


def _stored(conversation: Conversation) -> ConversationIndex:
    found, position = folds.load_checkpoint(conversation, STORED, None)
    return found if position else ConversationIndex()


def _extended(conversation: Conversation, index: ConversationIndex) -> ConversationIndex:
    """Return the index up to the end; a new one if an entry that it has was erased meanwhile."""
    entry, before = None, index.position
    known = before or conversation.position
    for entry in conversation.entries(after=before):
        # An erasure changes no digest: only its record shows that the index may have erased words.
        if entry.position > known and erasure_of(entry.event):
            return _extended(conversation, ConversationIndex())
        index.take(entry)
    if entry is not None and index.position - before >= WORTH_KEEPING:
        folds.save_checkpoint(conversation, STORED, entry, index)
    return index
