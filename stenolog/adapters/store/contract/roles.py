"""Roles of a store, attributes of its `LogRecorder`, whose rules apply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from stenolog.domain.history import Change, Hold

from .values import Claim, Collected, DraftRow, Head, Order, PendingEntry, Stream, Which

NO_BLOBS: Mapping[str, Collection[tuple[int, int]]] = MappingProxyType({})


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
        """Return a conversation's present name; None if deleted."""

    @abstractmethod
    def names(self, which: Which, *, limit: int | None = None, order: Order = "oldest") -> list[str]:
        """Return the names of some conversations, in an order."""

    @abstractmethod
    def count(self, which: Which) -> int:
        """Return the number of conversations selected."""

    @abstractmethod
    def fork(self, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]) -> Stream:
        """Return a new conversation that shares the entries up to `at`, followed by `items`.

        The default name is the first free `<name>~1`, `~2` … Raises `ConversationExistsError`,
        `ConversationNotFoundError`, `DuplicateIdError`.
        """

    @abstractmethod
    def rename(self, key: int, name: str) -> None:
        """Give a conversation a new name. Raises `ConversationExistsError`, `ConversationNotFoundError`."""

    @abstractmethod
    def archive(self, key: int, at: int | None) -> None:
        """Archive at a time (microseconds since 1970), or undo with None. Raises as `rename`."""

    @abstractmethod
    def delete(self, key: int, name: str, now: int = 0) -> None:
        """Delete a conversation. Raises as `rename`, where forks of it live too, and `HeldError`.

        `now` as in `ErasureStore.erase`.
        """


class ErasureStore(ABC):
    """Erasure: payloads overwritten, what is left to do after it, and holds, which forbid it."""

    @abstractmethod
    def conversations_with(self, stream: Stream, position: int) -> dict[int, str]:
        """Return keys and names of the conversations with the stream's entry: it and its forks."""

    @abstractmethod
    def erase(
        self,
        stream: Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[PendingEntry]]],
        blobs: Mapping[str, Collection[tuple[int, int]]] = NO_BLOBS,
        now: int = 0,
    ) -> dict[int, int]:
        """Overwrite payloads and data derived from them, in one transaction; keep digests.

        `having` are the conversations with the entries; each appends its `written` at that position. `blobs`
        hold words too and are deleted, unless a conversation that is not in `having` names them; their values
        are the entries, stream and position, that do in those.
        `now`, in microseconds since 1970, is when entries are old enough for a hold by age; without it none
        is. Returns their last positions. Raises `VersionConflictError` if any changed, `HeldError`. Renews
        `seal_key`.
        """

    @abstractmethod
    def note_hold(self, change: Change) -> int:
        """Append a hold or a release, of which number and digest are not used; return its number.

        Raises `InvalidEventError` for a release of no hold, `ConversationNotFoundError`.
        """

    @abstractmethod
    def covered(self, stream: Stream, positions: Collection[int], now: int) -> dict[int, Hold]:
        """Return those of a stream's own entries that a hold covers; `now` as in `erase`."""

    @abstractmethod
    def holds(self) -> list[Change]:
        """Return the records of all holds and releases, in order."""

    @abstractmethod
    def unfinished(self) -> tuple[set[int], set[str], int]:
        """Return streams and blobs whose erased words may still be beside the log, and the last number."""

    @abstractmethod
    def end(self, upto: int) -> None:
        """Note that nothing is left of erasures up to a number."""

    @abstractmethod
    def left_hash(self, key: int, position: int) -> str:
        """Return the hash of what an erasure left of an entry; empty for nothing."""

    @abstractmethod
    def withheld(self, key: int) -> frozenset[int]:
        """Return the positions of a stream that were imported without their words."""


class BlobStore(ABC):
    """Blobs: content by its sha256."""

    can_collect: bool
    """True if the store knows whether a blob is in use."""
    pinned: Mapping[str, int]
    """By sha256, how often this process has put a blob that no durable payload has named since."""

    @abstractmethod
    def put(self, named: Sequence[tuple[str, bytes]]) -> None:
        """Store blobs, given with their sha256; they stay while this process lives."""

    @abstractmethod
    def get(self, sha: str) -> bytes | None:
        """Return the bytes of a sha256, unchecked."""

    @abstractmethod
    def has(self, sha: str) -> bool:
        """Return whether there is a blob of that sha256."""

    @abstractmethod
    def shas(self) -> list[str]:
        """Return the sha256 of all blobs in order of arrival."""

    @abstractmethod
    def release(self, payload: bytes) -> None:
        """Release blobs of this process that a durable payload names."""

    @abstractmethod
    def named_by(self, key: int) -> set[str]:
        """Return all texts in a stream's entries that look like a blob's sha256."""

    @abstractmethod
    def collect(self, candidates: Collection[str] | None = None) -> Collected:
        """Delete blobs, all or some, that no entry names and no living process has put."""


class Presence(Protocol):
    """A living runner, visible to other processes until its process ends or `close`.

    `owner` is its claims' text, which `claim_owner.Owner` parses.
    """

    owner: str

    def lives(self, owner: str) -> bool:
        """Return whether the owner of a claim is alive."""

    def forget(self, owner: str) -> None:
        """Delete data on a dead owner without claims."""

    def watch(self, call: Callable[[], object]) -> None:
        """Call `call`, in any thread, shortly before others may take this process for dead.

        If that was missed, as soon as possible afterwards. Its effects are then no longer protected: another
        process may start them.
        """

    def renew(self) -> None:
        """Show anew that the runner lives, before it starts an effect again. Raises `StoreError`."""

    def close(self, *, keep: bool = False) -> None:
        """End the presence. With `keep`, claims remain whose owner is now dead."""


class ClaimStore(ABC):
    """Claims on effects, at most one per conversation, lane and effect."""

    @abstractmethod
    def take(self, stream: Stream, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """Return the claims with fences; None for one that another process has.

        Raises `VersionConflictError` if the stream is not at `expected`: claims and appends never cross.
        """

    @abstractmethod
    def of(self, stream: Stream) -> list[Claim]:
        """Return the claims on a conversation's effects, the oldest first."""

    @abstractmethod
    def everywhere(self) -> list[tuple[str, Claim]]:
        """Return all claims with their conversations' names, oldest first."""

    @abstractmethod
    def take_over(self, stream: Stream, claim: Claim, owner: str) -> Claim | None:
        """Return a claim under a new fence, with its drafts; None if it is gone."""

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Remove a claim with its draft."""

    @abstractmethod
    def presence(self, id: str) -> Presence:
        """Show all processes that a runner lives; `id` is unique. Raises `StoreError`."""

    @abstractmethod
    def owner_lives(self, owner: str) -> bool:
        """Return whether a claim's owner lives, on any machine; False for invalid text."""


class DraftStore(ABC):
    """Drafts: pieces of streaming answers, under the call's claim."""

    interval: float
    """Seconds after which an engine stores the pieces that were streamed since the last time."""

    @abstractmethod
    def add(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Store streamed pieces by fence, unless the claim is gone."""

    @abstractmethod
    def of(self, fence: int) -> list[bytes]:
        """Return the drafts that were kept for a claim, in order."""

    @abstractmethod
    def since(self, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
        """Return claims of streams with draft rows not `seen`, ordered by fence and number.

        `seen` has the last seen row's number by fence. A claim without new rows comes once, with number 0.
        """
