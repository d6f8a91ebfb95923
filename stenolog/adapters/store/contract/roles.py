"""Roles of a store, each an attribute of its `LogRecorder`; the rules there hold for these too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from .values import Claim, Collected, DraftRow, Head, Order, PendingEntry, Stream, Which


class ConversationStore(ABC):
    """Conversations: their names, and what becomes of them."""

    @abstractmethod
    def find(self, name: str) -> int | None:
        """Return the key of the conversation of that name."""

    @abstractmethod
    def find_all(self, names: Collection[str]) -> dict[str, int]:
        """Return the keys of those of the names that there are."""

    @abstractmethod
    def name_of(self, key: int) -> str | None:
        """Return the name that a conversation has now; None when it was deleted."""

    @abstractmethod
    def names(self, which: Which, *, limit: int | None = None, order: Order = "oldest") -> list[str]:
        """Return the names of some conversations, in an order."""

    @abstractmethod
    def count(self, which: Which) -> int:
        """Return the number of conversations selected."""

    @abstractmethod
    def fork(self, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]) -> Stream:
        """Return a new conversation that shares the entries up to `at` and continues with `items`, uncopied.

        Without a name it gets the first free one of `<name>~1`, `~2` … Raises `ConversationExistsError`,
        `ConversationNotFoundError`, `DuplicateIdError`.
        """

    @abstractmethod
    def rename(self, key: int, name: str) -> None:
        """Give a conversation a new name. Raises `ConversationExistsError`, `ConversationNotFoundError`."""

    @abstractmethod
    def archive(self, key: int, at: int | None) -> None:
        """Archive at a time (microseconds since 1970), or with None no longer. Raises as `rename`."""

    @abstractmethod
    def delete(self, key: int, name: str) -> None:
        """Delete a conversation. Raises as `rename`, where forks of it live too."""


class ErasureStore(ABC):
    """Erasing: payloads that are overwritten, and what is left to do after it."""

    @abstractmethod
    def conversations_with(self, stream: Stream, position: int) -> dict[int, str]:
        """Return the keys and names of the conversations that have the stream's entry: it and its forks."""

    @abstractmethod
    def erase(
        self,
        stream: Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[PendingEntry]]],
    ) -> dict[int, int]:
        """Overwrite payloads, and what the store derives from them, in one transaction; keep each digest.

        `having` are the conversations with the entries; each appends its `written` at that position. Returns
        their last positions. Raises `VersionConflictError` if either changed. Renews `seal_key`.
        """

    @abstractmethod
    def unfinished(self) -> tuple[set[int], set[str], int]:
        """Return the streams and blobs whose erased words may be beside the log, and the last number."""

    @abstractmethod
    def end(self, upto: int) -> None:
        """Note that nothing is left of those up to a number: others may have come since."""

    @abstractmethod
    def left_hash(self, key: int, position: int) -> str:
        """Return the hash of what an erasure left of a stream's entry; empty for nothing."""


class BlobStore(ABC):
    """Blobs: content by its sha256."""

    can_collect: bool
    """True if the store can tell whether a blob is in use."""

    @abstractmethod
    def put(self, named: Sequence[tuple[str, bytes]]) -> None:
        """Keep blobs, given with their sha256, unless they are there; they stay while this process lives."""

    @abstractmethod
    def get(self, sha: str) -> bytes | None:
        """Return the bytes of a sha256, unchecked."""

    @abstractmethod
    def has(self, sha: str) -> bool:
        """Return whether there is a blob of that sha256."""

    @abstractmethod
    def shas(self) -> list[str]:
        """Return the sha256 of all blobs, in the order in which they came."""

    @abstractmethod
    def release(self, payload: bytes) -> None:
        """Let the blobs go that this process has put and that a durable payload names."""

    @abstractmethod
    def named_by(self, key: int) -> set[str]:
        """Return every text in the entries of a stream that looks like the sha256 of a blob."""

    @abstractmethod
    def delete(self, shas: Collection[str]) -> None:
        """Remove blobs although entries name them: words that are to be erased are in them."""

    @abstractmethod
    def collect(self, candidates: Collection[str] | None = None) -> Collected:
        """Remove the blobs that no entry names and no living process has put, all or some of them."""


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


class ClaimStore(ABC):
    """Claims on effects: a conversation has at most one for each lane and effect."""

    @abstractmethod
    def take(self, stream: Stream, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """Return the claims with their fences; None for one that another process has.

        Raises `VersionConflictError` if the stream is not at `expected`: claims and appends never cross.
        """

    @abstractmethod
    def of(self, stream: Stream) -> list[Claim]:
        """Return the claims on a conversation's effects, the oldest first."""

    @abstractmethod
    def everywhere(self) -> list[tuple[str, Claim]]:
        """Return every claim in the log, with the name of its conversation, the oldest first."""

    @abstractmethod
    def take_over(self, stream: Stream, claim: Claim, owner: str) -> Claim | None:
        """Return a claim under a new fence, with its drafts; None if it is no longer there."""

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Remove a claim with its draft."""

    @abstractmethod
    def presence(self, id: str) -> Presence:
        """Show to all processes that a runner lives; `id` names it and is drawn once. Raises `StoreError`."""

    @abstractmethod
    def owner_lives(self, owner: str) -> bool:
        """Return whether the owner of a claim is alive, on any machine; False for a text that names none."""


class DraftStore(ABC):
    """Drafts: pieces of answers that are still streaming, under the claim on the call."""

    interval: float
    """Seconds after which an engine stores the pieces that were streamed since the last time."""

    @abstractmethod
    def add(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Store streamed pieces, by fences; none for a claim that no longer exists."""

    @abstractmethod
    def of(self, fence: int) -> list[bytes]:
        """Return the drafts that were kept for a claim, in order."""

    @abstractmethod
    def since(self, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
        """Return what is under way in streams: each claim, with the rows of its draft that were not `seen`.

        `seen` has by fence the number of the last row that was. A claim without such a row comes once, with
        the number 0. Ordered by fence and number.
        """
