"""The part of the store's contract that is about following many conversations at once, as they grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

from .store_values import CommittedRow, DraftRow


class LiveRecorder(ABC):
    """Reads the news of many conversations in one statement. See `LogRecorder`."""

    draft_interval: float
    """Seconds after which an engine stores the pieces that were streamed since the last time."""

    @abstractmethod
    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[CommittedRow]:
        """Return the next entries of streams, by key, behind a position of each: at most `limit` of each.

        Those of one stream in the order of their positions. A stream that does not exist has none.
        """

    @abstractmethod
    def drafted(self, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
        """Return what is under way in streams: each claim, with the rows of its draft that were not `seen`.

        `seen` has by fence the number of the last row that was. A claim without such a row comes once, with
        the number 0. Ordered by fence and number.
        """

    @abstractmethod
    def listening(self, wake: Callable[[], object], *, drafts: bool = False) -> AbstractContextManager[None]:
        """Have `wake` called soon after each commit of any process, perhaps without one, and at the end.

        `drafts`: also after drafts; without it a store may leave these out.
        """
