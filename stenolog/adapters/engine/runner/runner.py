"""The engine's loop: poll the log, claim what is due, do it, append the result.

A poll (`_poll_now`) folds new entries, recovers effects of dead processes, and claims what is due. Each
claimed effect becomes an asyncio task (`execution`). Then the loop sleeps until an effect ends, a piece of
an answer streams, another process appends, or a retry is due. It ends if nothing is under way or due.

The runner's own thread makes all calls that touch the log; the event loop waits for models and tools.

The log, with its claims and drafts, holds all state. So a runner can be killed at any line, and the next one
continues (`recovery`). An effect ends in `settle`, which appends the result and removes the claim. An entry,
such as a cancellation, can make a running effect unwanted; the next poll cancels its task.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.approvals import are_delegates, auto_approvals, only_waits
from stenolog.adapters.engine.journal import recovery
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.work import ClaimedEffect, Key, Poll, key, unwritten
from stenolog.adapters.engine.model_calls.model_call import DraftKeeper, StreamDraft, keep_drafts
from stenolog.adapters.engine.options import EntryAppended, Options, RunEvent, StreamDelta
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ClaimLostError
from stenolog.domain.events import Event, UserMessage
from stenolog.domain.lanes.decide import decide
from stenolog.domain.lanes.effects import CallModel

from .execution import EffectExecutor, LogThread, why_lost
from .upkeep_schedule import UpkeepSchedule

GRACE = 5.0
"""Seconds that effects have to end when the runner is closed."""
# A crash of another runner is taken up within a quarter of a second (see decision 8).
OTHERS = 0.25
"""Seconds between two polls while another runner has an effect: does that runner still live?"""


class Runner:
    """Runner on one conversation: `open` it, `run` or `advance` it, then `close` it."""

    journal: Journal
    """Set by `open`."""

    def __init__(
        self,
        conversation: Conversation,
        agents: Mapping[str, Agent],
        tools: Mapping[str, Mapping[str, BaseTool]],
        options: Options,
    ) -> None:
        self.conversation = conversation
        self.agents = agents
        self.tools = tools
        self.options = options
        self._thread = LogThread()
        self._stopped: set[Key] = set()  # those that the log does not want, and that are cancelled here
        self._tasks: dict[Key, tuple[ClaimedEffect, asyncio.Task[None]]] = {}
        self._failures: list[BaseException] = []
        self._asked: set[Key] = set()
        self._asks: dict[Key, asyncio.Task[None]] = {}  # backends being asked whether they remember
        self._drafts = DraftKeeper(conversation.log.recorder.drafts.interval, self._keep_drafts)
        self._queue: asyncio.Queue[StreamDelta | None] = asyncio.Queue()
        self._is_woken = False
        self._unprotected: list[tuple[Key, Claim]] = []  # stopped, as others may begin them
        self._unstarted: set[int] = set()  # fences of effects that were claimed and not started yet
        self._upkeep = UpkeepSchedule(conversation, agents)
        self._ident = 0
        self.gather = 0.0  # the seconds for which the news of others' commits are gathered
        self.is_draining = False  # once True, nothing more is begun, and `run` ends with what is under way
        self.due: float | None = None  # after `run`: seconds until more is to do; None: a person goes first

    async def open(self, begin: Callable[[Journal], object]) -> None:
        """Show that this runner is alive, read the state, and pass the journal to `begin`."""
        await self._thread.call(self._begin, begin)
        loop = asyncio.get_running_loop()
        self.journal.presence.watch(lambda: loop.call_soon_threadsafe(self._stop_unprotected))

    async def run(self, patience: float = float("inf")) -> AsyncGenerator[RunEvent, None]:
        """Work until every lane waits for a person, has stopped, or waits longer than `patience` seconds."""
        with self.conversation.log.recorder.listening(CommitListener(self.wake, self._ident, self.gather)):
            # Not empty, so that the first poll recovers: whose claims there are is not known yet.
            held: Collection[Key] = (("", ""),)
            while True:
                poll = await self._poll(0 if self.is_draining else self.options.parallel, bool(held))
                held = poll.held
                # Asked before `_streamed`, which clears it: an effect may have ended during the poll.
                again = poll.again or self._is_woken
                for delta in self._streamed():  # the pieces of an answer come before its entry
                    yield delta
                for entry in self._fresh():
                    yield EntryAppended(entry)
                if again or await self._dequeue(poll):
                    continue
                if not self._is_at_work(poll, patience) and not self._is_woken:
                    self.due = 0.0 if self.is_draining else poll.due
                    return
                if self._waits_for_delegates(poll) and await self._only_waits():
                    return
                async for delta in self._until_woken(poll):
                    yield delta

    async def advance(self) -> list[Entry]:
        """Do one effect, and return the appended entries; none if nothing is due."""
        most = 1
        with self.conversation.log.recorder.listening(CommitListener(self.wake, self._ident, self.gather)):
            while True:
                poll = await self._poll(most, recover=bool(most))
                most = 0 if self._tasks else most  # one has begun: from now on this only polls
                if self._tasks or self._asks:
                    async for _ in self._until_woken(poll):
                        pass
                elif not most or not (poll.again or await self._dequeue(poll)):
                    break
        self._raise_failures()
        return self._fresh()

    async def close(self) -> None:
        """Stop the work under way and record it, so that another runner can continue."""
        drafts = [self._drafts.task] if self._drafts.task else []
        running = {*(task for _, task in self._tasks.values()), *self._asks.values(), *drafts}
        for task in running:
            task.cancel()
        try:
            if running:
                await asyncio.wait(running, timeout=GRACE)
        finally:
            await self._thread.close(self._release)

    async def _keep_drafts(self, drafts: Sequence[StreamDraft]) -> None:
        await self._thread.call(keep_drafts, drafts, self.journal.claims.draft)

    def wake(self) -> None:
        """Poll again: something may be there to do."""
        if not self._is_woken:
            self._is_woken = True
            self._queue.put_nowait(None)

    # In the runner's thread.

    def _begin(self, begin: Callable[[Journal], object]) -> None:
        self._ident = threading.get_ident()
        presence = self.conversation.log.recorder.claims.presence(self.conversation.log.edge.id())
        try:
            self.journal = Journal(self.conversation, presence, self.agents, self.options)
            self.journal.without_summary = self._upkeep.without_summary
        except BaseException:
            presence.close()
            raise
        self._executor = EffectExecutor(
            self.journal, self.tools, self._thread, self._drafts, self._queue.put_nowait
        )
        begin(self.journal)

    def _poll_now(self, busy: frozenset[Key], most: int, recover: bool, stopped: Sequence[Claim]) -> Poll:
        journal = self.journal
        journal.catch_up()
        again: list[ClaimedEffect] = []
        if stopped:
            # Another process might have begun them, and none did.
            journal.presence.renew()
            again = self._recover_all(journal.still_ours(stopped), recovery.UNPROTECTED)
        # Looked for only while other runners have claims, as it reads the locks of all owners.
        orphans = journal.orphans() if recover else []
        found = self._recover_all(orphans, recovery.DIED)
        rerun = tuple(journal.track(each) for each in (*again, *found))
        for approval in auto_approvals(journal, self.tools):
            journal.append_decided(partial(self._decide, approval))
        busy |= {key(each.effect) for each in rerun}
        # What came since the upkeep looked may need it first: a request that was too long, its summary.
        if not self._upkeep.has_seen(journal.state.position):
            return Poll(claimed=rerun, again=True)
        poll = journal.poll(busy, self._asked, max(0, most - len(busy)))
        self._unstarted.update(each.claim.fence for each in poll.claimed)
        return poll._replace(claimed=rerun + poll.claimed)

    def _decide(self, approval: UserMessage) -> Sequence[Event]:
        return decide(self.journal.state, approval)

    def _recover_all(self, claims: Sequence[Claim], why: str) -> list[ClaimedEffect]:
        """Return the interrupted effects that run again; what another process takes over is left to it."""
        found: list[ClaimedEffect] = []
        for claim in claims:
            with suppress(ClaimLostError):
                if (each := self._recover(claim, why)) is not None:
                    found.append(each)
        return found

    def _recover(self, claim: Claim, why: str) -> ClaimedEffect | None:
        if (finished := unwritten.get(claim.key)) is not None:
            # This process did the effect, but its runner could not write the result.
            recovery.write_patiently(partial(self.journal.settle, claim, finished))
            return None
        draft = self._drafts.of(claim.fence)
        return recovery.recover(self.journal, claim, self.agents, self.tools, self.options, why, draft)

    def _release(self) -> None:
        """Close the work under way, and release everything."""
        if not hasattr(self, "journal"):  # it was never opened
            return
        journal = self.journal
        # The file stays where claims are left behind: it shows others that their owner is dead.
        left = True
        try:
            for claim in journal.claims.all():
                if claim.owner == journal.presence.owner:
                    self._put_down_one(claim)
            left = False
        finally:
            journal.presence.close(keep=left)

    def _put_down_one(self, claim: Claim) -> None:
        with suppress(ClaimLostError):
            if claim.fence in self._unstarted or self._recover(claim, recovery.STOPPED) is not None:
                self.journal.claims.release(claim)

    # In the event loop.

    async def _poll(self, most: int, recover: bool) -> Poll:
        self._raise_failures()
        await self._upkeep.run()
        stopped = [claim for name, claim in self._unprotected if name not in self._tasks]
        self._unprotected = [each for each in self._unprotected if each[0] in self._tasks]
        busy = frozenset((*self._tasks, *self._asks))
        poll = await self._thread.call(self._poll_now, busy, most, recover, stopped)
        for name, (claimed, task) in self._tasks.items():
            if name not in self._stopped and claimed.claim.fence in self.journal.unwanted:
                self._stopped.add(name)
                task.cancel()
        for each in poll.claimed:
            self._start(each)
        for effect in poll.unasked:
            self._asks[key(effect)] = asyncio.create_task(self._ask_backend(effect))
        return poll

    async def _dequeue(self, poll: Poll) -> bool:
        if self.is_draining or self._is_at_work(poll) or not self.journal.queue:
            return False
        return await self._thread.call(self.journal.append_queued)

    def _is_at_work(self, poll: Poll, patience: float = float("inf")) -> bool:
        waits = not self.is_draining and (poll.held or (poll.due is not None and poll.due <= patience))
        return bool(self._tasks or self._asks or waits)

    def _waits_for_delegates(self, poll: Poll) -> bool:
        others = self.options.lane or self._asks or poll.held or poll.due is not None
        return not others and are_delegates([each.effect for each, _ in self._tasks.values()], self.tools)

    async def _only_waits(self) -> bool:
        return await self._thread.call(only_waits, self.conversation, self.agents)

    def _start(self, claimed: ClaimedEffect) -> None:
        name = key(claimed.effect)
        self._unstarted.discard(claimed.claim.fence)
        self._asked.discard(name)
        if name in self._tasks:  # the claim was taken from this runner, which has it again
            self._tasks[name][1].cancel()
        task = asyncio.create_task(self._executor.do(claimed))
        self._tasks[name] = claimed, task
        task.add_done_callback(lambda task: self._done(name, task))

    def _stop_unprotected(self) -> None:
        """Stop all effects: another process may begin them before this one shows that it lives."""
        for name, (claimed, task) in self._tasks.items():
            if name not in self._stopped:
                self._unprotected.append((name, claimed.claim))
                task.cancel()

    def _done(self, name: Key, task: asyncio.Task[None]) -> None:
        if self._tasks[name][1] is task:
            del self._tasks[name]
            self._stopped.discard(name)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)
        self.wake()

    async def _ask_backend(self, effect: CallModel) -> None:
        """Ask a backend whether it still has its session; record it if not."""
        lane, model = effect.lane, self.journal.model_of(effect.lane.agent)
        assert model is not None, "there is nobody to ask"
        try:
            if why := await why_lost(model, lane, self.conversation.name):
                await self._thread.call(self.journal.lost, effect, why)
        finally:
            self._asked.add(key(effect))
            del self._asks[key(effect)]
            self.wake()

    def _raise_failures(self) -> None:  # the first error that no event could record: it ends the run
        if self._failures:
            raise self._failures[0]

    def _fresh(self) -> list[Entry]:  # those that were not reported yet
        fresh, self.journal.fresh = self.journal.fresh, []
        return fresh

    def _streamed(self) -> list[StreamDelta]:
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        self._is_woken = False
        return [delta for delta in waiting if delta is not None]

    async def _until_woken(self, poll: Poll) -> AsyncGenerator[StreamDelta, None]:
        timer = asyncio.create_task(self._wake_later(poll))
        try:
            while (item := await self._queue.get()) is not None:
                yield item
            self._is_woken = False
        finally:
            timer.cancel()

    async def _wake_later(self, poll: Poll) -> None:
        """Poll again when the next effect is due, or regularly while others are at work."""
        waits = [OTHERS] if poll.held or self._waits_for_delegates(poll) else []
        waits += [] if poll.due is None else [poll.due]
        if waits:
            await self.options.world.sleep(min(waits))
            self.wake()


class CommitListener:
    """Listener that calls `wake` in the event loop after commits of others.

    It gathers news for `gather` seconds first; 0: each wakes at once.
    """

    def __init__(self, wake: Callable[[], None], own_thread: int, gather: float) -> None:
        self._wake = wake
        self._own_thread = own_thread
        self._gather = gather
        self._loop = asyncio.get_running_loop()
        self._is_due = False

    def __call__(self) -> None:
        # What this runner's own thread writes is no news, and must not wake it without end.
        if threading.get_ident() == self._own_thread or self._is_due:
            return
        self._is_due = self._gather > 0
        self._loop.call_soon_threadsafe(self._later if self._is_due else self._wake)

    def _later(self) -> None:
        self._loop.call_later(self._gather, self._ring)

    def _ring(self) -> None:
        # Before the look: what is committed during it is met by the next one.
        self._is_due = False
        self._wake()
