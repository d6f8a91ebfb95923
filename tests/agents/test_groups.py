"""Process groups of agents end with their engine, and what is left of them ends before another begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import stenolog
from stenolog import LlmError
from stenolog.adapters.agents import groups
from stenolog.adapters.agents.command import SESSION, Command, inherited
from stenolog.domain.errors import CallerError
from stenolog.domain.parts import ProviderPart
from tests.agents import given
from tests.agents.given import PYTHON, asked, run, words

ROOT = Path(__file__).parents[2]
WORKER = """
import json, os, subprocess, sys, time
sys.stdin.read()
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"], start_new_session=True)
print(json.dumps({"type": "note", "text": "edit a.py"}), flush=True)
time.sleep(float(os.environ.get("KEPT", "0.6")))
with open("pids", "a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
if len(open("pids").readlines()) == 1:
    time.sleep(60)
print(json.dumps({"type": "result", "text": "done"}), flush=True)
child.kill()
"""
"""An agent that never ends by itself the first time, with a child in a session of its own."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "worker.py").write_text(WORKER)
    command = f"{sys.executable} -IS worker.py"
    (tmp_path / "team.toml").write_text(
        f'[agents.dev]\nmodel = {{ use = "cli:{command}", format = "jsonl" }}\nretries = {{ base = 0.01 }}\n'
    )
    return tmp_path


def engine(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start `stenolog run` in the folder."""
    command = [sys.executable, "-m", "stenolog", "run", "team.toml", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "STENOLOG_DB": str(folder / "talks.db")}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def at_work(folder: Path, ours: subprocess.Popen[bytes]) -> list[int]:
    """Return the agent and its child, once they are there."""
    while not (folder / "pids").exists() or not (folder / "pids").read_text().endswith("\n"):
        assert ours.poll() is None
        time.sleep(0.02)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def errors(folder: Path) -> list[LlmError]:
    with stenolog.open(folder / "talks.db") as log:
        (name,) = log.names()
        return [entry.event for entry in log[name].entries() if isinstance(entry.event, LlmError)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_agent_ends_with_its_engine_and_what_it_did_is_in_the_log(
    folder: Path, number: signal.Signals
) -> None:
    with engine(folder, "Go") as ours:
        agent, child = at_work(folder, ours)
        ours.send_signal(number)
        code = ours.wait(30)
    with engine(folder) as again:
        assert again.wait(60) == 0

    assert given.gone(agent)
    assert number != signal.SIGKILL or given.gone(child)
    assert code == (-9 if number == signal.SIGKILL else 143)
    (error,) = errors(folder)
    assert [part.raw for part in error.parts if isinstance(part, ProviderPart)] == [
        '{"type":"note","text":"edit a.py"}'
    ]
    if given.is_running(child):
        os.kill(child, signal.SIGKILL)


def test_what_outlived_engine_and_watcher_is_ended_before_another_agent_begins(folder: Path) -> None:
    with engine(folder, "Go") as ours:
        pids = at_work(folder, ours)
        for watcher in children(ours.pid, lambda line: "groups.py" in line):
            os.kill(watcher, signal.SIGKILL)
        ours.kill()
        ours.wait(30)
    alive = [given.is_running(pid) for pid in pids]
    with engine(folder) as again:
        assert again.wait(60) == 0

    assert (alive, [given.is_running(pid) for pid in pids]) == ([True, True], [False, False])


def children(parent: int, chosen: Callable[[str], bool]) -> list[int]:
    """Return the children of a process whose command line is chosen."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            line = stat.with_name("cmdline").read_bytes().decode()
        except OSError:
            continue
        if int(fields[1]) == parent and chosen(line):
            found.append(int(stat.parent.name))
    return found


def test_a_process_that_has_the_id_of_a_dead_agent_is_never_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", "import time; time.sleep(60)"], start_new_session=True
    ) as other:
        pid, boot, started, mark = groups.identity(other.pid, "its-mark").split(":")
        for stale in (f"{pid}:{boot}:{int(started) - 1}:{mark}", f"{pid}:other-boot:{started}:{mark}", ""):
            groups.end(stale)
        alive = other.poll() is None
        groups.end(f"{pid}:{boot}:{started}:{mark}")

        assert (alive, other.wait(10)) == (True, -signal.SIGKILL)


def test_the_group_that_stands_for_every_process_is_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[int]()
    monkeypatch.setattr(os, "killpg", lambda pid, _: ended.append(pid))

    groups.end(groups.identity(1, ""))

    assert ended == []


def test_a_run_under_nohup_does_not_end_with_its_terminal(folder: Path) -> None:
    ignoring = "import signal, os, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    script = f"{ignoring}; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", script, sys.executable, "-m", "stenolog", "run", "team.toml", "Go"]
    with subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}) as ours:
        at_work(folder, ours)
        ours.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        alive = ours.poll() is None
        ours.terminate()

        assert (alive, ours.wait(30)) == (True, 143)


def test_what_an_agent_does_shows_while_it_happens(folder: Path) -> None:
    with engine(folder, "Go") as ours:
        at_work(folder, ours)
        ours.terminate()
        assert ours.stdout is not None
        shown = ours.stdout.read().decode()

    assert "⚙ note: edit a.py" in shown


# The environment that programs inherit is a list.


OURS = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "https_proxy": "http://p",
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "GEMINI_API_KEY": "g",
    "TELEGRAM_BOT_TOKEN": "t",
    "DATABASE_URL": "d",
    "AWS_REGION": "r",
    "NODE_OPTIONS": "",
    "NODE_AUTH_TOKEN": "n",
}
COMMON = {"PATH", "LC_ALL", "https_proxy", "NODE_OPTIONS"}


@pytest.mark.parametrize(
    ("command", "inherit", "more"),
    [
        (["agent"], (), set()),
        (["bin/claude", "-p"], (), {"ANTHROPIC_API_KEY"}),
        (["npx", "-y", "@openai/codex", "exec"], (), {"OPENAI_API_KEY"}),
        (["gemini", "--acp"], (), {"GEMINI_API_KEY"}),
        (["claude/agent"], (), set()),
        (["agent"], ("AWS_*", "DATABASE_URL"), {"AWS_REGION", "DATABASE_URL"}),
        (["agent"], ("*",), set(OURS) - COMMON - {"TELEGRAM_BOT_TOKEN"}),
        (["agent"], ("TELEGRAM_BOT_TOKEN",), {"TELEGRAM_BOT_TOKEN"}),
    ],
)
def test_a_program_inherits_what_its_login_needs_and_what_its_owner_names(
    command: list[str], inherit: tuple[str, ...], more: set[str]
) -> None:
    assert inherited(OURS, command, inherit).keys() == COMMON | more


def test_a_token_of_ours_is_not_among_what_a_program_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from stenolog.models import CommandLine

    monkeypatch.setenv("BOT_TOKEN", "123:secret")
    monkeypatch.setenv("SETTING", "named")
    show = "import os; print(os.environ.get('BOT_TOKEN'), os.environ.get('SETTING'), os.environ.get('OWN'))"
    model = CommandLine([*PYTHON, "-c", show], env={"OWN": "given"}, inherit=["SETTING"])

    assert words(run(lambda model: asked(model, ""), model)) == "None named given"


def test_one_name_that_is_no_list_is_refused() -> None:
    with pytest.raises(CallerError, match="inherit: expected a list"):
        Command.of("agent", inherit="AWS_*")


def test_a_session_that_the_log_names_is_never_read_as_an_option() -> None:
    command = Command.of("claude -p {prompt}")

    assert command.arguments("Hi", "s-1", ["--resume", SESSION])[-2:] == ["s-1", "Hi"]
    with pytest.raises(CallerError, match="which reads as an option"):
        command.arguments("Hi", "--dangerously-skip-permissions", ["--resume", SESSION])
