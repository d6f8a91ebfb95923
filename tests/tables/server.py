"""A PostgreSQL server of the tests' own, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QUIET = "-c fsync=off -c listen_addresses='' -c max_connections=20 -c shared_buffers=16MB"


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def serving(bin: Path) -> Iterator[str]:
    """Run a server, and yield how to connect to it. Its socket is in its folder: it takes no port."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        data = Path(folder) / "data"
        os.chmod(folder, 0o755)
        data.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(data, "postgres", "postgres")
            shutil.chown(folder, "postgres", "postgres")
        _run(
            bin / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"
        )
        _run(bin / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", f"{QUIET} -k {folder}", "start")
        try:
            yield f"host={folder} user=tests dbname=postgres"
        finally:
            _run(bin / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


def _run(*command: str | Path) -> None:
    """Run a program of the server; it must not be root."""
    user = "postgres" if os.getuid() == 0 else None
    done = subprocess.run(
        list(map(str, command)),
        user=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"
