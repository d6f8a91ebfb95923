"""The ten typical programs, ours and their peers', run as a user runs them, over HTTP to a server here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate_programs import PEERS, PROGRAMS, lines
from tests.examples.openai_server import openai_server
from tests.forked import python
from tests.llms.server import Server

FOLDER = Path(__file__).parents[2] / "examples" / "programs"
SAID = {
    "chat": ["> Hello", "> And you?", "> "],
    "stream": ["Hello"],
    "tools_team": ["> Rain in Paris", "> Rain in Paris", "> "],
    "own_loop": ["> ", "Rain in Paris", "> ", "Rain in Paris", ""],
    "two_agents": ["Write hello.py"],
    "budget": ["> Hello", "> And you?", "> ", "tokens; 0 omissions"],
    "fork": ["Say it again", "Say it again"],
    "search": ["chat 2 Hello Paris"],
    "at_once": ["['Hello from Paris', 'Hello from London', 'Hello from Rome']"],
    "export": ['"content": "Hello Paris"', '{"stenolog":1,"conversation":"chat"'],
    "projection": ["4"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with openai_server() as running:
        yield running


def ran(program: Path, folder: Path, server: Server, typed: str = "Hello\nAnd you?\n\n") -> str:
    """Return what a program prints, and check that it ends well."""
    env = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    env |= {"OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONPATH": str(FOLDER.parents[1])}
    command = python(str(program))
    done = subprocess.run(
        command, cwd=folder, env=env, input=typed, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_says(name: str, tmp_path: Path, server: Server) -> None:
    if name in ("fork", "search", "export", "projection"):
        ran(FOLDER / "chat.py", tmp_path, server, "Hello Paris\n\n")

    said = ran(PROGRAMS[name], tmp_path, server)

    for words in SAID[name]:
        assert words in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "peer", [path for paths in PEERS.values() for path in paths], ids=lambda path: path.stem
)
def test_a_peer_does_the_same(peer: Path, tmp_path: Path, server: Server) -> None:
    assert ran(peer, tmp_path, server).strip()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_is_longer_than_the_same_with_a_peer(name: str) -> None:
    for peer in PEERS[name]:
        assert lines(PROGRAMS[name]) <= lines(peer), peer.stem
