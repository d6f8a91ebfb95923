"""Who is asked: a pipeline, an orchestrator with its workers, and all at once."""

from __future__ import annotations

import pytest

from stenolog import Event, ToolResult
from stenolog.engine import Orchestrator, Parallel, Sequential
from tests.domain.talking import (
    GO_ON,
    HI,
    STOP,
    asked,
    called,
    control,
    course,
    failed,
    left,
    opened,
    said,
)

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


@pytest.mark.parametrize(("events", "expected"), PIPELINE.values(), ids=list(PIPELINE))
def test_each_once_in_order(events: list[Event], expected: str) -> None:
    assert course(*events) == expected


@pytest.mark.parametrize(("events", "expected"), ORCHESTRATOR.values(), ids=list(ORCHESTRATOR))
def test_hand_offs_come_back(events: list[Event], expected: str) -> None:
    assert course(*events) == expected


@pytest.mark.parametrize(("events", "expected"), PARALLEL.values(), ids=list(PARALLEL))
def test_all_at_once(events: list[Event], expected: str) -> None:
    assert course(*events) == expected
