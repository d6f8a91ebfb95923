"""`stenolog chat --channel nostr` and its relay, killed again and again: each message is answered once."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from websockets.sync.client import connect

import stenolog
from stenolog import AssistantMessage, UserMessage
from stenolog.maintenance import verify
from tests.transcripts.signing import event, key

SERVER = str(Path(__file__).with_name("relay_server.py"))
ROOT = Path(__file__).resolve().parents[2]
ECHO = "import sys; print('heard', sys.stdin.read().split()[-1])"
NUMBER = 8
PATIENCE_SECONDS = 60


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, and kill it at the end of the block."""
    made = subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def eventually(call: Any) -> Any:
    """Return the result of a call that fails for a while, once it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if found := call():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise AssertionError("it took too long")


def put(url: str, made: dict[str, Any]) -> bool:
    """Give the relay an event, as a person's client does; whether it has it."""
    with connect(url, open_timeout=5) as client:
        client.send(json.dumps(["EVENT", made]))
        return bool(json.loads(client.recv(timeout=5))[2])


def stored(file: Path) -> list[dict[str, Any]]:
    """Return the events of the relay; a line that a kill has cut is none."""
    found = []
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


@pytest.mark.slow
def test_each_message_is_answered_once_whoever_is_killed_in_between(tmp_path: Path) -> None:
    random, file, db = Random(7), tmp_path / "relay.jsonl", tmp_path / "t.db"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    url = f"ws://127.0.0.1:{port}"
    (tmp_path / "keys.json").write_text(json.dumps({"coder": sha256(b"coder").hexdigest()}))
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "crew.toml").write_text(
        f'[agents.coder]\nmodel = {{ use = "cli:{sys.executable} {tmp_path / "echo.py"}" }}\n'
    )
    chat = ["-m", "stenolog", "chat", "--team", str(tmp_path / "crew.toml"), "--channel", "nostr"]
    chat += ["--db", str(db), "--option", f"relay={url}", "--option", f"keys={tmp_path / 'keys.json'}"]
    chat += ["--option", f"people={key('ann')}"]
    first = event("ann", "word0", kind=11, to="coder")
    asked = [first] + [
        event("ann", f"word{n}", at=n, under=first["id"], to="coder") for n in range(1, NUMBER)
    ]

    def answered() -> int:
        return sum((e["pubkey"], e["kind"]) == (key("coder"), 1111) for e in stored(file))

    for nth, question in enumerate(asked):
        with process(SERVER, port, str(file)):
            eventually(lambda q=question: put(url, q))
            with process(*chat):
                time.sleep(random.uniform(0.2, 2.0))
        with process(*chat):  # without a relay for a while, then with one
            time.sleep(random.uniform(0.0, 0.3))
            with process(SERVER, port, str(file)):
                eventually(lambda n=nth: answered() > n)

    with stenolog.open(db) as log:
        events = [entry.event for entry in log[first["id"]].entries()]
        report = verify(log)
    words = [e.text for e in events if isinstance(e, UserMessage) and e.author_kind == "person"]
    answers = [e.text for e in events if isinstance(e, AssistantMessage)]
    told = [e["content"] for e in stored(file) if (e["pubkey"], e["kind"]) == (key("coder"), 1111)]
    assert report.ok
    assert words == [f"word{n}" for n in range(NUMBER)]
    assert sorted(answers) == sorted(told) == sorted({*told}) == [f"heard word{n}" for n in range(NUMBER)]
