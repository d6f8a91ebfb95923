"""The example plugins, installed as a user installs them, beside the stenolog under test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.forked import python

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted(path.parent for path in (ROOT / "examples" / "plugins").glob("*/pyproject.toml"))
Stenolog = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages into which pip has built and installed every example plugin."""
    target = tmp_path_factory.mktemp("site")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", target, *EXAMPLES], check=True)
    return target


@pytest.fixture
def stenolog(installed: Path, tmp_path: Path) -> Stenolog:
    """Return a function that runs a command line in an empty folder, without the examples if so asked."""

    def run(
        *arguments: str, plugins: bool = True, paths: Sequence[Path] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        found = [str(path) for path in (ROOT, *([installed] if plugins else []), *paths)]
        plain = {
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "PYTHONPATH": os.pathsep.join(found),
            "STENOLOG_DB": "talks.db",
        }
        return subprocess.run(
            python("-m", "stenolog", *arguments),
            cwd=tmp_path,
            env={**os.environ, **plain, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
