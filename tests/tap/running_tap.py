"""A provider and a tap before it, each in processes of its own: what a corpus is sent through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import python

ROOT = Path(__file__).parent.parent.parent
END_SECONDS = 3600.0
"""A tap may record for so long what it has forwarded."""


@dataclass
class Running:
    """A tap that listens: the base URLs of its upstreams, and after its end what the provider has met."""

    database: Path
    urls: Mapping[str, str]
    provider: str
    printed: str = ""
    exchanges: list[dict[str, Any]] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        """The folder that the tap leaves behind only when it was killed."""
        return self.database.with_name(f"{self.database.stem}-tap")


@contextmanager
def provider_process(record: Path, *, keeps: bool = False) -> Iterator[str]:
    """Run a provider; yield its URL."""
    command = [sys.executable, "-m", "tests.tap.fake_provider", "--record", str(record)]
    command += ["--keep", "yes"] if keeps else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def running_tap(folder: Path, program: Callable[..., list[str]] = python) -> Iterator[Running]:
    """Run a tap before a provider. Its end waits until everything is recorded.

    `program` makes the command of a Python program of its arguments.
    """
    record, database, errors = folder / "provider.jsonl", folder / "log.db", folder / "tap.txt"
    with provider_process(record) as provider, errors.open("w") as output:
        upstreams = {"anthropic": provider, "openai": f"{provider}/v1", "gemini": provider}
        command = program("-m", "stenolog", "tap", "--listen", "127.0.0.1:0", "--db", str(database))
        command += [word for name, url in upstreams.items() for word in ("--upstream", f"{name}={url}")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, cwd=ROOT, env=environment()
        ) as process:
            assert process.stdout is not None
            running = Running(database, json.loads(process.stdout.readline())["base_urls"], provider)
            try:
                yield running
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(END_SECONDS)
    running.printed = errors.read_text()
    running.exchanges += (json.loads(line) for line in record.read_text().splitlines())


def environment() -> dict[str, str]:
    """Return an environment in which this checkout is imported, and no base URL is set."""
    trimmed = {name: value for name, value in os.environ.items() if not name.endswith("_BASE_URL")}
    return {**trimmed, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])}


def bytes_below(folder: Path, name: str) -> int:
    """Return the bytes on disk of the files whose name begins with a database's."""
    return sum(path.stat().st_size for path in folder.rglob(f"{name}*") if path.is_file())
