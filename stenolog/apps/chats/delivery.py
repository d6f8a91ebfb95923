"""Delivery of a conversation's outgoing pieces, in order, at least once each."""

from __future__ import annotations

import asyncio
import logging
from functools import partial, reduce
from itertools import islice

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.store.contract.values import Cursor
from stenolog.domain.entry import Entry
from stenolog.domain.errors import OperationalError
from stenolog.domain.settings import NOTHING, configure

from .base import Backoff, OutgoingMessage, Question, Render, Send, at_each_commit, backoff, retry_forever
from .rendering import render_entry, speaker_of

LOGGER = logging.getLogger("stenolog.chats")
BATCH = 256
"""Entries read at a time; after so many of which nothing went out, that is noted too."""
GRACE = 5.0
"""Seconds that a piece has to arrive once it is stopped."""


class Delivery:
    """Delivery of one conversation to one place, under its own name: `mail:ann`.

    Each piece goes by `send` (see `Send` for its errors) and is then noted in the log's file. So a restart
    loses nothing, and a crash repeats one piece at most. A new name begins with the first entry or, given
    `first`, with the first whose id begins with that. One delivery of a name works at a time.
    """

    def __init__(
        self,
        conversation: Conversation,
        name: str,
        send: Send,
        *,
        render: Render | None = None,
        first: str = "",
        backoff: Backoff = backoff,
    ) -> None:
        self.conversation = conversation
        self.name = name
        self.send = send
        self.render = render or render_entry()
        self.first = first
        self.backoff = backoff
        self.closed = ""
        """The reason that the delivery is closed; empty while it is open."""
        self._at: Cursor | None = None
        self._noted = 0
        self._settings = NOTHING
        self._lock = asyncio.Lock()
        self._woken = asyncio.Event()

    async def follow(self) -> None:
        """Deliver all entries, then new ones of any process, until cancelled.

        Errors are logged and retried.
        """
        recorder = self.conversation.log.recorder
        await at_each_commit(recorder, self.deliver, self.backoff, self._failed, self._woken)

    async def deliver(self) -> int:
        """Deliver all entries; return the number of pieces.

        Raises errors of reading the log, and those of `send` other than `OSError`.
        """
        sent = 0
        async with self._lock:
            while not self.closed and (batch := await asyncio.to_thread(self._batch)):
                sent += await self._all(batch)
        return sent

    def reopen(self) -> None:
        """Reopen a closed delivery at the first undelivered message."""
        if self.closed:
            self.closed, self._at = "", None
            self._woken.set()

    async def _all(self, batch: list[Entry]) -> int:
        hides = reduce(configure, batch, self._settings).hides
        sent = 0
        for entry in batch:
            self._settings = configure(self._settings, entry)
            for piece in self._due(entry, hidden=any(entry.position in span for span in hides)):
                if not await self._sent(piece):
                    return sent
                sent += 1
            self._at = Cursor(entry.position)
            if entry.position - self._noted >= BATCH:  # so that a restart reads no more than that again
                await self._note(self._at)
        return sent

    def _due(self, entry: Entry, *, hidden: bool) -> tuple[OutgoingMessage, ...]:
        """Return an entry's undelivered messages. A delivery that began is completed."""
        assert self._at is not None, "the batch was read from there"
        if hidden and not self._at.piece:
            return ()
        texts, speaker = tuple(self.render(entry, self._settings)), speaker_of(entry)
        pieces = (
            _outgoing(text, speaker, entry.position, nth, len(texts)) for nth, text in enumerate(texts, 1)
        )
        return tuple(pieces)[self._at.piece :]

    async def _sent(self, piece: OutgoingMessage) -> bool:
        """Send a piece, however often that takes; whether it is wanted."""
        try:
            await retry_forever(partial(self._send_whole, piece), self.backoff, self._unsent)
        except PermissionError as error:
            self.closed = str(error) or "not permitted"
            LOGGER.warning("%s: nothing goes to %s any more: %s", self.conversation.name, self.name, error)
            return False
        return True

    async def _send_whole(self, piece: OutgoingMessage) -> None:
        """Send a piece and note it; a cancellation does not separate the two."""
        sending = asyncio.create_task(self._send_and_note(piece))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending], timeout=GRACE)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            raise

    async def _send_and_note(self, piece: OutgoingMessage) -> None:
        await self.send(piece)
        is_last = piece.nth == piece.number
        self._at = Cursor(piece.position) if is_last else Cursor(piece.position - 1, piece.nth)
        await self._note(self._at)

    async def _note(self, mark: Cursor) -> None:
        noting = partial(asyncio.to_thread, self._note_now, mark)
        await retry_forever(noting, self.backoff, self._failed, after=OperationalError)

    def _unsent(self, error: Exception) -> None:
        LOGGER.info("%s: %s: %s; it is tried again", self.conversation.name, self.name, error)

    def _failed(self, error: Exception) -> None:
        """Log a failure: unexpected errors with a traceback, a busy store without."""
        trace = None if isinstance(error, OperationalError) else error
        LOGGER.warning(
            "%s: %s: %s; it is tried again", self.conversation.name, self.name, error, exc_info=trace
        )

    # What touches the log, in a thread.

    def delivered_codes(self, after: int) -> list[str]:
        """Return codes of calls that entries after `after` ask about.

        Only questions delivered in full, and not hidden, count.
        """
        at = self._at or self._begin()
        settings = self.conversation.settings(after) if after else NOTHING
        codes, hides = list[str](), self.conversation.settings().hides
        for entry in self.conversation.entries(after, at.position):
            settings = configure(settings, entry)
            if not any(entry.position in span for span in hides):
                codes += [piece.code for piece in self.render(entry, settings) if isinstance(piece, Question)]
        return codes

    def _batch(self) -> list[Entry]:
        if self._at is None:
            self._at = self._begin()
            self._noted = self._at.position
            self._settings = self.conversation.settings(self._at.position) if self._at.position else NOTHING
        return list(islice(self.conversation.entries(after=self._at.position), BATCH))

    def _begin(self) -> Cursor:
        key = self.conversation.key
        if key is None:
            return Cursor()
        found = self.conversation.log.recorder.load_cursor(self.name, key)
        return found if found != Cursor() or not self.first else Cursor(self._before_first())

    def _before_first(self) -> int:
        position = 0
        for entry in self.conversation.entries():
            position = entry.position
            if entry.id.startswith(self.first):
                return position - 1
        return position

    def _note_now(self, mark: Cursor) -> None:
        key = self.conversation.key
        assert key is not None, "what was sent came from there"
        self.conversation.log.recorder.save_cursor(self.name, mark, key)
        self._noted = mark.position


def _outgoing(piece: str | Question, speaker: str, position: int, nth: int, number: int) -> OutgoingMessage:
    text, question = (piece, None) if isinstance(piece, str) else (piece.text, piece)
    return OutgoingMessage(text, speaker, position, nth, number, question)
