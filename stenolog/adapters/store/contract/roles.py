"""Roles of a store: claims on effects, drafts of answers, and following many conversations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from .values import Claim, CommittedRow, DraftRow, Stream


class Presence(Protocol):
    """A runner that lives, as other processes see it, until its process ends or `close` is called.

    `owner` is the text that its claims name it by; `claim_owner.Owner` reads it.
    """

    owner: str

    def lives(self, owner: str) -> bool:
        """Return whether the owner of a claim is alive."""

    def forget(self, owner: str) -> None:
        """Remove what is kept about a dead owner that has no claim left."""

    def watch(self, call: Callable[[], object]) -> None:
        """Have `call` called, in any thread, once others may soon take this process for dead, or did.

        Its effects are not protected any more: another process may begin them.
        """

    def renew(self) -> None:
        """Show anew that the runner lives, before it begins an effect again. Raises `StoreError`."""

    def close(self, *, keep: bool = False) -> None:
        """End the presence. With `keep` the runner leaves claims behind, whose owner is dead from now on."""


class ClaimRecorder(ABC):
    """Claims on effects: a conversation has one at most for each lane and effect. See `LogRecorder`."""

    @abstractmethod
    def take_claims(self, stream: Stream, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """Return the claims with their fences; None for one that another process has.

        Raises `VersionConflictError` if the stream is not at `expected`: claims and appends never cross.
        """

    @abstractmethod
    def claims(self, stream: Stream) -> list[Claim]:
        """Return the claims on a conversation's effects, the oldest first."""

    @abstractmethod
    def all_claims(self) -> list[tuple[str, Claim]]:
        """Return every claim in the log, with the name of its conversation, the oldest first."""

    @abstractmethod
    def take_over_claim(self, stream: Stream, claim: Claim, owner: str) -> Claim | None:
        """Return a claim under a new fence, with its drafts; None if it is no longer there."""

    @abstractmethod
    def release_claim(self, claim: Claim) -> None:
        """Remove a claim with its draft."""

    @abstractmethod
    def add_drafts(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Store streamed pieces, by fences; none for a claim that no longer exists."""

    @abstractmethod
    def drafts(self, fence: int) -> list[bytes]:
        """Return the drafts that were kept for a claim, in order."""

    # Whether runners live

    @abstractmethod
    def presence(self, id: str) -> Presence:
        """Show to all processes that a runner lives; `id` names it and is drawn once. Raises `StoreError`."""

    @abstractmethod
    def owner_lives(self, owner: str) -> bool:
        """Return whether the owner of a claim is alive, on any machine; False for a text that names none."""


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
