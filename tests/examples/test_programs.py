"""The typical programs, ours and their peers', run as a user runs them, over HTTP to a server here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import stenolog
from benchmarks.examples import EXAMPLES, happened
from docs.generate_programs import PEERS, PROGRAMS, lines
from tests.examples import harness
from tests.examples.harness import clean, finished, killed, outcome, run, said
from tests.examples.openai_server import SLOWLY, openai_server
from tests.examples.web_service import PATIENCE, free_port, up
from tests.forked import python
from tests.llms.server import Server

FOLDER = Path(__file__).parents[2] / "examples" / "programs"
SAID = {
    "chat": ["> Hello", "> And you?", "> "],
    "stream": ["Hello"],
    "tools_team": ["> Rain in Paris", "> Rain in Paris", "> "],
    "own_loop": ["> ", "Rain in Paris", "> ", "Rain in Paris", ""],
    "two_agents": ["coder has handed on to you"],
    "budget": ["> Hello", "> And you?", "> ", "tokens; 0 omissions"],
    "fork": ["Say it again", "Say it again"],
    "search": ["chat 2 Hello Paris"],
    "at_once": ["['Hello from Paris', 'Hello from London', 'Hello from Rome']"],
    "export": ['"content": "Hello Paris"', '{"stenolog":1,"conversation":"chat"'],
    "projection": ["4"],
    "typed_output": ["Paris"],
    "hand_off": ['{"order":"Paris","euros":1}', "> And you?"],
    "overflow": ["> Hello", "> Hello", "> Hello", "> "],
    "fall_back": ["Hello"],
    "question": ["Which train? 1 seats at Hello"],
    "check": ["Answer without a greeting."],
    "picture": ["What is this?"],
    "memory": ["Paris", "> "],
    "evaluation": ["openai:gpt-5.2 Where is Paris?", "openai:gpt-5-mini Where is Rome?", '{"score": 0.5,'],
}
TWO = "Hello\nAnd you?\n\n"
TYPED = {"overflow": "\n".join(["Hello " * 600] * 3) + "\n\n"}
LOGGED = "Error getting response\n"
"""What the Agents SDK logs of a failed call."""
PICTURE = b"\x89PNG\r\n\x1a\n0123"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with openai_server() as running:
        yield running


def ran(program: Path, folder: Path, server: Server, typed: str = TWO) -> str:
    """Return what a program prints, and check that it ends well."""
    (folder / "loaf.png").write_bytes(PICTURE)
    command, env = python(str(program)), environment(server)
    done = subprocess.run(
        command, cwd=folder, env=env, input=typed, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.removesuffix(LOGGED)) == (0, "")
    return done.stdout


def environment(server: Server) -> dict[str, str]:
    """Return the variables by which a program asks the server here."""
    env = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    return env | {"OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONPATH": str(FOLDER.parents[1])}


@pytest.mark.parametrize("name", SAID)
def test_a_program_does_what_it_says(name: str, tmp_path: Path, server: Server) -> None:
    if name in ("fork", "search", "export", "projection"):
        ran(FOLDER / "chat.py", tmp_path, server, "Hello Paris\n\n")

    said = ran(PROGRAMS[name], tmp_path, server, TYPED.get(name, TWO))

    for words in SAID[name]:
        assert words in said


@pytest.mark.slow
@pytest.mark.parametrize("peer", [path for name in SAID for path in PEERS[name]], ids=lambda path: path.stem)
def test_a_peer_does_the_same(peer: Path, tmp_path: Path, server: Server) -> None:
    typed = next((typed for name, typed in TYPED.items() if peer.stem.startswith(name)), TWO)

    assert ran(peer, tmp_path, server, typed).strip()


@pytest.mark.parametrize(
    "program",
    [PROGRAMS["server"], *(pytest.param(peer, marks=pytest.mark.slow) for peer in PEERS["server"])],
    ids=lambda path: path.stem,
)
def test_a_server_streams_its_answers_and_stops_one(program: Path, tmp_path: Path, server: Server) -> None:
    port = free_port()
    command = ["-m", "uvicorn", f"{program.stem}:app", "--app-dir", str(program.parent)]
    options = ["--port", str(port), "--log-level", "warning"]
    with subprocess.Popen(python(*command, *options), cwd=tmp_path, env=environment(server)) as running:
        try:
            url = up(f"http://127.0.0.1:{port}", running, "/docs")
            whole = httpx.post(f"{url}/bread", params={"words": "Rye"}, timeout=PATIENCE).text
            long = {"words": f"{SLOWLY} {'on ' * 500}"}
            with httpx.stream("POST", f"{url}/cake", params=long, timeout=PATIENCE) as answer:
                pieces = answer.iter_text()
                heard = next(pieces)
                httpx.delete(f"{url}/cake", timeout=PATIENCE).raise_for_status()
                heard += "".join(pieces)
        finally:
            running.terminate()

    assert whole == "Rye"
    assert long["words"].startswith(heard)
    assert len(heard) < len(long["words"])


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


# The agent that remembers, as a person runs it: to its end, through restarts and kills.


NAME = "worker_agent"
CHILDREN = ["reader of review", "summariser of library"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a run without a kill."""
    return finished(NAME, tmp_path_factory.mktemp("done"))


def test_it_ends_with_answers_reasons_and_summaries(done: Path) -> None:
    ended: Any = outcome(NAME, done)

    assert ended["remembers"][-1] == "coder: loaves.py has 66 characters."
    assert ended["stuck"][-1] == "ended: stuck: ls({}) gave the same result 3 times"
    assert ended["walk"][-1] == "ended: max_steps: 4 steps since the last message"
    assert "ask_reader → loaves.py begins at tray 1, hence one tray too few." in ended["review"]
    assert ended["library"] == ["librarian: On the third page I read about salt."]
    assert ended["children"] == CHILDREN


def test_a_second_start_appends_nothing_and_shows_the_same(tmp_path: Path) -> None:
    first = said(NAME, tmp_path)
    with stenolog.open(tmp_path / "worker_agent.db") as log:
        before = {name: log[name].digest for name in log}
    second = said(NAME, tmp_path)
    with stenolog.open(tmp_path / "worker_agent.db") as log:
        after = {name: log[name].digest for name in log}

    assert (second, after) == (first, before)


def test_it_shows_the_steps_the_history_and_why_each_run_ended(tmp_path: Path) -> None:
    shown = said(NAME, tmp_path)

    for line in (
        "  2        1  user_message       coder\n     Which files are there?  → call_model",
        "  3        2  assistant_message  coder                2\n     I look. ls({})  → run_tools ls",
        "  4        3  tool_result        coder                3\n     loaves.py, oven.py, test_loaves.py",
        "     How long is the first one?  → call_model",
        "ended: stuck: ls({}) gave the same result 3 times",
        "ended: max_steps: 4 steps since the last message",
        "  4        2  assistant_message  lead                 3 in review-1/look",
        "settings: mode run; run review-1, node look",
        "    used 356 of the 24,951 tokens of its share",
        "  stenolog request remembers --agent coder --at 8 --db worker_agent.db",
    ):
        assert line in shown


@pytest.mark.slow
def test_a_model_that_cannot_be_started_is_said_at_the_end_and_asked_again_the_next_time(
    tmp_path: Path,
) -> None:
    code, out, errors = run(NAME, tmp_path, "--model", "cli:nosuchprog")
    said(NAME, tmp_path)

    assert code == 1
    assert "ended: nosuchprog could not be started" in out
    assert errors.startswith("✗ 3 model calls failed: other: nosuchprog could not be started")
    ended: Any = outcome(NAME, tmp_path / "worker_agent.db")
    assert ended["remembers"][-1] == "coder: loaves.py has 66 characters."
    assert ended["library"] == ["librarian: On the third page I read about salt."]


def test_another_model_on_a_log_that_is_done_changes_no_last_words(done: Path) -> None:
    _, out, _ = run(NAME, done.parent, "--model", "cli:cat")

    assert "ended: One test fails: 9 != 12." in out
    assert "ended: \n" not in out


@pytest.mark.slow
def test_killed_at_five_instants_it_ends_with_the_same_result(done: Path, tmp_path: Path) -> None:
    path = killed(NAME, tmp_path, kills=5, seed=4)

    assert outcome(NAME, path) == outcome(NAME, done)
    clean(path)


def test_its_log_is_whole_and_every_request_of_it_would_be_taken(done: Path) -> None:
    clean(done)


def test_the_worker_in_a_fork_was_sent_what_its_caller_knew_and_no_entry_was_copied(done: Path) -> None:
    with stenolog.open(done) as log:
        (name,) = (name for name in log if name.startswith("reader~"))
        entries = [*log[name].entries()]
        request = log[name].request("reader", at=entries[-2].position)

        assert "We bake one tray too few" in str(request.body)
        assert entries[3].event.kind == "mode_switch"  # the first of its own
        assert {entry.position: entry.digest for entry in entries[:3]} == {
            entry.position: entry.digest for entry in log["review"].entries(at=3)
        }
