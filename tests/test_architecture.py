"""The page on the architecture names files that exist, in the order in which the data walks through them."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import stenolog
from stenolog import Agent, AgentCard, Conversation, ModeSwitch, Team, UserMessage
from stenolog.context import Budget
from stenolog.models import Scripted
from stenolog.projections.requests.builder import build_reference
from stenolog.testing import entries

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "stenolog"
BELOW = f"{Path(stenolog.__file__).parent}/"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
BUDGET = "projections/requests/pipeline/budget.py"
LAST_PASS = "projections/requests/builder.py: contents"
FILES = re.findall(r"`([\w/]+\.py)`", PAGE)


def test_every_file_that_the_page_names_exists() -> None:
    assert [name for name in FILES if not (PACKAGE / name).is_file()] == []


def test_the_page_can_be_read_in_five_minutes() -> None:
    assert len(PAGE.split()) <= 900


def append(conversation: Conversation) -> None:
    conversation.append(UserMessage(text="Which test fails?", to=["coder"]))


def run(conversation: Conversation) -> None:
    async def work() -> None:
        team = Team([Agent("coder", llm=Scripted("test_dates"))], paranoid=True)
        async for _ in team.run(conversation, "Which test fails?"):
            pass

    asyncio.run(work())


@pytest.mark.parametrize(
    ("section", "walk"), [("How an append becomes durable", append), ("The engine's loop", run)]
)
def test_the_data_walks_through_the_files_as_they_are_listed(
    tmp_path: Path, section: str, walk: Callable[[Conversation], None]
) -> None:
    listed = _listed(section)
    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        walk(log["demo"])

    assert len(listed) == 10
    assert _missed(visits.files, listed) == []


def test_a_read_walks_through_the_files_as_they_are_listed(tmp_path: Path) -> None:
    listed = _listed("How an entry is read")
    with stenolog.open(tmp_path / "talks.db") as log:
        append(log["demo"])
    with stenolog.open(tmp_path / "talks.db") as log, Visits() as visits:
        assert [entry.position for entry in log["demo"].entries()] == [1, 2]

    assert len(listed) == 5
    assert _missed(visits.files, listed) == []


def test_a_request_passes_its_stages_as_they_are_listed() -> None:
    """Stage 7 works after each entry, and so stands by itself here."""
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


def test_a_program_takes_the_quick_way_as_it_is_listed() -> None:
    listed = _listed("What programs run")
    with stenolog.open(":memory:") as log:
        append(log["demo"])
        with Visits() as visits:
            log["demo"].request("coder")
    order = [name for name in dict.fromkeys(visits.files) if name in listed]

    assert sorted(order) == sorted(listed)
    assert order[0] == listed[0]


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
    """Return the files of a numbered list, in its order."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)


def _missed(visited: list[str], listed: list[str]) -> list[str]:
    """Return the files that are not visited after those listed before them."""
    at, missed = 0, []
    for name in listed:
        try:
            at = visited.index(name, at)
        except ValueError:
            missed.append(name)
    return missed
