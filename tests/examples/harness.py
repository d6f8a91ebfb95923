"""Runs an example as a person does, kills it where it stands, and asks the log whether all is well."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import stenolog
from stenolog import Entry
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.apps import cli
from stenolog.projections.requests import lanes
from stenolog.projections.requests.incremental.series import from_window, windows
from stenolog.projections.requests.sendable import takes_part
from tests.forked import python
from tests.postgres import in_schemas
from tests.requests.judging import HERE, MODELS, complaints

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Seconds after which a run is given up."""
UNPACED = {"EXAMPLES_PAUSE_SECONDS": "0"}
"""For a run that nobody kills: its models write as fast as they can."""
LEAST = 0.05
"""Seconds of work that a run has at least, from its first entry, before it is killed."""


def finished(name: str, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Path:
    """Run the example to its end in the folder; its database."""
    said(name, folder, *options, env=env)
    return folder / f"{name}.db"


def said(name: str, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> str:
    """Run the example to its end in the folder; what it says on stdout."""
    process = _started(name, folder, options, {**UNPACED, **(env or {})}, python)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, f"examples.{name} ended with {process.returncode}:\n{out}\n{errors}"
    return out


def run(name: str, folder: Path, *options: str) -> tuple[int, str, str]:
    """Run the example; how it ended, and what it said on stdout and on stderr."""
    process = _started(name, folder, options, UNPACED, python)
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def killed(
    name: str,
    folder: Path,
    *options: str,
    kills: int = 5,
    seed: int = 1,
    most: float = 1.0,
    env: Mapping[str, str] | None = None,
) -> Path:
    """Run it, `kill -9` it at random instants, so many times, and let it come to its end; its database.

    A run has from `LEAST` to `most` seconds, from its first entry on, or from its start where there are some
    already. One that comes to its end too soon has less the next time, and begins anew in another folder.
    """
    chance, path, done = Random(seed), folder / f"{name}.db", 0
    while done < kills:
        process = _started(name, folder, options, env)
        if _dies(process, path, chance.uniform(LEAST, most)):
            done += 1
            continue
        most *= 0.7
        assert most > LEAST, f"examples.{name} cannot be killed: it ends at once"
        folder, done = folder / "again", 0
        folder.mkdir()
        path = folder / f"{name}.db"
    return finished(name, folder, *options, env=env)


def paced(name: str, folder: Path) -> float:
    """Run the example as a person sees it; how many seconds it is at work, from its first entry on."""
    process, path = _started(name, folder, (), None), folder / f"{name}.db"
    _wait(process, path)
    begun = time.monotonic()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return time.monotonic() - begun


def killed_after(name: str, folder: Path, *seconds: float) -> int:
    """Start it and `kill -9` it after so many seconds of work, once for each; then let it come to its end.

    Return the number of kills that hit; a run that ends before it is not tried again.
    """
    hits = sum(_dies(_started(name, folder, (), None), folder / f"{name}.db", one) for one in seconds)
    finished(name, folder)
    return hits


def outcome(name: str, path: Path) -> object:
    """Return the outcome of the example, which it reads from the log alone."""
    with stenolog.open(path) as log:
        told: object = importlib.import_module(f"examples.{name}.outcome").outcome(log)
    assert told, "an outcome of nothing proves nothing"
    return told


def clean(path: Path) -> None:
    """Assert that the log is sound, and all its requests can be built again.

    No prefix leads to a request that a provider would refuse, and all judges accept every sendable one.
    """
    with stenolog.open(path) as log:
        conversations = {name: [*log[name].entries()] for name in log.names(archived=True)}
    assert sum(map(len, conversations.values())) > len(conversations)
    assert asked("check", "log", "--requests", "--db", str(path)) == ""
    with stenolog.open(path) as log:  # some answers are a program's own, so that they have no receipt
        assert {proof.outcome for one in prove(log) for proof in one.proofs} <= {"same"}
    for name in conversations:
        assert asked("check", "requests", name, "--all-prefixes", "--db", str(path)) == ""
    if HERE:
        assert [fault for name, entries in conversations.items() for fault in faults(name, entries)] == []


def asked(*arguments: str) -> str:
    """Ask the command line; what it says where it is not content, else nothing."""
    with io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) as out:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = cli.run(list(arguments))
        return out.buffer.getvalue().decode() if status else ""


def faults(name: str, entries: list[Entry]) -> Iterator[str]:
    """Yield the judges' complaints about the sendable requests of every lane, at every position."""
    for lane in lanes(entries):
        for made in windows(entries, lane, None):
            for api in MODELS if takes_part(made) else ():
                request = from_window(made, api)
                if request.sendable:
                    where = f"{name} {lane.address}@{made.position} {api}"
                    yield from (f"{where}: {fault}" for fault in complaints(api, request.body))


def _started(
    name: str,
    folder: Path,
    options: tuple[str, ...],
    env: Mapping[str, str] | None,
    command: Callable[..., list[str]] = lambda *words: [sys.executable, *words],
) -> subprocess.Popen[str]:
    """Return the example in a process group of its own, so that a kill hits whatever it has started, too."""
    if name == "stakeholder_mail" and in_schemas.is_chosen():
        path = folder / (options[options.index("--db") + 1] if "--db" in options else f"{name}.db")
        options = (*options, "--tables", in_schemas.tables_beside(path))
    return subprocess.Popen(
        command("-m", f"examples.{name}", *options),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _dies(process: subprocess.Popen[str], path: Path, seconds: float) -> bool:
    """Kill it after so many seconds of work; whether it was still at work then."""
    _wait(process, path)
    time.sleep(seconds)
    alive = process.poll() is None
    if alive:
        os.kill(process.pid, signal.SIGKILL)  # the example alone: its subprocesses must cope
    _, errors = process.communicate(timeout=PATIENCE)
    assert alive or process.returncode == 0, f"it ended by itself with {process.returncode}:\n{errors}"
    return alive


def _wait(process: subprocess.Popen[str], path: Path) -> None:
    """Wait until the log is there, or the example has ended."""
    give_up = time.monotonic() + PATIENCE
    while not path.exists() and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.005)
