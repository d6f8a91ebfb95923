"""A command line that runs in this process, in an empty folder, without colours."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.cli.commands.see.demo import record
from stenolog.apps.cli.demo_events import BEGINNING
from tests.cli.teams import TOOLS
from tests.command_line import run

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "STENOLOG_MODEL")


class Ran(NamedTuple):
    """What a command line gave back."""

    status: int
    out: str
    err: str

    @property
    def envelope(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)

    @property
    def data(self) -> Any:
        """The data of what `--json` printed."""
        return self.envelope["data"]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run one command line: `cli("log", "demo")`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("STENOLOG_DB", "talks.db")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def ran(*arguments: str) -> Ran:
        streams = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            status = run(arguments)
        out, err = (_text(stream) for stream in streams)
        return Ran(status, out, err)

    return ran


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@pytest.fixture
def piped(cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run a command line with this on its stdin: `piped("Hi", "append", "demo", "--user", "-")`."""

    def ran(given: str | bytes, *arguments: str) -> Ran:
        content = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
        return cli(*arguments)

    return ran


@pytest.fixture
def demo(cli: Callable[..., Ran]) -> Callable[..., Ran]:
    """Return the command line, in a folder whose talks.db holds the first twelve entries of the demo."""
    with open_log("talks.db", entropy=bytes) as log:
        record(log["demo"], BEGINNING)
    return cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder with tools in it, no keys, and imports that are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop_tools", raising=False)
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "shop_tools.py").write_text(TOOLS)
    return tmp_path
