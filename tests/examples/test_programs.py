"""The ten typical programs, ours and their peers', run as a user runs them, over HTTP to a server here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.examples import EXAMPLES, happened
from docs.generate_programs import PEERS, PROGRAMS, lines
from tests.examples import harness
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


# What every example is started by: how it ends where something is wrong, or nobody reads on.


NAMES = ("neurocrew", "tenex")


def ended(code: str, reads: int = -1) -> tuple[int, str, str]:
    """Return how a program with such a `main` ends; so many lines of its output are read."""
    program = f"import sys\nfrom examples.shell import run\ndef main():\n    {code}\nrun(main)"
    with subprocess.Popen(
        python("-c", program),
        cwd=harness.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin, "a pipe"
        assert process.stdout, "a pipe"
        assert process.stderr, "a pipe"
        out = process.stdout.read() if reads < 0 else "".join(process.stdout.readline() for _ in range(reads))
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read()
    return process.returncode, out, errors


def test_what_it_returns_is_its_exit_code() -> None:
    assert ended("print('done')") == (0, "done\n", "")
    assert ended("return 3") == (3, "", "")


def test_an_error_is_one_line() -> None:
    assert ended("open('no/such')") == (1, "", "✗ [Errno 2] No such file or directory: 'no/such'\n")
    assert ended("import stenolog; raise stenolog.errors.CallerError('so\\n so')") == (1, "", "✗ so so\n")


def test_ctrl_c_is_an_end() -> None:
    assert ended("raise KeyboardInterrupt") == (130, "", "\n")


def test_where_nobody_reads_on_it_ends_and_says_nothing() -> None:
    assert ended("for n in range(99999): print(n)", reads=2) == (0, "0\n1\n", "")
    assert ended("print('x' * 50); sys.stdin.readline()", reads=0) == (0, "", "")


@pytest.mark.about_file("a path without a folder")
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_a_log_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        python("-m", f"examples.{name}", "--db", str(tmp_path / "no" / "such.db")),
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"✗ {tmp_path}/no/such.db: the directory {tmp_path}/no does not exist\n"


# Killed in the first, the middle and the last third of its run, each example ends as it does unkilled.


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_killed_in_each_third_of_its_run_it_ends_with_the_same(name: str) -> None:
    story = happened(name, 3)

    assert story.faults == []
    assert story.kills >= 3
