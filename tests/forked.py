"""Python programs for tests that start many: each is forked from a process that has imported its modules.

`python("-m", "stenolog")` is a command as `[sys.executable, "-m", "stenolog"]` is, in a fifth of its time. It
starts `tests/relay.py`, and the program has its files, folder and environment, and dies with it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NamedTuple

RELAY = str(Path(__file__).with_name("relay.py"))
STENOLOG = (
    "stenolog.apps.cli",
    "stenolog.contrib.plugins",
    "stenolog.analysis",
    "stenolog.engine",
    "importlib.metadata",
)


class Asked(NamedTuple):
    """A program that is asked for, with the files that are its stdin, stdout and stderr."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]


def python(*arguments: str, modules: tuple[str, ...] = STENOLOG) -> list[str]:
    """Return the command of a program that is forked from a process with these modules."""
    if not hasattr(os, "fork"):
        return [sys.executable, *arguments]
    return [sys.executable, "-IS", RELAY, _served(modules), *arguments]


@functools.cache
def _served(modules: tuple[str, ...]) -> str:
    """Start the process that imports the modules, and return the path of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    address = f"{folder.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, address, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    assert server.stdout
    assert server.stdout.read() == b"ready"
    return address


def serve(address: str, *modules: str) -> Asked:
    """Fork for each relay until stdin ends; return in the forked process."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    for module in modules:
        importlib.import_module(module)
    gc.freeze()
    os.write(1, b"ready")
    os.dup2(2, 1)
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    relays: dict[int, socket.socket] = {}
    events = select.poll()
    for each in (0, listening, woken):
        events.register(each, select.POLLIN)
    while True:
        ready = {file for file, _ in events.poll()}
        if 0 in ready:
            os._exit(0)
        for pid, relay in relays.items():
            if relay.fileno() in ready:
                os.kill(pid, (relay.recv(1) or bytes([signal.SIGKILL]))[0])
        if woken.fileno() in ready:
            woken.recv(4096)
        for pid in [*relays]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                events.unregister(relays[pid])
                with relays.pop(pid) as relay, contextlib.suppress(OSError):
                    relay.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        if listening.fileno() in ready:
            relay = listening.accept()[0]
            asked = received(relay)
            pid = os.fork()
            if not pid:
                break
            relays[pid] = relay
            events.register(relay, select.POLLIN)
            for file in asked.files:
                os.close(file)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in (listening, woken, wake, relay, *relays.values()):
        each.close()
    return asked


def received(relay: socket.socket) -> Asked:
    length, files, _, _ = socket.recv_fds(relay, 4, 3)
    asked = relay.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    arguments, folder, environment = marshal.loads(asked)
    return Asked(arguments, folder, environment, files)


def run(asked: Asked) -> None:
    """Run a program as an interpreter does that was just started."""
    for number, file in enumerate(asked.files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if os.isatty(1) else -1, "utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    mine = filter(None, asked.environment.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.orig_argv = [sys.executable, *asked.arguments]
    os.chdir(asked.folder)
    kind, *rest = asked.arguments
    first = {"-m": asked.folder, "-c": ""}.get(kind, str(Path(kind).parent))
    sys.path[:] = [first, *mine, *(path for path in sys.path if path not in theirs)]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [*asked.arguments]
        runpy.run_path(kind, run_name="__main__")


def ended(asked: Asked) -> int:
    """Run a program, and return its exit code."""
    try:
        run(asked)
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = ended(serve(*sys.argv[1:]))
    # As an interpreter ends, but without taking down all modules, which would copy the shared memory.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)
