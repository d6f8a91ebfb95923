"""The official client of AG-UI in node: installed once per machine, and asked about streams of events."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ag_ui.core import BaseEvent

from tests import npm

HERE = Path(__file__).parent / "ag_ui"
PATIENCE = 240.0
"""Seconds that node may take."""


def installed() -> Path:
    """Return the folder with the client's packages."""
    return npm.installed(HERE, "the official client of AG-UI")


def api(events: Iterable[BaseEvent]) -> list[Any]:
    """Return the events as they go over the API."""
    return [json.loads(event.model_dump_json(by_alias=True)) for event in events]


def asked(
    streams: Sequence[Iterable[BaseEvent]], having: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the client's view of each stream.

    It has the first `error` or None, and the `messages` and `state` that the client then has. `having`: the
    messages that it has before.
    """
    lines = "\n".join(json.dumps({"events": api(events), "messages": [*having]}) for events in streams)
    command = ["node", str(HERE / "check.cjs"), str(installed())]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=PATIENCE)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(streams)
    return told
