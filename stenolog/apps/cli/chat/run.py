"""A person's session with a team in an event loop of its own, shared by `chat` and `run`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import click

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.inputs import Message, words_of
from stenolog.adapters.engine.options import RunEvent, StreamDelta
from stenolog.adapters.engine.team.team import Team
from stenolog.adapters.engine.upkeep.auto_context import AutoSummary
from stenolog.apps.cli.app import Terminated
from stenolog.apps.cli.arguments.approver import approver_of
from stenolog.apps.cli.lines import CommandResult
from stenolog.apps.cli.terminal import print_envelope
from stenolog.domain.events import UNCHANGED, ModeSwitch
from stenolog.projections.prices import Prices

from .approvals import Approvals
from .status import Hints, describe_status, failed
from .terminal import Lines, TerminalWriter, lines
from .view import RunPrinter

T = TypeVar("T")
TERMINATING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
TICK = 1.0
"""Seconds between two looks at the watch."""


def summary_of(over: int | None) -> AutoSummary | None:
    """Return what summarises requests of over `over` tokens."""
    return None if over is None else AutoSummary(over=over)


class Watching(Protocol):
    """A listener that is notified of a run's events."""

    def begin(self, mine: str = "") -> None: ...
    def take(self, happened: RunEvent) -> None: ...
    def tick(self) -> None: ...
    def end(self, prices: Prices) -> None: ...


class BackgroundRun:
    """Runs a team on a conversation.

    Ctrl-C stops the run, and the next continues it. `cancels`: the first cancels the agents' work, and is
    logged.
    """

    def __init__(self, team: Team, conversation: Conversation, watching: Watching, *, cancels: bool) -> None:
        self.team = team
        self.conversation = conversation
        self.watching = watching
        self.cancels = cancels
        self.stopped = False
        """True once Ctrl-C has stopped the run."""
        self._runner = asyncio.Runner()
        self._run: asyncio.Task[Any] | None = None
        self._is_terminated = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> BackgroundRun:
        for number in TERMINATING:
            with suppress(ValueError):  # signals are handled in the main thread alone
                if (handler := signal.getsignal(number)) is not signal.SIG_IGN:  # as under nohup
                    signal.signal(number, self._terminate)
                    self._handlers[number] = handler
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.do(self.team.close())
        finally:
            self._runner.close()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _terminate(self, *_: object) -> None:
        """Shut down in good order, once."""
        if self._is_terminated:
            return
        self._is_terminated = True
        if self._run is None:
            raise Terminated
        self._run.get_loop().call_soon_threadsafe(self._run.cancel)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run one coroutine in the event loop. Raises KeyboardInterrupt after Ctrl-C."""
        try:
            return self._runner.run(coroutine)
        except asyncio.CancelledError:
            self.stopped = True
            raise (Terminated if self._is_terminated else KeyboardInterrupt) from None

    def go(self, message: Message | None = None, to: Iterable[str] = ()) -> None:
        """Send a message, if any, and run until only a person can go on."""
        self.watching.begin(words_of(message or ""))
        self.do(self._go(message, to))

    async def _go(self, message: Message | None, to: Iterable[str]) -> None:
        self._run = asyncio.current_task()
        try:
            async with (
                _pressed(self._press),
                _ticking(self.watching.tick),
                aclosing(self.team.run(self.conversation, message, to=to)) as happenings,
            ):
                async for happened in happenings:
                    self.watching.take(happened)
        finally:
            self._run = None
            self.watching.end(self.team.options.prices)

    def _press(self, times: int, run: asyncio.Task[Any]) -> asyncio.Task[None] | None:
        if times == 1 and self.cancels:
            return asyncio.create_task(self._cancel())
        run.cancel()
        return None

    async def _cancel(self) -> None:
        await self.team.cancel(self.conversation)


@asynccontextmanager
async def _pressed(
    press: Callable[[int, asyncio.Task[Any]], asyncio.Task[None] | None],
) -> AsyncIterator[None]:
    """Call `press` at each Ctrl-C, with its count."""
    loop, run = asyncio.get_running_loop(), asyncio.current_task()
    assert run is not None, "this is a task"
    presses: list[asyncio.Task[None] | None] = []
    try:
        loop.add_signal_handler(signal.SIGINT, lambda: presses.append(press(len(presses) + 1, run)))
    except (NotImplementedError, ValueError):  # no signals on this platform, or not in this thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*filter(None, presses))


@asynccontextmanager
async def _ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    async def ticks() -> None:
        while True:
            await asyncio.sleep(TICK)
            tick()

    task = asyncio.create_task(ticks())
    try:
        yield
    finally:
        task.cancel()


class JsonPrinter:
    """A run for a program: an envelope a line for each entry."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._position = conversation.position

    def begin(self, mine: str = "") -> None:
        """Begin a run."""
        self.catch_up()

    def take(self, happened: RunEvent) -> None:
        """Print an entry; streamed pieces are in their entry."""
        if not isinstance(happened, StreamDelta) and happened.entry.position > self._position:
            self._position = happened.entry.position
            print_envelope("ok", happened.entry)

    def tick(self) -> None:
        """Show that time has passed."""

    def end(self, prices: Prices) -> None:
        """End the run."""

    def catch_up(self, instead: str = "") -> None:
        """Print the entries not printed yet."""
        for entry in self.conversation.entries(after=self._position):
            print_envelope("ok", entry)
            self._position = entry.position


@dataclass(frozen=True)
class RunSession:
    """A team on a conversation, and a person's reading, writing and deciding."""

    hints: Hints
    work: BackgroundRun
    watching: RunPrinter | JsonPrinter
    paper: TerminalWriter
    lines: Lines
    approvals: Approvals

    @property
    def team(self) -> Team:
        return self.work.team

    @property
    def conversation(self) -> Conversation:
        return self.work.conversation

    def go(self, text: Message | None = None, to: Iterable[str] = ()) -> None:
        """Run as `BackgroundRun.go`."""
        self.work.go(text, to)
        while self.approvals.judge():
            self.work.go()

    def entitle(self, title: str) -> None:
        """Give the conversation a title, if it has another."""
        if title and self.conversation.settings().title != title:
            mode = UNCHANGED if self.conversation.position else self.team.mode
            self.conversation.submit(ModeSwitch(title=title, mode=mode))

    def status(self) -> list[str]:
        """Return lines about waiting calls, failures and interruptions."""
        return list(describe_status(self.conversation, self.team.agents, self.hints))

    def outcome(self) -> CommandResult:
        """Return the conversation's state; failed if an agent of the team failed."""
        state = self.conversation.state()
        lanes: dict[str, Any] = {where: lane.status for where, lane in state.lanes.items()}
        data = {"conversation": self.conversation.name, "position": state.position, "lanes": lanes}
        return CommandResult(data, failed=bool(failed(state, self.team.agents)))


@contextmanager
def open_session(
    conversation: Conversation, team: Team, hints: Hints, *, yes: bool, cancels: bool, leave: bool
) -> Iterator[RunSession]:
    """Open a session with the command's options; close the team at the end.

    See `BackgroundRun` and `Approvals`.
    """
    options = click.get_current_context().params
    by = approver_of(options["identity"], options["sign"])
    paper = TerminalWriter(options["color"], plain=options["as_json"])
    watching = (
        JsonPrinter(conversation)
        if options["as_json"]
        else RunPrinter(paper, conversation, team.agents, hints)
    )
    source = lines(asks=not options["as_json"])
    with BackgroundRun(team, conversation, watching, cancels=cancels and source.asks) as work:
        work.do(team.tools())  # what they come from is there, or that is said before anything else
        approvals = Approvals(work, paper, source, hints.left, yes=yes, leave=leave, by=by)
        yield RunSession(hints, work, watching, paper, source, approvals)
