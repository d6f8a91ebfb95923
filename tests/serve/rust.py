"""The Rust client of `clients/rust`, built once per process, outside of the checkout.

Its one dependency comes from Debian's sources where these are installed (`librust-serde-json-dev`), and else
from the registry that cargo knows.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

HERE = Path(__file__).parents[2] / "clients" / "rust"
DEBIAN = Path("/usr/share/cargo/registry")
STENOLOG = f"{sys.executable} -m stenolog"


def agent() -> Sequence[str]:
    """Return the command that runs the example program."""
    return [str(crate() / "target" / "debug" / "stenolog-agent")]


@cache
def crate() -> Path:
    """Return a copy of the crate, built with its tests. A warning is an error.

    Without cargo, or without the dependency, the test is skipped; in CI it fails.
    """
    if shutil.which("cargo") is None:
        _missing("no cargo here, for the client in Rust")
    folder = TemporaryDirectory(prefix="stenolog-rust-")
    atexit.register(folder.cleanup)
    copy = Path(folder.name, "rust")
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    fetched = run(copy, "fetch")
    if fetched.returncode:
        _missing(f"no serde_json here, for the client in Rust: {fetched.stderr.strip()[-200:]}")
    built = run(copy, "build", "--all-targets", "--offline")
    assert built.returncode == 0, built.stderr
    return copy


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run cargo in a folder to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def command(name: str, *arguments: str) -> list[str]:
    """Return a command of cargo."""
    settings = []
    if any(DEBIAN.glob("serde_json-*")):
        settings = ['crates-io.replace-with="debian"', f'debian.directory="{DEBIAN}"']
    options = [word for each in settings for word in ("--config", f"source.{each}")]
    return ["cargo", name, *options, *arguments]


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment of such a command, and of the programs that it runs."""
    ours = {"RUSTFLAGS": "-D warnings", "CARGO_TARGET_DIR": str(folder / "target")}
    return {**os.environ, **ours, "STENOLOG": STENOLOG, "TMPDIR": str(folder), **settings}


def _missing(why: str) -> None:
    assert "CI" not in os.environ, why
    pytest.skip(why)
