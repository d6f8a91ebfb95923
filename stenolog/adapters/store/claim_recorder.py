"""The part of the store's contract that is about claims, drafts, and whether the owners of claims live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from .store_values import Claim, Stream


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
