"""What one lane has seen, how that is known, and what of it another has not."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, ModeSwitch, UserMessage
from stenolog.context import SinceLastTurn
from stenolog.errors import AgentNotFoundError
from stenolog.events import Receipt
from stenolog.projections.analysis.knowledge import PROOFS, Seen, seen, view
from stenolog.projections.requests import LaneId, build
from stenolog.testing import entries
from tests.analysis.crew import Pen, crew

CREW = crew()
CODER, REVIEWER, PLANNER = LaneId("coder"), LaneId("reviewer"), LaneId("planner")


def known(found: tuple[Seen, ...]) -> list[tuple[int, str, int]]:
    """Return each as its position, the proof, and the answer that gives it."""
    return [(each.position, each.proof, each.by) for each in found]


def test_what_stood_in_a_request_that_a_receipt_proves_was_seen_though_it_has_been_cut_since() -> None:
    now = {position for part in build(CREW, "coder").parts for position in part.positions}

    assert now & {3, 5, 6} == set()
    assert known(view(CREW, CODER, REVIEWER)) == [
        (3, "receipt", 4),
        (5, "receipt", 7),
        (6, "receipt", 7),
        (9, "receipt", 10),
        (11, "receipt", 12),
    ]


def test_each_says_by_which_rule_it_is_kept_from_the_other() -> None:
    assert {each.unseen_by for each in view(CREW, CODER, REVIEWER)} == {"not-addressed"}


def test_own_words_are_known_and_what_was_not_sent_yet_is_only_next() -> None:
    found = {each.position: each.proof for each in seen(CREW, CODER)}

    assert [at for at, proof in found.items() if proof == "own"] == [4, 7, 10, 12]
    assert [at for at, proof in found.items() if proof == "next"] == [13, 14]
    assert 1 not in found


def test_a_lane_has_seen_nothing_that_it_has_not() -> None:
    assert view(CREW, PLANNER, PLANNER) == ()


def test_a_receipt_of_other_bytes_proves_less() -> None:
    log = entries(
        UserMessage(text="Hello", to=("coder",)),
        AssistantMessage(agent="coder", text="Hi", receipt=Receipt(view=1, sha256="0" * 64)),
        UserMessage(text="For coder"),
    )

    assert known(seen(log, CODER)) == [(1, "rebuilt", 2), (2, "own", 2), (3, "next", 0)]


def test_each_receipt_is_built_again_on_its_own_wire_and_under_its_own_policy() -> None:
    log = entries(UserMessage(text="One"), AssistantMessage(agent="coder", text="1"), UserMessage(text="Two"))
    receipts = [
        build(log, "coder", api="gemini").receipt,
        build(log, "coder", api="anthropic", policy={"history": {"kind": "last", "n": 1}}).receipt,
    ]
    for receipt, first in zip(receipts, ((1, "receipt", 4), (1, "next", 0)), strict=True):
        answered = [
            *(entry.event for entry in log),
            AssistantMessage(agent="coder", text="2", receipt=receipt),
        ]

        assert known(seen(entries(*answered), CODER))[0] == first
        assert known(seen(entries(*answered), CODER))[2] == (3, "receipt", 4)


def test_an_answer_without_a_receipt_proves_the_position_that_it_answers_and_no_more() -> None:
    log = entries(
        UserMessage(text="One"),
        UserMessage(text="Two"),
        AssistantMessage(agent="coder", text="12", cause=2),
    )

    assert known(seen(log, CODER)) == [(1, "next", 0), (2, "cause", 3), (3, "own", 3)]


def test_what_a_backend_has_already_is_seen_though_the_next_request_leaves_it_out() -> None:
    pen = Pen(ModeSwitch(joins=("coder",)), UserMessage(text="One"))
    pen.write(AssistantMessage(agent="coder", text="1", session="s"), UserMessage(text="Two"))

    assert known(seen(pen.log, CODER, policy=SinceLastTurn())) == [
        (2, "delivered", 0),
        (3, "own", 3),
        (4, "next", 0),
    ]


def test_every_proof_says_what_it_means() -> None:
    used: set[Any] = {each.proof for lane in (CODER, REVIEWER) for each in seen(CREW, lane)}

    assert used <= set(PROOFS)


def test_nobody_of_that_name_is_refused() -> None:
    with pytest.raises(AgentNotFoundError, match="no agent 'nobody'"):
        view(CREW, CODER, LaneId("nobody"))
