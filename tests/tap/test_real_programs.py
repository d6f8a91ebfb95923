"""Real programs behind a tap: each request is in the log as it was sent, in the program's own session."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog import Conversation, UserMessage
from tests.tap.clients import PROGRAMS, Program, labelled, replayed, run_all
from tests.tap.corpus import judged, recorded

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
