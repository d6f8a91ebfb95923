"""Who is asked under each rule of turns; the names are those of the members."""

from __future__ import annotations

import pytest

from stenolog import Event, ModeSwitch, ToolResult
from stenolog.domain.lanes.turns import has_news
from stenolog.engine import ByAddress, Orchestrator, Parallel, RoundRobin, Sequential
from stenolog.testing import START
from tests.domain.talking import (
    GO_ON,
    HI,
    PASS,
    STOP,
    after,
    asked,
    called,
    control,
    course,
    failed,
    left,
    opened,
    passed,
    said,
)

BY_ADDRESS: dict[str, tuple[list[Event], str]] = {
    "who joins late is asked what nobody was there for": ([HI, opened(None, "a")], "- a"),
    "all are asked where no rule is set": ([opened(None), HI], "- a+b+c"),
    "all are asked by address": ([opened(ByAddress()), HI], "- a+b+c"),
    "the default is asked": ([opened(ByAddress(["b"])), HI, said("b")], "- b -"),
    "another default once it has left": (
        [opened(ByAddress(["b"])), left("b"), HI],
        "- - a+c",
    ),
    "answers hand on by address": (
        [opened(ByAddress(["a"])), HI, said("a", to=["b"]), said("b", to=["a"])],
        "- a b a",
    ),
    "answers hand on to a task of a member": ([opened(None), said("a", to=["b/docs"])], "- b/docs"),
}
ROUND_ROBIN: dict[str, tuple[list[Event], str]] = {
    "it begins with those who join late": (
        [ModeSwitch(turns=RoundRobin()), HI, ModeSwitch(joins=["a", "b"]), said("a")],
        "- - a b",
    ),
    "each answer gives the turn to the next": (
        [opened(RoundRobin()), HI, said("a"), said("b"), said("c"), said("a")],
        "- a b c a b",
    ),
    "a person's words go to the one after who had it last": (
        [opened(RoundRobin(max_rounds=1), "a", "b"), HI, said("a"), STOP, HI, said("a")],
        "- a b - a b",
    ),
    "in an order of its own": (
        [opened(RoundRobin(["c", "a"], max_rounds=1)), HI, said("c"), said("a")],
        "- c a - (max_rounds: 1)",
    ),
    "it ends after so many rounds": (
        [opened(RoundRobin(max_rounds=2), "a", "b"), HI, said("a"), said("b"), said("a"), said("b")],
        "- a b a b - (max_rounds: 2)",
    ),
    "it ends when all pass in a row": (
        [opened(RoundRobin(pass_token=PASS)), HI, passed("a"), said("b"), passed("c"), passed("a")],
        "- a b c a - (all others passed)",
    ),
    "it ends when all pass at once": (
        [opened(RoundRobin(pass_token=PASS)), HI, passed("a"), passed("b"), passed("c")],
        "- a b c - (all passed in a row)",
    ),
    "what looks like a pass is none without a token": (
        [opened(RoundRobin(), "a", "b"), HI, passed("a"), passed("b"), passed("a")],
        "- a b a b",
    ),
    "an answer that calls tools is no pass": (
        [
            opened(RoundRobin(pass_token=PASS), "a", "b"),
            HI,
            called("a", PASS),
            ToolResult(call_id="a1"),
            said("a"),
        ],
        "- a a a b",
    ),
    "it ends when the moderator passes": (
        [opened(RoundRobin(pass_token=PASS, moderator="b")), HI, said("a"), passed("b")],
        "- a b - (b, who moderates, passed)",
    ),
    "not when another passes": (
        [opened(RoundRobin(pass_token=PASS, moderator="b")), HI, passed("a"), said("b"), passed("c")],
        "- a b c a",
    ),
    "a failure passes the turn on": (
        [opened(RoundRobin()), HI, failed("a"), said("b")],
        "- a b c",
    ),
    "a failure that is tried again does not": (
        [opened(RoundRobin()), HI, failed("a", "overloaded", retry_at=START), said("a")],
        "- a a b",
    ),
    "it ends when all fail in a row": (
        [opened(RoundRobin()), HI, failed("a"), failed("b"), failed("c")],
        "- a b c - (all failed in a row)",
    ),
    "it ends when those who do not fail pass": (
        [opened(RoundRobin(pass_token=PASS), "a", "b"), HI, failed("a"), passed("b")],
        "- a b - (nobody said anything new: 1 passed, 1 failed)",
    ),
    "whoever has heard nothing new is passed over": (
        [opened(RoundRobin(), "a", "b"), HI, said("a"), failed("b")],
        "- a b - (nobody said anything new: 0 passed, 1 failed)",
    ),
    "one alone answers once": (
        [opened(RoundRobin(), "a"), HI, said("a")],
        "- a - (nobody else is there to answer)",
    ),
    "a turn with tools is one turn": (
        [opened(RoundRobin()), HI, called("a"), ToolResult(call_id="a1"), said("a")],
        "- a a a b",
    ),
    "whoever is named is asked, and nobody after": (
        [opened(RoundRobin()), asked("b"), said("b"), HI],
        "- b - a",
    ),
    "whoever is named answers beside the one whose turn it is": (
        [opened(RoundRobin()), HI, asked("c"), said("c"), said("a")],
        "- a a+c a b",
    ),
    "naming somebody in an answer gives no turn": (
        [opened(RoundRobin()), HI, said("a", to=["c"])],
        "- a b",
    ),
    "a cancel ends the turns": (
        [opened(RoundRobin()), HI, STOP, HI],
        "- a - b",
    ),
    "a cancel of the one whose turn it is too": (
        [opened(RoundRobin()), HI, control("cancel", "a")],
        "- a - (cancelled)",
    ),
    "a connection that is lost too": (
        [opened(RoundRobin()), HI, failed("a", "cancelled")],
        "- a - (cancelled)",
    ),
    "who leaves in its turn is followed by the next": (
        [opened(RoundRobin()), HI, said("a"), left("b"), said("c")],
        "- a b c a",
    ),
    "who leaves out of turn is passed over": (
        [opened(RoundRobin()), HI, left("b"), said("a")],
        "- a a c",
    ),
    "the first who leaves in its turn is followed by the second": (
        [opened(RoundRobin()), HI, left("a"), said("b")],
        "- a b c",
    ),
    "who joins comes last": (
        [opened(RoundRobin(), "a", "b"), HI, ModeSwitch(joins=["c"]), said("a"), said("b"), said("c")],
        "- a a b c a",
    ),
    "nobody is left": (
        [opened(RoundRobin(), "a"), HI, left("a")],
        "- a - (nobody is there to take a turn)",
    ),
    "words during a turn wait until it is over": (
        [opened(RoundRobin()), HI, HI, said("a"), said("b")],
        "- a a b c",
    ),
    "words that nobody else can answer are answered by the one who was at work": (
        [opened(RoundRobin(), "a"), HI, HI, said("a", view=2), said("a")],
        "- a a a - (nobody else is there to answer)",
    ),
    "a pass that did not see the last words ends nothing": (
        [opened(RoundRobin(pass_token=PASS, moderator="a"), "a", "b"), HI, HI, passed("a", view=2)],
        "- a a b",
    ),
    "whoever failed goes on in its turn": (
        [opened(RoundRobin(), "a", "b"), HI, failed("a"), failed("b"), GO_ON, said("b")],
        "- a b - b a",
    ),
    "a lane that is told to go on by name does so beside the turn": (
        [opened(RoundRobin()), HI, failed("a"), control("continue", "a"), said("a"), said("b")],
        "- a b a+b b c",
    ),
    "a task takes turns like an agent": (
        [opened(RoundRobin(["a/x", "a/y"], max_rounds=1)), HI, said("a", task="x")],
        "- a/x a/y",
    ),
    "a closed one in the order is passed over": (
        [
            opened(RoundRobin(["a", "gone", "b"]), "a", "b", "gone"),
            left("gone"),
            HI,
            said("a"),
        ],
        "- - a b",
    ),
    "where nobody has joined the order is enough": (
        [ModeSwitch(turns=RoundRobin(["x", "y"])), HI, said("x"), said("y")],
        "- x y x",
    ),
    "a summary takes no turn": (
        [opened(RoundRobin()), HI, said("a", purpose="summary")],
        "- a a",
    ),
    "another rule goes on where the turn is over": (
        [opened(RoundRobin()), HI, ModeSwitch(turns=Sequential(["a", "c"])), said("a"), said("c")],
        "- a a c - (each has had its turn)",
    ),
    "no rule any more": (
        [opened(RoundRobin()), HI, ModeSwitch(turns=None), said("a"), HI],
        "- a a - a+b+c",
    ),
}
PIPELINE: dict[str, tuple[list[Event], str]] = {
    "each once, in order": (
        [opened(Sequential(["c", "a"])), HI, said("c"), said("a"), HI],
        "- c a - c",
    ),
    "a pipeline ends where one fails, and goes on from there": (
        [opened(Sequential(["a", "b"])), HI, failed("a"), GO_ON, said("a"), said("b")],
        "- a - a b - (each has had its turn)",
    ),
    "words during a pipeline begin it anew": (
        [opened(Sequential(["a", "b"])), HI, said("a"), HI, said("b"), said("a"), said("b")],
        "- a b b a b - (each has had its turn)",
    ),
    "words that the first has seen are not answered twice": (
        [opened(Sequential(["a", "b"])), HI, HI, said("a"), said("b")],
        "- a a b - (each has had its turn)",
    ),
    "words that the first has not seen are": (
        [opened(Sequential(["a", "b"])), HI, HI, said("a", view=2), said("a"), said("b")],
        "- a a a b - (each has had its turn)",
    ),
    "who leaves a pipeline is passed over": (
        [opened(Sequential(["a", "b", "c"])), HI, said("a"), left("b"), said("c")],
        "- a b c - (each has had its turn)",
    ),
    "a pipeline is cancelled": ([opened(Sequential(["a", "b"])), HI, STOP], "- a - (cancelled)"),
}
ORCHESTRATOR: dict[str, tuple[list[Event], str]] = {
    "it hands on, and is asked again when all are at rest": (
        [opened(Orchestrator("a")), HI, said("a", to=["b", "c"]), said("c"), said("b"), said("a")],
        "- a b+c b a - (a handed on to nobody)",
    ),
    "its tasks are lanes": (
        [opened(Orchestrator("a")), HI, said("a", to=["b/1", "b/2"]), said("b", task="2")],
        "- a b/1+b/2 b/1",
    ),
    "workers hand on to nobody": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), said("b", to=["c"])],
        "- a b a",
    ),
    "it hands on once its tools are done": (
        [opened(Orchestrator("a")), HI, called("a", to=["b"]), ToolResult(call_id="a1"), said("a", to=["c"])],
        "- a a a b+c",
    ),
    "words to it by name are like words to nobody": (
        [opened(Orchestrator("a")), asked("a"), said("a", to=["b"])],
        "- a b",
    ),
    "words to a worker are for that alone": (
        [opened(Orchestrator("a")), asked("b"), said("b")],
        "- b -",
    ),
    "words while workers work are for it": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), HI, said("a", view=4), said("b")],
        "- a b a+b b a",
    ),
    "answers that came while it wrote are seen": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), HI, said("b"), said("a", view=4)],
        "- a b a+b a a",
    ),
    "a worker that fails has come to rest": (
        [opened(Orchestrator("a")), HI, said("a", to=["b", "c"]), said("b"), failed("c")],
        "- a b+c c a",
    ),
    "where all workers fail it has nothing new": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), failed("b")],
        "- a b - (nothing new for a: b failed)",
    ),
    "a worker that goes on reports": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), failed("b"), GO_ON, said("b")],
        "- a b - b a",
    ),
    "it fails": ([opened(Orchestrator("a")), HI, failed("a"), GO_ON], "- a - a"),
    "it leaves": (
        [opened(Orchestrator("a")), HI, said("a", to=["b"]), left("a"), said("b")],
        "- a b b - (a is not there)",
    ),
    "one worker is cancelled": (
        [opened(Orchestrator("a")), HI, said("a", to=["b", "c"]), said("b"), control("cancel", "c")],
        "- a b+c c a",
    ),
    "everybody is cancelled": (
        [opened(Orchestrator("a")), HI, said("a", to=["b", "c"]), said("b"), STOP],
        "- a b+c c - (cancelled)",
    ),
    "strangers are only spoken of": (
        [opened(Orchestrator("a")), HI, said("a", to=["nobody"])],
        "- a - (a handed on to nobody)",
    ),
}
PARALLEL: dict[str, tuple[list[Event], str]] = {
    "all at once": (
        [opened(Parallel(["b/1", "b/2"])), HI, said("b", task="2"), said("b", task="1")],
        "- b/1+b/2 b/1 - (all have had their turn)",
    ),
    "all members at once": ([opened(Parallel()), HI, said("a", to=["b"])], "- a+b+c b+c"),
    "words meanwhile are for all again": (
        [opened(Parallel(), "a", "b"), HI, said("a"), HI, said("b"), said("a")],
        "- a+b b a+b a - (all have had their turn)",
    ),
}
RULES = {
    "by address": BY_ADDRESS,
    "one after the other": ROUND_ROBIN,
    "each once in order": PIPELINE,
    "hand-offs come back": ORCHESTRATOR,
    "all at once": PARALLEL,
}
CASES = [
    pytest.param(*case, id=f"{rule}: {name}") for rule, cases in RULES.items() for name, case in cases.items()
]


@pytest.mark.parametrize(("events", "expected"), CASES)
def test_each_rule_asks_those_whose_turn_it_is(events: list[Event], expected: str) -> None:
    assert course(*events) == expected


def test_a_lane_that_answered_the_last_message_has_no_news_until_somebody_speaks() -> None:
    answered = [opened(RoundRobin(), "a", "b"), HI, said("a", view=2)]

    assert [has_news(after(*answered), lane) for lane in "ab"] == [False, True]
    assert [has_news(after(*answered, said("b", view=3)), lane) for lane in "ab"] == [True, False]


def test_a_reset_of_one_agent_ends_the_session_of_that_agent_only() -> None:
    sessions = [
        HI,
        said("a", session="s1"),
        said("b", session="s2"),
        ModeSwitch(agents=["a"], context_from=4),
    ]

    assert [after(*sessions).lane(lane).session for lane in "ab"] == ["", "s2"]
