"""The reason for every part of a request, on every API."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.context import Prompt, SinceLastTurn
from stenolog.errors import AgentNotFoundError
from stenolog.events import Receipt
from stenolog.parts import ImagePart
from stenolog.projections.analysis.explain import left_out, why
from stenolog.projections.analysis.knowledge import PROOFS, Seen, seen, view
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.readable import text_of
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import LaneId, build
from stenolog.testing import entries
from tests.analysis.crew import Pen, crew

CREW = crew()
LOG = entries(
    UserMessage(text="List the files", to=("coder",)),
    AssistantMessage(
        agent="coder", text="I look.", tool_calls=[ToolCall(id="c", name="shell", arguments='{"cmd":"ls"}')]
    ),
    ToolResult(call_id="c", text="a.py"),
    UserMessage(parts=(TextPart(text="And this?"), ImagePart(url="https://example.org/cat.png"))),
)


@pytest.mark.parametrize("api", FORMATS)
def test_every_part_has_a_rule_that_says_what_it_does_and_the_words_it_became(api: str) -> None:
    request = build(CREW, "coder", api=api)
    reasons = why(request, CREW)

    assert [(one.message, one.rule, one.positions) for one in reasons] == [
        (part.message, part.rule, part.positions) for part in request.parts
    ]
    assert [one.rule for one in reasons if not (one.does and one.text.strip())] == []


@pytest.mark.parametrize("api", FORMATS)
def test_the_words_are_those_of_the_body_on_every_wire(api: str) -> None:
    said = "\n".join(one.text for one in why(build(LOG, "coder", api=api), LOG))

    assert [
        each for each in ("List the files", "I look.", "shell", "ls", "a.py", "And this?") if each not in said
    ] == []


def test_a_part_that_shares_its_message_shows_what_the_entry_said() -> None:
    log = entries(
        UserMessage(text="One"), UserMessage(text="Two"), AssistantMessage(agent="coder", text="Hm")
    )
    reasons = why(build(log, "coder", api="anthropic"), log)

    assert [(one.message, one.text) for one in reasons][:2] == [(0, "One"), (0, "Two")]


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("place", ["first", "last"])
def test_each_text_around_the_conversation_shows_itself_and_not_what_set_it(
    api: str, place: Literal["first", "last"]
) -> None:
    ruled = Prompt(
        base="Be brief.",
        tools="Ask first.",
        modes={"chat": "Talk; call no tools."},
        banner="Mode: {mode}.",
        place=place,
    )
    card = AgentCard(persona="You mend.", policy=(ruled,))
    log = entries(ModeSwitch(mode="chat", joins=["coder"], cards={"coder": card}), UserMessage(text="Hello"))
    said = {one.rule: one.text for one in why(build(log, "coder", api=api), log)}

    assert {rule: text for rule, text in said.items() if rule != "user"} == {
        "base-rules": "Be brief.",
        "tool-policy": "Ask first.",
        "persona": "You mend.",
        "mode-rules": "Talk; call no tools.",
        "mode-banner": "Mode: chat.",
    }


def test_the_names_of_the_tools_stand_for_them() -> None:
    tools = [one for one in why(build(CREW, "coder"), CREW) if one.role == "tools"]

    assert [(one.message, one.text) for one in tools] == [(-1, "shell, deploy")]


def test_what_was_left_out_is_runs_with_rule_and_tokens_and_what_the_first_said() -> None:
    request = build(CREW, "coder")
    gone = left_out(request, CREW)

    assert [(run.first, run.last, run.rule, run.tokens) for run in gone] == [
        (run.first, run.last, run.rule, run.tokens) for run in request.omissions
    ]
    assert [run.does for run in gone] == [RULES[run.rule] for run in request.omissions]
    assert gone[0].text == "Make the parser faster, then ship it."


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("plain", "plain"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}, "a"),
        ({"content": None, "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]}, "→ ls({})"),
        ({"type": "tool_use", "name": "ls", "input": {"at": 1}}, '→ ls({"at":1})'),
        ({"type": "function_call", "name": "ls", "arguments": "{}"}, "→ ls({})"),
        ({"type": "function_call_output", "output": "a.py"}, "a.py"),
        ({"parts": [{"functionCall": {"name": "ls", "args": {}}}]}, "→ ls({})"),
        ({"parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]}, '{"output":"a"}'),
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, "(thinks: hm)"),
        ({"type": "refusal", "refusal": "no"}, "no"),
        (7, ""),
    ],
)
def test_the_words_of_a_message_are_read_in_the_shape_of_every_api(shape: object, said: str) -> None:
    assert text_of(shape) == said


# What one lane has seen, how that is known, and what of it another has not.


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
