"""The page on the architecture names files that exist, in the order in which the data walks through them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

import stenolog
from stenolog import Agent, AgentCard, Conversation, ModeSwitch, Team, ToolCall, UserMessage
from stenolog.context import Budget
from stenolog.models import Scripted
from stenolog.projections.requests.builder import build_reference
from stenolog.testing import entries
from stenolog.tools import tool
from tests.command_line import run
from tests.postgres.server import Server
from tests.tap.running_tap import running_tap

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "stenolog"
BELOW = f"{Path(stenolog.__file__).parent}/"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
BUDGET = "projections/requests/pipeline/budget.py"
LAST_PASS = "projections/requests/builder.py: contents"
KILLED = """
import os, signal, stenolog

def sell() -> str:
    os.kill(os.getpid(), signal.SIGKILL)

script = stenolog.models.Scripted([stenolog.ToolCall(id="s1", name="sell", arguments="{}")])
team = stenolog.Team([stenolog.Agent("seller", llm=script, tools=[sell])])
team.ask_sync(stenolog.open("talks.db")["shop"], "Sell one.")
"""
NOTING = f"""
import os, sys, threading, time

file = os.open(os.path.join(os.path.dirname(__file__), f"visits-{{os.getpid()}}"), os.O_CREAT | os.O_WRONLY)
last = ""

def called(frame, event, _):
    global last
    name = frame.f_code.co_filename
    if event == "call" and name != last and name.startswith({BELOW!r}):
        last = name
        os.write(file, f"{{time.monotonic_ns():020}} {{name.removeprefix({BELOW!r})}}\\n".encode())

sys.setprofile(called)
threading.setprofile(called)
"""
"""A module by which each Python process that finds it notes the files that it enters, and when."""
NAMED = re.findall(r"`([\w.]+(?:/[\w.*<>]*)+)`", PAGE)


def test_every_file_and_folder_that_the_page_names_exists() -> None:
    """`<api>` is any format."""
    paths = [re.sub(r"<\w+>", "anthropic", name) for name in NAMED]

    assert [path for path in paths if not any([*PACKAGE.glob(path), *ROOT.glob(path)])] == []


def test_the_page_can_be_read_in_six_minutes() -> None:
    assert len(PAGE.split()) <= 1_150


def sell() -> str:
    """Sell one loaf."""
    return "sold"


def append(conversation: Conversation) -> None:
    conversation.append(UserMessage(text="Which test fails?", to=["coder"]))


def test_an_append_walks_through_the_files_as_they_are_listed(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        append(log["demo"])

    assert _missed(visits.files, "How an append becomes durable") == []


def test_an_append_after_a_known_head_enters_at_most_14_files_in_26_moves(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        conversation = log["demo"]
        append(conversation)
        append(conversation)
        with Visits() as visits:
            append(conversation)

    assert len(set(visits.files)) <= 14
    assert sum(one != other for one, other in pairwise(visits.files)) <= 26


def test_an_append_in_postgresql_walks_through_the_files_as_they_are_listed(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 15").schema() as address, stenolog.open(address) as log:
        append(log["known"])
        with Visits() as visits:
            append(log["known"])
            append(log["new"])

    assert _missed(visits.files, "An append in PostgreSQL") == []


def test_a_read_walks_through_the_files_as_they_are_listed(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        append(log["demo"])
    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        assert [entry.position for entry in log["demo"].entries()] == [1, 2]

    assert _missed(visits.files, "How an entry is read") == []


def test_a_request_passes_its_stages_as_they_are_listed() -> None:
    """Stage 7 works after each entry, and so is looked for by itself."""
    listed = _listed("How a request is built")
    card = ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2")})
    log = entries(card, *(UserMessage(text=f"{number}: which test fails?") for number in range(8)))
    with Visits() as visits:
        built = build_reference(log, "coder", policy=Budget(tokens=100))
    last_pass = max(at for at, call in enumerate(visits.calls) if call == LAST_PASS)
    stages = [name for name in dict.fromkeys(visits.files[last_pass:]) if name in listed and name != BUDGET]

    assert built.cuts
    assert listed[6] == BUDGET
    assert stages == [name for name in listed if name != BUDGET]


def test_no_program_runs_the_builder_that_is_the_definition() -> None:
    importing = [
        path
        for path in PACKAGE.rglob("*.py")
        if re.search(r"requests[.]builder|[.]builder import", path.read_text())
    ]

    assert importing == []


def test_a_program_takes_the_quick_way_as_it_is_listed() -> None:
    with stenolog.open(":memory:") as log:
        append(log["demo"])
        with Visits() as visits:
            log["demo"].request("coder")

    assert _missed(visits.files, "What programs run") == []


async def _run(team: Team, conversation: Conversation, *said: str) -> None:
    async for _ in team.run(conversation, *said):
        pass


def test_a_turn_with_a_tool_that_asks_first_walks_through_the_files_as_they_are_listed(
    tmp_path: Path,
) -> None:
    model = Scripted([ToolCall(id="s1", name="sell", arguments="{}")], "Sold.")

    async def work(conversation: Conversation) -> None:
        async with Team(
            [Agent("seller", llm=model, tools=[tool(approval=True)(sell)])], paranoid=True
        ) as team:
            await _run(team, conversation, "Sell one.")
            [call] = await team.pending_approvals(conversation)
            await team.approve(conversation, call.call)
            await _run(team, conversation)

    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        asyncio.run(work(log["shop"]))
        assert "Sold." in log["shop"].export("jsonl")

    assert _missed(visits.files, "The engine's loop") == []


def test_a_run_after_a_kill_walks_through_the_files_as_they_are_listed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        team = Team([Agent("seller", llm=Scripted("Sold."), tools=[sell])])
        asyncio.run(_run(team, log["shop"]))
        claims = log.claims()

    assert ended.returncode == -9
    assert claims == []
    assert _missed(visits.files, "After `kill -9`") == []


def test_a_request_that_the_tap_records_walks_through_the_files_as_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process of the tap notes the files that it enters, with the time."""
    (tmp_path / "sitecustomize.py").write_text(NOTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with running_tap(tmp_path, lambda *arguments: [sys.executable, *arguments]) as tap:  # which finds NOTING
        body = b'{"model": "gpt-5.2", "messages": [{"role": "user", "content": "Hello"}]}'
        request = urllib.request.Request(
            tap.urls["openai"] + "/chat/completions", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).read()
    with Visits() as visits:
        status = run(["check", "log", "--requests", "--db", str(tap.database)])

    assert status == 0
    notes = sorted(
        line.split() for path in tmp_path.glob("visits-*") for line in path.read_text().splitlines()
    )
    assert _missed([*(name for _, name in notes), *visits.files], "A request that the tap records") == []


class Visits:
    """The files of the package in which functions are called, in any thread, in order."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.calls: list[str] = []

    def __enter__(self) -> Visits:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(BELOW):
            self.files.append(name.removeprefix(BELOW))
            self.calls.append(f"{self.files[-1]}: {frame.f_code.co_name}")


def _listed(section: str) -> list[str]:
    """Return the files that begin the items of a numbered list, or a sentence of one, in order."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    items = re.findall(r"^\d+\. .*(?:\n   .*)*", text, re.MULTILINE)
    return [name for item in items for name in re.findall(r"(?:^\d+\.|;|\.)\s+`([\w/]+\.py)`", item)]


def _missed(visited: list[str], section: str) -> list[str]:
    """Return the files of a list that are not visited after those listed before them."""
    at, missed = 0, list[str]()
    for name in _listed(section):
        try:
            at = visited.index(name, at)
        except ValueError:
            missed.append(name)
    return missed if at else [section]
