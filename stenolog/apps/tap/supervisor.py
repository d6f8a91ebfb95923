"""Supervisor of a tap: holds the socket, runs relay, recording and the user's command.

If it dies, even by kill -9, the relay sees the end of a pipe and stops. Recording finishes the journal when
the last process that could write to it has ended.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from pydantic_core import to_json

import stenolog._version
from stenolog.projections.programs import PROGRAMS, TapLaunch, command_name

from .recording.process import RecordingConfig
from .relay.process import RelayConfig
from .upstreams import Upstream, base_urls

ROOT = str(Path(stenolog._version.__file__).parent.parent)
BOOT = """
import os, runpy, sys
root, module = sys.argv[1:]
sys.path.append(root)
if module == "relay":
    # Without the public package, whose models take longer to import than all else and as much memory.
    sys.modules["stenolog"] = package = type(sys)("stenolog")
    package.__path__ = [os.path.join(root, "stenolog")]
else:
    os.nice(10)  # forwarding goes before recording, from the first import on
runpy.run_module(f"stenolog.apps.tap.{module}.process", {}, "__main__")
"""
QUICK_SECONDS = 5.0
"""A process that ends sooner than this after its start is started again with a delay."""
MAX_DELAY_SECONDS = 2.0


def start(
    module: str, config: object, descriptors: tuple[int, ...], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start the process of a package here, with these file descriptors.

    Its configuration comes as JSON on stdin. It has its own session: Ctrl-C is for the user's command.
    """
    # -P: a module in the user's folder must not be imported in place of a library's.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, ROOT, module],
        stdin=subprocess.PIPE,
        stdout=errors,
        stderr=errors,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(to_json(config))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it has ended already, and is started again
    return process


class Restarted:
    """A process that is started again when it ends; `generation` counts its starts."""

    def __init__(self, begin: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self.generation = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._begin = begin
        self._started_at = 0.0
        self._delay = 0.0

    def ensure(self) -> float | None:
        """Start the process if it is not running; return the seconds until the next try, or None."""
        if self.process and self.process.poll() is None:
            return None
        now = time.monotonic()
        wait = self._started_at + self._delay - now if self.process else 0.0
        if wait > 0:
            return wait
        quick = bool(self.process) and now - self._started_at < QUICK_SECONDS
        # The first restart is at once; a process that ends again and again must not use up the machine.
        self._delay = min(max(self._delay * 2, 0.1), MAX_DELAY_SECONDS) if quick else 0.0
        self._started_at = now
        self.generation += 1
        self.process = self._begin(self.generation)
        return None


RELAY_END_SECONDS = 5.0
INTERRUPT_SECONDS = 0.5
SIGNALLED = 128


@dataclass(frozen=True)
class Tap:
    """A tap to run. `database` is a path or an address; `folder` holds the journals, a folder a run."""

    database: str
    folder: Path
    upstreams: Mapping[str, Upstream]
    token: str
    waits: bool = True
    redacts: bool = False

    def base(self, bound: socket.socket) -> str:
        """Return the URL with the token; an upstream's name follows it."""
        host, port = _address(bound)
        return f"http://{f'[{host}]' if ':' in host else host}{f':{port}' if port != 80 else ''}/{self.token}"


def _address(bound: socket.socket) -> tuple[str, int]:
    found = bound.getsockname()
    return ("localhost", 80) if isinstance(found, str) else found[:2]


def journal_folder(database: Path) -> Path:
    """Return the folder of the journals of a database's taps."""
    return database.with_name(f"{database.stem}-tap")


class Ended(NamedTuple):
    """End of a tap: exit code (128 + N for signal N), what was printed, the run's id."""

    code: int
    printed: str
    run: str


def run(tap: Tap, bound: socket.socket, command: list[str] | None = None) -> Ended:
    """Run a command behind a tap; without one, until told to end. Raises OSError."""
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        supervisor = _Supervisor(tap, bound, stack, errors)
        with _signals() as signals:
            code = supervisor.run(command, signals)
        supervisor.end()
        errors.seek(0)
        return Ended(code, errors.read().decode(errors="replace"), supervisor.run_id)


class _Signals:
    """Signals that arrived, and the pipe that becomes readable with each."""

    def __init__(self, wake: int, wake_end: int) -> None:
        self.wake, self._wake_end = wake, wake_end
        self.asked: list[int] = []
        self.knows_senders = self._is_over = False

    def ask_senders(self) -> None:
        """From now on ignore each SIGINT of the terminal: it goes to the command too.

        Called after the command has begun, which would else not get SIGINT either. macOS cannot tell.
        """
        if hasattr(signal, "sigtimedwait"):
            self.knows_senders = True
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            threading.Thread(target=self._wait_for_interrupts, daemon=True).start()

    def close(self) -> None:
        self._is_over = True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    def _wait_for_interrupts(self) -> None:
        while not self._is_over:
            found = signal.sigtimedwait([signal.SIGINT], INTERRUPT_SECONDS)
            if found is not None and found.si_code <= 0:  # a process has sent it
                self.asked.append(signal.SIGINT)
                os.write(self._wake_end, b"\0")

    def wait(self, seconds: float | None) -> None:
        """Wait for a signal, also of a child's end."""
        select.select([self.wake], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self.wake, 4096)


@contextmanager
def _signals() -> Iterator[_Signals]:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signals = _Signals(readable, writable)

    # A function, since a child would inherit an ignored signal.
    def note(number: int, _: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            signals.asked.append(number)

    numbers = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    old = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield signals
    finally:
        signals.close()
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


class _Supervisor:
    def __init__(self, tap: Tap, bound: socket.socket, stack: ExitStack, errors: IO[bytes]) -> None:
        self._tap, self._bound, self._errors = tap, bound, errors
        self._cwd = ""
        self.run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self._folder = tap.folder / self.run_id
        self._folder.mkdir(mode=0o700, parents=True)
        tap.folder.chmod(0o700)
        lock = _locked(self._folder)
        assert lock is not None
        self._lock = lock
        self._alive, self._alive_end = os.pipe()
        self._notify, self._notify_end = os.pipe()
        os.set_blocking(self._notify_end, False)
        for number in (self._lock, self._alive, self._alive_end, self._notify):
            stack.callback(os.close, number)
        self._relay = Restarted(self._start_relay)
        self._recording = Restarted(self._start_recording)
        self._earlier = list(self._recordings_of_earlier_runs())

    def run(self, command: list[str] | None, signals: _Signals) -> int:
        """Keep the processes running until the command ends, or a signal comes."""
        child = None
        with suppress(FileNotFoundError):  # the folder may have been removed
            # JSON holds no name that is not UTF-8.
            self._cwd = os.fsencode(os.getcwd()).decode(errors="replace") if command else ""
        try:
            self._relay.ensure()
            if command:
                program = launch(command, self._tap.base(self._bound), self._tap.upstreams, os.environ)
                child = subprocess.Popen(program.command, env=program.environment)
                signals.ask_senders()
            while True:
                wait = self._ensure()
                if child and child.poll() is not None:
                    return child.returncode if child.returncode >= 0 else SIGNALLED - child.returncode
                signals.wait(wait)
                while signals.asked:  # another thread adds to them
                    number = signals.asked.pop(0)
                    if not child:
                        return 0 if number == signal.SIGINT else SIGNALLED + number
                    if number != signal.SIGINT or signals.knows_senders:
                        child.send_signal(number)
        except BaseException:
            if child:
                child.terminate()
            self.end()
            raise

    def end(self) -> None:
        """End the relay; wait until recording has finished the journal."""
        relay = self._relay.process
        if relay:
            relay.terminate()
            try:
                relay.wait(RELAY_END_SECONDS)
            except subprocess.TimeoutExpired:
                relay.kill()
                relay.wait()
        if self._notify_end >= 0:
            os.close(self._notify_end)
            self._notify_end = -1
        recording = self._recording.process
        if recording and recording.wait():
            self._start_recording(0).wait()
        for process in self._earlier:
            process.wait()
        with suppress(OSError):
            self._tap.folder.rmdir()

    def _ensure(self) -> float | None:
        waits = [wait for each in (self._relay, self._recording) if (wait := each.ensure()) is not None]
        return min(waits, default=None)

    def _start_relay(self, generation: int) -> subprocess.Popen[bytes]:
        host, port = _address(self._bound)
        listener = self._bound.fileno()
        config = RelayConfig(
            folder=str(self._folder),
            run=self.run_id,
            generation=generation,
            token=self._tap.token,
            host=host,
            port=port,
            upstreams=dict(self._tap.upstreams),
            listener=listener,
            alive=self._alive,
            notify=self._notify_end,
            waits=self._tap.waits,
            redacts=self._tap.redacts,
        )
        if generation > 1:
            with suppress(BlockingIOError):
                # The relay may have been killed between its last record and the notification.
                os.write(self._notify_end, b"\0")
        descriptors = (listener, self._alive, self._notify_end, self._lock)
        return start("relay", config, descriptors, self._errors)

    def _start_recording(self, _: int) -> subprocess.Popen[bytes]:
        config = RecordingConfig(str(self._folder), self._tap.database, self._notify, self._cwd)
        return start("recording", config, (self._notify, self._lock), self._errors)

    def _recordings_of_earlier_runs(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process for each journal that a killed tap left."""
        for folder in sorted(self._tap.folder.iterdir()):
            lock = _locked(folder) if folder.is_dir() and folder != self._folder else None
            if lock is not None:
                config = RecordingConfig(str(folder), self._tap.database, None)
                yield start("recording", config, (lock,), self._errors)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a run's folder; return the descriptor, or None if its processes still run.

    The processes of a run share the lock.
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        return None
    return number


RUNNERS = ("npx", "bunx", "pnpx", "uvx", "pipx", "dlx", "exec", "run", "x", "pnpm", "yarn", "bun", "npm")
"""Words before the name of a program that they run."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Launch(NamedTuple):
    """A command and its environment."""

    command: list[str]
    environment: dict[str, str]


def launch(
    command: Iterable[str], base: str, upstreams: Mapping[str, Upstream], environ: Mapping[str, str]
) -> Launch:
    """Return the command and environment with which it reaches its providers.

    `base` is the tap's URL with its token.
    """
    words = list(command)
    environment = dict(environ)
    known = base_urls()
    for name, (_, variables) in known.items():
        for variable in variables:
            environment[variable] = f"{base}/{name}"
    own = [name for name, (url, _) in known.items() if upstreams[name].origin == url]
    for variable, base_url in (each.first_party for each in PROGRAMS.values() if each.first_party):
        if any(base_url in known[name][1] for name in own):
            environment[variable] = "1"
    for variable in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(variable, "").split(",") if host.strip()]
        # A client that sends everything through a proxy would send this there too.
        environment[variable] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    found = _program(words)
    if found is None:
        return Launch(words, environment)
    at, begin = found

    def is_chained(name: str) -> bool:
        return any(environ.get(variable) for variable in known[name][1])

    return Launch(begin(TapLaunch(words, at, base, environment, environ, is_chained)), environment)


def _program(words: list[str]) -> tuple[int, Callable[[TapLaunch], list[str]]] | None:
    """Return a program's place in a command and its launch, also through npx and its like."""
    launches = [(each, each.launch) for each in PROGRAMS.values() if each.launch is not None]
    for at, word in enumerate(words):
        for program, load in launches:
            if program.is_command(word):
                return at, load()
        if command_name(word) not in RUNNERS and not word.startswith("-"):
            break
    return None
