"""The official client of AG-UI in node: installed once per machine, and asked about streams of events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from ag_ui.core import BaseEvent

HERE = Path(__file__).parent / "ag_ui"
INSTALL = ("install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
PATIENCE = 240.0
"""Seconds that npm or node may take."""


def installed() -> Path:
    """The folder with the client's packages. Where there is no node, the test is skipped; in CI it fails."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        assert "CI" not in os.environ, "node and npm are needed to test against the official client"
        pytest.skip("no node and npm here, for the official client of AG-UI")
    wanted = (HERE / "package.json").read_bytes()
    folder = HERE / "node_modules" / f".installed-{sha256(wanted).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        making = Path(mkdtemp(dir=folder.parent, prefix=".making-"))
        try:
            (making / "package.json").write_bytes(wanted)
            subprocess.run([npm, *INSTALL], cwd=making, check=True, capture_output=True, timeout=PATIENCE)
            making.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def wire(events: Iterable[BaseEvent]) -> list[Any]:
    """The events as they go over the wire."""
    return [json.loads(event.model_dump_json(by_alias=True)) for event in events]


def asked(
    streams: Sequence[Iterable[BaseEvent]], having: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """What the client says of each stream: the first `error` or None, and the `messages` and `state` that it
    then has. `having`: the messages that it has before.
    """
    lines = "\n".join(json.dumps({"events": wire(events), "messages": [*having]}) for events in streams)
    command = ["node", str(HERE / "check.cjs"), str(installed())]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=PATIENCE)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(streams)
    return told
