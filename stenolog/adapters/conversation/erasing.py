"""Erasing of entries' payloads, with headers and digests kept, and deletion of conversations."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.conversation.search.indexing import Source, forgetting
from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.blobs import shas_in, unpacked
from stenolog.adapters.store.contract.values import PendingEntry, Stream
from stenolog.adapters.store.reading.handle import LogHandle, StreamHandle, existing_key
from stenolog.adapters.store.sidecar import erasures
from stenolog.domain import erasure
from stenolog.domain.entry import NewEntry, microseconds
from stenolog.domain.errors import (
    ConversationExistsError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, Unknown, UserMessage
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.values import Control, Receipt
from stenolog.projections.analysis.quotes import forms_of, texts_of

WITHOUT_WORDS = "The summary of what came before was erased."
"""The summary that replaces one that was erased."""
Places: TypeAlias = Mapping[str, Collection[tuple[int, int]]]
"""Blobs by their sha256, and the entries that name them, by stream and position."""


class Erased(NamedTuple):
    """The erased positions, by whom and why.

    `recorded_at` has the positions of the entries that record it, by conversation: forks with the entries get
    one too. `is_complete` is False while other processes keep words in the write-ahead log or blobs; opening
    the log later, or `Log.collect`, continues. `kept_blobs` have the words and stay, because other
    conversations, their values, name them.
    """

    positions: tuple[int, ...]
    by: str
    reason: str
    recorded_at: dict[str, int]
    is_complete: bool
    kept_blobs: dict[str, list[str]]


def erase(
    conversation: StreamHandle,
    positions: Sequence[int],
    *,
    reason: str,
    by: str | None,
    together: str = "",
) -> Erased:
    """See `Conversation.erase`; `together` as in `erasure_message`."""
    log, who = conversation.log, user() if by is None else by
    erasable = [at for at in dict.fromkeys(positions) if is_erasable(conversation, at)]
    if not erasable:
        return Erased((), who, reason, {}, erasures.finish(log), {})
    key = existing_key(log, conversation.stream)
    own = log.recorder.lineage(conversation.stream, max(erasable))[-1].after
    if min(erasable) <= own:
        raise InvalidEventError(
            f"{conversation.name!r} at position {min(erasable)}: inherited; erase it where it was written"
        )
    blobs = _blobs_with(conversation, sorted(erasable))
    message = partial(erasure.erasure_message, by=who, reason=reason, together=together)
    while True:
        try:
            recorded_at = _write(conversation, key, sorted(erasable), message, blobs)
            break
        except VersionConflictError:
            continue
    is_complete = erasures.finish(log)
    kept = _named_elsewhere(log, [sha for sha in blobs if sha in log.blobs], recorded_at)
    return Erased(tuple(sorted(erasable)), who, reason, recorded_at, is_complete, kept)


def _named_elsewhere(log: LogHandle, shas: Sequence[str], without: Collection[str]) -> dict[str, list[str]]:
    """Return the conversations that name each blob, except some."""
    kept: dict[str, list[str]] = {sha: [] for sha in shas}
    for name in log.names(archived=True) if shas else ():
        key = None if name in without else log.recorder.conversations.find(name)
        for sha in log.recorder.blobs.named_by(key) & kept.keys() if key else ():
            kept[sha].append(name)
    return kept


def is_erasable(conversation: StreamHandle, position: int) -> bool:
    """Return whether an entry has words to erase. Raises `InvalidEventError` for one that must stay."""
    conversation.checked(position, least=1)
    (entry,) = conversation.entries(position - 1, position)
    if erasure.is_erased(entry.event) or erasure.is_effects(entry.event):
        return False
    what = "record of an erasure" if erasure.erasure_of(entry.event) else entry.event.kind
    if isinstance(entry.event, Unknown) or what != entry.event.kind:
        raise InvalidEventError(f"{conversation.name!r} at position {position}: a {what} cannot be erased")
    if erasure.is_checkpointed(entry.event):
        raise InvalidEventError(
            f"{conversation.name!r} at position {position}: LangGraph's checkpoints hold these words, "
            "and would bring them back: delete the whole conversation, its forks first"
        )
    return True


def user() -> str:
    """Return the name of the system's user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process without a user, as in some containers
        return "unknown"


def _write(
    conversation: StreamHandle,
    key: int,
    positions: Sequence[int],
    message: Callable[[Sequence[int]], Event],
    blobs: Places,
) -> dict[str, int]:
    """Erase, append records and repairs in one transaction; return the records' positions."""
    log = conversation.log
    found = log.recorder.erasure.conversations_with(conversation.stream, positions[0])
    now = log.edge.clock()
    written: dict[int, tuple[int, list[PendingEntry]]] = {}
    for holder, name in found.items():
        handle = StreamHandle(log, log.streams.share(Stream(name, holder)))
        inherited = log.recorder.lineage(handle.stream)[-1].after
        erased = [at for at in positions if holder == key or at <= inherited]
        position, repairs = _repairs(handle, erased)
        events = [*repairs, message(erased)]
        written[holder] = position, [appends.prepare(log.edge, NewEntry(each, time=now)) for each in events]
    recorded_at = log.recorder.erasure.erase(
        conversation.stream, positions, found, written, blobs, microseconds(now)
    )
    log.seals.renew(log.recorder.seal_key)
    conversation.stream.forget()
    for holder in found:
        log.streams.forget_head(holder)
        if log.windows is not None:
            log.windows.drop(holder)
    return {found[holder]: position for holder, position in recorded_at.items()}


def _repairs(conversation: StreamHandle, positions: Sequence[int]) -> tuple[int, list[Event]]:
    """Return the last position, and events that keep agents from acting on the gap.

    A cancellation for each lane whose question would otherwise be asked again. An empty summary for each
    erased one, whose text would otherwise be sent again. Raises `ConversationExistsError` while a call of one
    of the entries has no result.
    """
    before: State = INITIAL
    after: State = INITIAL
    gone = Unknown(topic=erasure.ERASED, payload=b"", ignorable=True)
    for each in conversation.entries():
        before = evolve(before, each)
        left = erasure.effects_of(each.event) if isinstance(each.event, ModeSwitch) else gone
        after = evolve(after, each._replace(event=left) if each.position in positions else each)
    for _, call in before.open_calls():
        if call.position in positions:
            raise ConversationExistsError(
                f"{conversation.name!r} at position {call.position}: a call of it has no result yet"
            )
    awake = [
        lane for where, lane in after.lanes.items() if lane.status in BUSY and lane != before.lane(where)
    ]
    stops = [Control(action="cancel", agent=lane.agent, task=lane.task) for lane in awake]
    lost = [summary for summary in before.summaries if summary.position in positions]
    return before.position, [
        *(UserMessage(author_kind="system", control=stop) for stop in stops),
        *(
            AssistantMessage(
                agent=each.author.partition("/")[0],
                task=each.author.partition("/")[2],
                to=each.to,
                purpose="summary",
                covers=each.spans,
                text=WITHOUT_WORDS,
            )
            for each in lost
        ),
    ]


def delete(conversation: StreamHandle) -> None:
    """See `Conversation.delete`."""
    log, stream = conversation.log, conversation.stream
    key = existing_key(log, stream)
    source = Source(log.recorder, log.blobs)
    named = log.recorder.blobs.named_by(key)
    with forgetting(log.index, source, key):
        log.recorder.conversations.delete(key, stream.name, microseconds(log.edge.clock()))
    stream.forget()
    erasures.purge(log, key, named)


def _blobs_with(conversation: StreamHandle, positions: Sequence[int]) -> Places:
    """Return blobs in receipts and of originals, forks' too, with words of these entries, and who names them.

    Such a blob has a program's own text, a whole request's bytes, or those of an imported file or line.
    Without it the request cannot be proved, and the original is not whole.
    """
    log = conversation.log
    entries = (each for at in positions for each in conversation.entries(at - 1, at))
    words = {form for entry in entries for text in texts_of(entry.event) for form in forms_of(text)}
    holders = log.recorder.erasure.conversations_with(conversation.stream, positions[0])
    named: dict[str, set[tuple[int, int]]] = {}
    for holder, name in holders.items():
        handle = StreamHandle(log, log.streams.share(Stream(name, holder)))
        for position, kept in _naming(handle, positions):
            for sha in shas_in(json.dumps(kept).encode()):
                named.setdefault(sha, set()).add((holder, position))
    return {sha: at for sha, at in named.items() if any(word in unpacked(log.blobs, sha) for word in words)}


def _naming(conversation: StreamHandle, positions: Sequence[int]) -> Iterator[tuple[int, object]]:
    """Yield what other entries say of blobs that may repeat these positions' words, with their positions.

    A line that another entry came from stays: that entry says the same.
    """
    # Of what a fork inherits, whoever wrote it is another holder.
    own = conversation.log.recorder.lineage(conversation.stream)[-1].after
    lines: list[tuple[int, Any]] = []
    stay: set[str] = set()
    for entry in conversation.entries():
        if entry.position in positions:
            continue
        if not isinstance(entry.event, ModeSwitch):  # settings have no words of a line, but for a title
            stay.update(getattr(getattr(entry.event, "source", None), "lines", ()))
        if entry.position <= own:
            continue
        match entry.event:
            case AssistantMessage(receipt=Receipt() as receipt) | LlmError(receipt=Receipt() as receipt):
                yield entry.position, [receipt.plan.get("patch"), receipt.transport.get("blob")]
            case ModeSwitch(meta={erasure.ORIGINAL: {"lines": [*named]}}):
                lines += [(entry.position, line) for line in named]
            case ModeSwitch(meta={erasure.ORIGINAL: named}):
                yield entry.position, named
            case _:
                pass
    yield from ((position, line) for position, line in lines if line.get("line") not in stay)
