"""Storing of what streams, soon after it arrived, for all model calls of a runner at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.errors import OperationalError

from .journal import Journal
from .model_call import StreamDraft, keep_drafts

P = ParamSpec("P")
T = TypeVar("T")


class DraftHost(Protocol):
    """The runner, as far as its drafts need it."""

    conversation: Conversation

    @property
    def journal(self) -> Journal:
        """The journal, whose claims the drafts are stored under."""

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call that touches the log."""


class DraftKeeper:
    """The drafts of a runner's model calls, stored as often as the log's store wants them."""

    def __init__(self, host: DraftHost) -> None:
        self._host = host
        self._interval = host.conversation.log.recorder.draft_interval
        self._drafts: dict[int, StreamDraft] = {}
        self.task: asyncio.Task[None] | None = None
        """The task that stores them, while there is something to store."""

    def keep(self, draft: StreamDraft) -> None:
        """Schedule a draft to be stored."""
        self._drafts[draft.fence] = draft
        if self.task is None:
            self.task = asyncio.create_task(self._keep_soon())

    def forget(self, draft: StreamDraft) -> None:
        """Drop a draft whose answer is about to be appended."""
        self._drafts.pop(draft.fence, None)

    def of(self, fence: int) -> StreamDraft | None:
        """Return the draft under a claim."""
        return self._drafts.get(fence)

    async def _keep_soon(self) -> None:
        """Store the streamed pieces a little later, with those that arrive until then; repeat as needed."""
        while not all(draft.is_kept for draft in self._drafts.values()):
            await asyncio.sleep(self._interval)
            # A draft is no truth; whether the log can be written shows when the entry is appended.
            with suppress(OperationalError):
                await self._host.write(
                    keep_drafts, list(self._drafts.values()), self._host.journal.claims.draft
                )
        self.task = None
