"""Two versions of a team at once: the one that began last runs, and cards do not change back and forth."""

from __future__ import annotations

import pytest

import stenolog
from stenolog import Agent, Conversation, Log, ModeSwitch, Team
from stenolog.apps.workers import worker
from stenolog.apps.workers.status import WorkersStatus, workers_status
from stenolog.models import Scripted
from stenolog.workers import submit
from tests.workers.given import texts, until, working


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HAND_BACK", 0.1)


def version(number: int) -> Team:
    """Return a version of a team, which answers with its number."""
    answers = [f"I am {number}."] * 20
    return Team([Agent("coder", llm=Scripted(*answers), persona=f"You are version {number}.")])


def personas(conversation: Conversation) -> list[str]:
    """Return the personas that were recorded, in order."""
    switches = [entry.event for entry in conversation if isinstance(entry.event, ModeSwitch)]
    return [card.persona for switch in switches for card in switch.cards.values() if card]


async def ask(log: Log, number: int) -> None:
    """Submit a message, and wait for one more answer."""
    before = len(texts(log["demo"]))
    await submit(log["demo"], f"Message {number}")
    await until(lambda: len(texts(log["demo"])) == before + 2)


@pytest.mark.slow
async def test_cards_change_once_in_a_rolling_deployment_and_once_for_a_rollback(server_log: str) -> None:
    with stenolog.open(server_log) as log, stenolog.open(server_log) as other:
        async with working(log, version(1)), working(other, version(1)):
            await ask(log, 0)
            async with working(other, version(2)):
                for number in range(6):
                    await ask(log, number)
                # One of the old version that is started late is no rollback while the others of it live.
                async with working(other, version(1)):
                    await ask(log, 7)
            # The new version has ended, and the old one is left.
            await ask(log, 8)

        assert personas(log["demo"]) == [f"You are version {number}." for number in (1, 2, 1)]
        assert texts(log["demo"])[1::2] == ["I am 1.", *["I am 2."] * 7, "I am 1."]


async def test_a_rollback_is_a_version_that_begins_later(server_log: str) -> None:
    with stenolog.open(server_log) as log:
        async with working(log, version(2)):
            await ask(log, 0)
            async with working(log, version(1)):
                await ask(log, 1)

        assert texts(log["demo"])[1::2] == ["I am 2.", "I am 1."]


async def test_the_status_says_which_version_is_current_and_what_waits(server_log: str) -> None:
    with stenolog.open(server_log) as log:
        await submit(log["demo"], "What is it?", team="nobody's")
        async with working(log, version(1)):
            await until(lambda: len(status(log).workers) == 1)
            async with working(log, version(2), concurrency=7):
                await until(lambda: len(status(log).workers) == 2)
                found = status(log)

    assert [(each.is_current, each.concurrency) for each in found.workers] == [(False, 50), (True, 7)]
    assert [(queue.team, queue.waiting) for queue in found.queues] == [("nobody's", 1)]


def status(log: Log) -> WorkersStatus:
    """Return the state of the workers."""
    found = workers_status(log)
    assert found is not None
    return found
