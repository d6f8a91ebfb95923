"""A virtual environment for each library, made once by pip from a list of versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.peers.registry import Known

HERE = Path(__file__).parent
MADE = HERE.parent / "results" / "environments"
"""Ignored by git."""


class NotInstalledError(Exception):
    """A library cannot be installed here; says why."""


def python(known: Known) -> str:
    """Return the interpreter with the library; its environment is made where it is missing or outdated."""
    if not known.environment:
        return sys.executable
    wanted = HERE / "requirements" / f"{known.environment}.txt"
    place = MADE / known.environment
    stamp = place / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"installing {wanted.name}", file=sys.stderr, flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        pip = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(wanted))
        _run(str(place / "bin" / "python"), *pip)
        stamp.write_text(wanted.read_text())
    return str(place / "bin" / "python")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["nothing was said"]
        raise NotInstalledError(f"{' '.join(command[1:4])}: {said[-1][:200]}")
