"""Faults that were planted on purpose are found, each within a thousand seeds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.engine import agent, checks
from stenolog.adapters.engine.handoff import HandoffTool
from stenolog.adapters.engine.journal import recovery
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.runner import judging, tool_run
from stenolog.adapters.store.sqlite import appends as sqlite_appends
from stenolog.adapters.store.sqlite.statements import claim_rows
from stenolog.adapters.store.sqlite.turn.transaction import Transaction
from stenolog.domain.lanes import triggers
from tests.postgres.in_schemas import is_chosen
from tests.simulation.simulation import Outcome, simulate

ENOUGH = 1_000
"""Each of them is found within so many seeds."""


def lost_fence(patch: pytest.MonkeyPatch) -> None:
    """Append an effect's result though another process has taken it over."""

    def settle(connection: sqlite3.Connection, fence: int) -> None:
        connection.execute(claim_rows.DELETE, (fence,))

    patch.setattr(sqlite_appends, "settle", settle)


def lost_fence_in_postgres(patch: pytest.MonkeyPatch) -> None:
    """Do what `lost_fence` does, in the other store."""
    from stenolog.adapters.store.postgres import appends
    from stenolog.adapters.store.postgres.statements import claim_rows

    write = appends.write_behind

    def write_anyway(connection: Any, key: int, records: Any, fence: int | None) -> bool:
        is_written = write(connection, key, records, None)
        if is_written and fence is not None:
            claim_rows.delete(connection, fence)
        return is_written

    patch.setattr(appends, "write_behind", write_anyway)
    patch.setattr(appends, "settle", claim_rows.delete)


def skipped_commit(patch: pytest.MonkeyPatch) -> None:
    """Report some transactions as committed that are not."""
    commit, number = Transaction.commit, count(1)

    def skip(self: Any) -> None:
        if next(number) % 50 == 0 and self._store.writer.in_transaction:
            self._store.writer.execute("ROLLBACK")
        commit(self)

    patch.setattr(Transaction, "commit", skip)


def stale_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Take a snapshot for newer than it is, so that the entries between are skipped."""
    load = folds.load_checkpoint

    def stale(conversation: Any, kept: Any, at: int | None) -> Any:
        state, position = load(conversation, kept, at)
        return state, position + 1 if position else 0

    patch.setattr(folds, "load_checkpoint", stale)


def forgotten_end(patch: pytest.MonkeyPatch) -> None:
    """Call an agent's model though a tool has ended its run."""
    resulted = triggers._resulted

    def forgetful(*given: Any) -> triggers.Interpretation:
        found = resulted(*given)
        impulses = [each._replace(lane=each.lane._replace(has_ended=False)) for each in found.impulses]
        return found._replace(impulses=tuple(impulses))

    patch.setattr(triggers, "_resulted", forgetful)


def forgotten_answer(patch: pytest.MonkeyPatch) -> None:
    """Run a tool again after a person's answer as though there was none."""
    patch.setattr(tool_run, "answered_questions", lambda *_: [])


def forgotten_verdict(patch: pytest.MonkeyPatch) -> None:
    """Take every answer, whatever its type and the checks say."""

    async def judged(judge: Any, answer: Any) -> Any:
        return answer

    patch.setattr(judging.AnswerJudge, "judged", judged)


def forgotten_verdict_on_calls(patch: pytest.MonkeyPatch) -> None:
    """Run every call and take every result, whatever the checks say."""
    judge = checks.StageCheck.judge

    async def ignored(check: Any, *subject: Any) -> Any:
        given = await judge(check, *subject)
        return None if check.stage in ("before_call", "after_result") else given

    patch.setattr(checks.StageCheck, "judge", ignored)


def forgotten_edit(patch: pytest.MonkeyPatch) -> None:
    """Append an answer without the one that a check put in its place."""
    patch.setattr(judging.AnswerJudge, "edits", lambda *_: ())


def forgotten_message(patch: pytest.MonkeyPatch) -> None:
    """Append the result of a hand-off without the message to who takes over."""
    patch.setattr(HandoffTool, "following", lambda *_: ())


def stop_on_record(patch: pytest.MonkeyPatch) -> None:
    """Record each call that its program stopped, also if nothing had come of it."""
    patch.setattr(recovery, "Drafted", lambda: None)


def forgotten_patch(patch: pytest.MonkeyPatch) -> None:
    """Start with the program's own cards, whatever was set at work."""
    patch.setattr(agent, "with_patches", lambda card, known, gone=(): card)


def first_model(patch: pytest.MonkeyPatch) -> None:
    """Call an agent's first model though its card names another."""
    patch.setattr(agent.Agent, "model_of", lambda self, card: self.llm)


def forgotten_limit(patch: pytest.MonkeyPatch) -> None:
    """Send what is known to be too long."""
    request = Journal._request

    def anyway(journal: Any, effect: Any) -> Any:
        made = request(journal, effect)
        if not isinstance(made, tuple) or made[0] != "context_length":
            return made
        model = journal.model_of(effect.lane.agent)
        return journal.conversation.request(effect.lane.agent, api=model.api, task=effect.lane.task)

    patch.setattr(Journal, "_request", anyway)


@pytest.mark.about_file("the faults are planted in its transactions")
@pytest.mark.parametrize(
    "plant",
    [
        lost_fence,
        pytest.param(skipped_commit, marks=(pytest.mark.slow, pytest.mark.nightly)),  # a long story
        stale_snapshot,
        forgotten_end,
        forgotten_answer,
        forgotten_verdict,
        forgotten_verdict_on_calls,
        forgotten_edit,
        forgotten_message,
        stop_on_record,
        forgotten_patch,
        first_model,
        forgotten_limit,
    ],
)
def test_a_planted_fault_is_found_within_a_thousand_seeds(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    found = first_failure()

    assert found.fault, f"{plant.__name__} was not found in {ENOUGH} seeds"


@pytest.mark.skipif(not is_chosen(), reason="it is a fault of PostgreSQL's store: --log postgresql")
def test_a_fault_planted_in_postgres_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_fence_in_postgres(monkeypatch)

    assert first_failure().fault


def first_failure() -> Outcome:
    """Return the outcome of the first seed that fails, or of the last one."""
    for seed in range(1, ENOUGH + 1):
        outcome = simulate(seed)
        if outcome.fault:
            return outcome
    return outcome
