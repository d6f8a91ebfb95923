"""A MariaDB server of the tests' own, in a folder that goes with it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds after which a server that does not answer is given up."""


def programs() -> tuple[str, str] | None:
    """Return MariaDB's server and the program that prepares its folder; None where they are missing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = [shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db")]
    return (found[0], found[1]) if found[0] and found[1] else None


@contextmanager
def serving(server: str, install: str) -> Iterator[str]:
    """Run a server, and yield the path of its socket: it takes no port."""
    with tempfile.TemporaryDirectory(prefix="my") as folder:
        data, socket = Path(folder) / "data", Path(folder) / "socket"
        user = ["--user=root"] if os.getuid() == 0 else []
        made = [
            install,
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
            *user,
        ]
        done = subprocess.run(made, capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
        quiet = ["--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]
        command = [server, "--no-defaults", f"--datadir={data}", f"--socket={socket}", *quiet, *user]
        said = Path(folder) / "log"
        with said.open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        try:
            until = time.monotonic() + PATIENCE
            while "ready for connections" not in said.read_text() and time.monotonic() < until:
                assert process.poll() is None, said.read_text()
                time.sleep(0.05)
            yield str(socket)
        finally:
            process.kill()
            process.wait()


def connect(socket: str, **options: Any) -> Any:
    """Return a connection as its administrator."""
    pymysql: Any = importlib.import_module("pymysql")
    return pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4", **options)
