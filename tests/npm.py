"""Packages from npm that tests run: installed once per checkout, beside the `package.json` that pins them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest

INSTALL = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
PATIENCE_SECONDS = 300.0


def installed(here: Path, what: str, *, then: Sequence[str] = ()) -> Path:
    """Return the folder that has the packages of `here / "package.json"`, installed there the first time.

    `then` is a command to run after the install. Without node the test is skipped; in CI it fails. `what`
    names the packages in that message.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        assert "CI" not in os.environ, f"node and npm are needed for {what}"
        pytest.skip(f"no node and npm here, for {what}")
    wanted = (here / "package.json").read_bytes()
    folder = here / "node_modules" / f".installed-{sha256(wanted).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        making = Path(mkdtemp(dir=folder.parent, prefix=".making-"))
        try:
            (making / "package.json").write_bytes(wanted)
            for command in filter(None, (INSTALL, then)):
                subprocess.run(command, cwd=making, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
            making.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder
