"""Import beside the pages, in a process of its own: in a thread, each page would wait for it again and again.

The process imports file by file, then watches. It sends the pages each `FileOutcome`, the number of files it
has found, None once it has looked at all of them, and the text of an error that ends it. It ends between two
files once the pages have.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Self

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.importers.detection.detect import why_refused
from stenolog.adapters.importers.detection.folders import found_sessions
from stenolog.adapters.importers.importer import import_files, import_stream
from stenolog.adapters.importers.intake.report import Refused, Report
from stenolog.adapters.importers.watching import rounds
from stenolog.adapters.plugins import load_plugin, named_plugins
from stenolog.adapters.store.contract.address import hide_passwords
from stenolog.apps.views.figures import counted
from stenolog.domain.errors import OperationalError, StenologError, UnknownFormatError

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

AT_ONCE = 10
"""The files that are imported between two looks at what was dropped."""
PAUSE_SECONDS = 2.0
"""The seconds between two looks at the folders."""
PATIENCE_SECONDS = 5.0
"""The seconds that one file may still take at the end; a next import goes on from there."""


class FileOutcome(NamedTuple):
    """The outcome of a file: its conversations, or the reason for which it was not imported."""

    file: str
    conversations: tuple[str, ...] = ()
    reason: str = ""
    is_unknown: bool = False
    was_dropped: bool = False


def outcome_of(done: Report | Refused) -> FileOutcome:
    """Return what the pages show of a file."""
    if isinstance(done, Refused):
        reason = hide_passwords(why_refused(done.error))
        return FileOutcome(done.file, (), reason, isinstance(done.error, UnknownFormatError))
    failed = next((one.failed for one in done.conversations if one.failed), "")
    names = tuple(one.name for one in done.conversations if one.appended or one.already)
    return FileOutcome(done.file, names, failed)


class ImportProgress(NamedTuple):
    """The files done of those found at first; and the sums of all outcomes, with files by reason.

    `outcomes` is the number of them, those of files that have grown included. `opens` is the conversation of
    the only file that was named, or of the one that was dropped last, and `opens_since` the outcomes by then.
    """

    is_running: bool
    outcomes: int
    done: int
    found: int
    files: int
    conversations: int
    unknown: int
    reasons: dict[str, list[str]]
    error: str
    opens: str
    opens_since: int

    @property
    def summary(self) -> str:
        """A line for a person."""
        if self.is_running:
            of = f"Importing: {self.done:,} of {counted(self.found, 'file')}"
            return of if self.found else "Looking for sessions"
        failed = sum(map(len, self.reasons.values())) - self.unknown
        wrong = ((self.unknown, "not recognised"), (failed, "failed"))
        notes = ", ".join(f"{number:,} {what}" for number, what in wrong if number)
        sums = f"{counted(self.files, 'file')}, {counted(self.conversations, 'conversation')} in them"
        return f"{sums}; {notes}" if notes else sums


class Offer(NamedTuple):
    """Sessions of a program on this machine: how many, and the line that shows them."""

    program: str
    folder: Path
    sessions: str
    line: str


def offers(command: str) -> list[Offer]:
    """Return the sessions on this machine; `command` is the beginning of their lines."""
    return [
        Offer(each.program, each.folder, words, f"{command} {_short(each.folder)}")
        for each in found_sessions()
        for words in [counted(each.sessions, "session") if each.sessions else "sessions"]
    ]


def _short(path: Path) -> str:
    """Return a path as it is typed."""
    with suppress(ValueError):
        below = path.relative_to(Path.home()).as_posix()
        if shlex.quote(below) == below:
            return f"~/{below}"
    return shlex.quote(str(path))


class Importing:
    """An import of paths into a log, with what is new there later, and of files dropped on a page if allowed.

    `command` is the line that was typed, without its paths. Used as a context: the process runs within it.
    """

    def __init__(self, log: Log, paths: Sequence[Path], command: str, *, allows_drops: bool = False) -> None:
        self.paths = paths
        self.command = command
        self.allows_drops = allows_drops
        self._log = log
        self._outcomes: dict[str, FileOutcome] = {}
        self._outcomes_number, self._done, self._found = 0, 0, 0
        self._is_complete, self._is_over = not paths, False
        self._error, self._opens = "", ("", 0)
        self._process: BaseProcess | None = None

    def __enter__(self) -> Self:
        if self.paths or self.allows_drops:
            self._begin()
        return self

    def _begin(self) -> None:
        fresh = multiprocessing.get_context("spawn")
        orders, self._orders = fresh.Pipe(duplex=False)
        messages, tells = fresh.Pipe(duplex=False)
        given = (self._log.recorder.address, named_plugins(), self.paths, orders, tells)
        self._process = fresh.Process(target=work, args=given, name="stenolog-import", daemon=True)
        self._process.start()
        for ours in (orders, tells):
            ours.close()
        self._spool = TemporaryDirectory(prefix="stenolog-")
        self._listener = Thread(target=self._listen, args=(messages,), name="stenolog-import", daemon=True)
        self._listener.start()

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._is_over = True
        self._orders.close()
        self._process.join(PATIENCE_SECONDS)
        self._process.kill()
        self._process.join()
        self._listener.join()
        self._spool.cleanup()

    @property
    def is_one_file(self) -> bool:
        """True if one file was named: the first page leads to its conversation."""
        return len(self.paths) == 1 and self.paths[0].is_file()

    @property
    def offers(self) -> list[Offer]:
        """The sessions on this machine."""
        return offers(self.command)

    @property
    def spool(self) -> Path:
        """A folder for files that were dropped, until they are imported."""
        return Path(self._spool.name)

    def drop(self, file: Path) -> None:
        """Import a file of the spool. Raises OSError if the process has ended."""
        self._orders.send(file)

    def progress(self) -> ImportProgress | None:
        """Return how far it is; None if nothing was to be imported so far."""
        outcomes = list(self._outcomes.values())
        if not (self.paths or outcomes or self._error):
            return None
        reasons: dict[str, list[str]] = {}
        for each in outcomes:
            if each.reason:
                reasons.setdefault(each.reason, []).append(each.file)
        return ImportProgress(
            not (self._is_complete or self._error),
            self._outcomes_number,
            self._done,
            self._found,
            len(outcomes),
            len({name for each in outcomes for name in each.conversations}),
            sum(each.is_unknown for each in outcomes),
            reasons,
            self._error,
            *self._opens,
        )

    def _listen(self, messages: Connection) -> None:
        """Take down what the process tells, until it ends."""
        with suppress(EOFError, OSError):
            while True:
                message = messages.recv()
                if isinstance(message, FileOutcome):
                    self._outcomes[message.file] = message
                    self._outcomes_number += 1
                    self._done += not message.was_dropped
                    if message.was_dropped or self.is_one_file:
                        only = message.conversations[0] if len(message.conversations) == 1 else ""
                        self._opens = only, self._outcomes_number
                elif isinstance(message, int):
                    self._done, self._found = 0, message
                elif message is None:
                    self._is_complete = True
                else:
                    self._error = message
        if not (self._error or self._is_over):
            self._error = "the import has ended by itself: start the command again"


def work(
    address: str, plugins: Iterable[str], paths: Sequence[Path], orders: Connection, tells: Connection
) -> None:
    """Import and watch, in a process started for it, until the other end of `orders` is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pages' process, which closes `orders`
    if hasattr(os, "nice"):
        os.nice(5)  # the pages go before it
    with suppress(ConnectionError):
        try:
            for each in plugins:
                load_plugin(each)
            with open_log(address) as log:
                Worker(log, orders, tells).run(paths)
        except ConnectionError:
            raise
        except (StenologError, OSError) as error:
            tells.send(hide_passwords(str(error)))


class Worker:
    """The import in its process. It ends with a `ConnectionError` once the pages have ended."""

    def __init__(self, log: Log, orders: Connection, tells: Connection) -> None:
        self._log = log
        self._orders = orders
        self._tells = tells
        self._dropped: deque[Path] = deque()
        self._is_over = self._is_complete = False

    def run(self, paths: Sequence[Path]) -> None:
        """Import what is new, round by round."""
        for _ in rounds(paths, self._import, self._wait):
            pass

    def _import(self, files: Sequence[Path]) -> list[Report | Refused]:
        self._tells.send(len(files))
        done: list[Report | Refused] = []
        for first in range(0, len(files), AT_ONCE):
            for each in import_files(self._log, self._until_over(files[first : first + AT_ONCE])):
                done.append(each)
                self._tells.send(outcome_of(each))
            self._import_dropped()
        return done

    def _wait(self) -> None:
        if not self._is_complete:
            self._is_complete = True
            self._tells.send(None)
        self._look(PAUSE_SECONDS)
        self._import_dropped()

    def _look(self, seconds: float = 0.0) -> bool:
        """Take new orders, the first within so many seconds; return False once the pages have ended."""
        try:
            while self._orders.poll(seconds):
                self._dropped.append(self._orders.recv())
                seconds = 0.0
        except (EOFError, OSError):
            self._is_over = True
        return not self._is_over

    def _until_over(self, files: Sequence[Path]) -> Iterator[Path]:
        """Yield the files while there are pages; at their end what was read is still written."""
        for file in files:
            if not self._look():
                return
            yield file

    def _import_dropped(self) -> None:
        while self._look() and self._dropped:
            file = self._dropped.popleft()
            done: Report | Refused
            try:
                with file.open("rb") as stream:
                    done = import_stream(self._log, stream, file=file)
            except (StenologError, OSError) as error:
                if isinstance(error, OperationalError):
                    raise
                done = Refused(file.name, error)
            rmtree(file.parent, ignore_errors=True)  # a folder of its own
            self._tells.send(outcome_of(done)._replace(was_dropped=True))
        if self._is_over:
            raise ConnectionAbortedError
