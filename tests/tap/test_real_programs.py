"""Real programs behind a tap: each request is in the log as it was sent, in the program's own session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog import Conversation, UserMessage
from tests.requests.corpus import TRANSCRIPTS
from tests.tap.clients import CLAUDE, CODEX, PROGRAMS, Program, Runs, home_of, labelled, replayed, run_all
from tests.tap.corpus import judged, recorded
from tests.tap.running_tap import ROOT, provider_process

WANTED = "STENOLOG_REAL_AGENTS"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        WANTED not in os.environ,
        reason=f"real programs are 1.2 GB from npm: set {WANTED}=1 to install and test them",
    ),
]
LEAST = 20
"""Requests that each of them sends."""
NAMELESS = ("gemini",)
"""Programs that send no ids."""


DERIVED = {"claude": 0.9, "codex": 0.6}
"""The part of a program's requests that follows from entries and cards, at least.

The first request of each run of Codex has what no card has: the names of the groups of its tools.
"""


def said_in(conversation: Conversation) -> Iterator[tuple[str, ...]]:
    """Yield each thing that was said to an agent: the conversation, the agent, the words."""
    for entry in conversation.entries():
        # What a client adds by itself, it adds again after a compaction.
        if isinstance(entry.event, UserMessage) and entry.event.author_kind != "system":
            yield (conversation.name, *entry.event.to, entry.event.author_kind, entry.event.text)


class Ran(NamedTuple):
    """A program that ran, and what its provider met."""

    program: Program
    folder: Path
    exchanges: list[dict[str, Any]]


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp(request.param.name)
    return Ran(request.param, folder, run_all(folder, [request.param]))


def test_requests_of_a_program_are_in_the_log_as_they_were_sent(ran: Ran) -> None:
    with stenolog.open(ran.folder / "log.db") as log:
        verdict = judged([*labelled(ran.exchanges)], recorded(log))

    assert verdict.requests >= LEAST
    assert (verdict.missing, verdict.differs, verdict.merged) == (0, 0, 0), verdict.wrong
    assert ran.program.name in NAMELESS or verdict.split == 0, verdict.wrong
    with stenolog.open(ran.folder / "log.db") as log:
        said = Counter(words for name in log.names() for words in said_in(log[name]))
        tools = [
            len(card.tools or ()) for name in log.names() for card in log[name].settings().cards.values()
        ]
    assert {words: count for words, count in said.items() if count > 1} == {}
    assert max(tools) > 1
    if least := DERIVED.get(ran.program.name):
        grades = sum(verdict.grades.values(), Counter[str]())
        assert grades["derived"] / grades.total() >= least, grades


def test_requests_of_a_program_without_its_ids_are_never_in_another_session(ran: Ran) -> None:
    sent, verdict = replayed(ran.exchanges, ran.folder / "replayed.db")

    # Two sessions begin by the same words at the same moment: without ids nobody can tell whose title it is.
    merged = [one for one in verdict.wrong if one.startswith("merged") and " title " not in one]
    assert len(sent) >= LEAST
    assert (verdict.missing, verdict.differs, merged) == (0, 0, []), verdict.wrong


AT_TAP = """
mkdir -p ~/.pi/agent
echo '{"providers": {"anthropic": {"baseUrl": "'$ANTHROPIC_BASE_URL'"}}}' > ~/.pi/agent/models.json
exec pi -p --provider anthropic --model claude-sonnet-4-5 --session "$@"
"""
"""A command for pi, which reads base URLs from a file."""
RESUMING = {
    "claude-code": (*CLAUDE, "--resume"),
    "codex": (*CODEX, "resume"),
    "pi": ("sh", "-c", AT_TAP, "pi"),
}
LEFT_OUT = {"claude-code": "exec_command ", "codex": "<permissions instructions>|# AGENTS.md"}
"""Parts that a program does not go on with: calls that still wait; instructions, which Codex says anew."""
TALKS = {
    "session": ROOT / "docs" / "examples" / "session.jsonl",
    "rollout": TRANSCRIPTS / "codex" / "rollout-e598363d10f4.jsonl",
}


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("program", RESUMING)
def test_a_moved_conversation_is_in_the_first_request_of_the_program_that_resumes_it(
    tmp_path: Path, program: str, talk: str
) -> None:
    if not TALKS[talk].exists():
        pytest.skip("the recorded sessions are not beside this checkout")
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)

    def ran(*words: str) -> Any:
        command = [sys.executable, "-m", "stenolog", *words, "--db", str(tmp_path / "log.db"), "--json"]
        env = {**home_of(work.parent), "PYTHONPATH": str(ROOT)}
        found = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
        return json.loads(found.stdout)["data"]

    ran("import", str(TALKS[talk]), "--name", "talk")
    session = ran("move", "talk", "--to", program)["session"]
    with provider_process(tmp_path / "provider.jsonl") as provider:
        resuming = Program(program, (*RESUMING[program], session), ())
        Runs(tmp_path, provider).run(resuming, resuming.first, "Go on, please.", work)
    (recording,) = (each["name"] for each in ran("ls") if each["name"] != "talk")
    checked = ran("move", "talk", "--to", program, "--check", "--sent", recording)

    lost = [each["text"] for each in checked["differences"] if each["sign"] != "+"]
    assert checked["found"] > 5
    assert [text for text in lost if not re.match(LEFT_OUT.get(program, "$"), text)] == []
