"""A stored conversation's request reads its window, and little else, whatever the length of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Card, Conversation, Entry, ModeSwitch, Request, UserMessage
from stenolog.adapters.stores import reading
from stenolog.adapters.verify import verify
from stenolog.context import Budget, LastN
from stenolog.projections.requests import build
from stenolog.projections.requests.marks import Mark

POLICY = Budget(tokens=2_000)
WORDS = "word " * 20


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Conversation]:
    with stenolog.open(tmp_path / "log.db", synchronous="normal") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(cards={"coder": Card(policy=POLICY)}, joins=["coder"]))
        yield talk


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """Every entry that is read."""
    read: list[Entry] = []
    whole = reading.entries

    def watched(*asked: object) -> Iterator[Entry]:
        for entry in whole(*asked):  # type: ignore[arg-type]
            read.append(entry)
            yield entry

    monkeypatch.setattr(reading, "entries", watched)
    return read


def go_on(talk: Conversation, turns: int) -> None:
    events = (UserMessage(text=WORDS), AssistantMessage(agent="coder", text=WORDS))
    talk.extend([event for _ in range(turns) for event in events])


def in_it(request: Request) -> int:
    """How many entries a request is made of."""
    return len({position for part in request.parts for position in part.positions})


def test_the_next_request_reads_its_window_and_at_most_64_rows_more(
    talk: Conversation, rows: list[Entry]
) -> None:
    go_on(talk, 3_000)
    talk.request("coder")
    for turns in (1, 7, 9, 1, 15, 1):
        go_on(talk, turns)
        talk.log.holding.clear()
        rows.clear()

        request = talk.request("coder")

        assert in_it(request) <= len(rows) <= in_it(request) + 64


def test_a_lane_that_sees_one_entry_in_a_hundred_reads_no_others(
    talk: Conversation, rows: list[Entry]
) -> None:
    talk.append(ModeSwitch(scope="addressed"), expected=talk.position)
    for turn in range(30):
        talk.extend([UserMessage(text=WORDS, to=["other"])] * 99)
        talk.append(UserMessage(text=f"{turn}", to=["coder"]))
    talk.request("coder")
    talk.log.holding.clear()
    rows.clear()

    assert in_it(talk.request("coder")) == 30
    assert len(rows) <= 30 + 64


def test_where_little_is_between_the_rows_of_a_window_they_are_read_at_once(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.append(ModeSwitch(scope="addressed"), expected=talk.position)
    for turn in range(30):
        talk.append(UserMessage(text=f"{turn}", to=["coder"]))
        talk.extend([UserMessage(text=WORDS, to=["other"])] * 2)
    talk.request("coder")
    talk.log.holding.clear()
    whole, asked = reading.entries, list[object]()
    monkeypatch.setattr(reading, "entries", lambda *each: asked.append(each) or whole(*each))  # type: ignore[func-returns-value]

    assert in_it(talk.request("coder")) == 30
    assert len(asked) <= 30 - 32 // 2 + 2


@pytest.mark.parametrize("policy", [POLICY, LastN(10), None], ids=["budget", "last", "the card's"])
def test_a_request_from_its_window_is_the_request_from_the_whole_log(
    talk: Conversation, policy: Budget | LastN | None
) -> None:
    for turn in range(12):
        go_on(talk, 9)
        if turn % 2:
            talk.log.holding.clear()
        whole = build(list(talk.entries()), "coder", policy=policy)
        part = talk.request("coder", policy=policy)

        assert (part.bytes, part.dropped, part.receipt) == (whole.bytes, whole.dropped, whole.receipt)


def test_a_request_of_the_past_is_what_it_was(talk: Conversation) -> None:
    seen: dict[int, bytes] = {}
    for _ in range(10):
        go_on(talk, 10)
        seen[talk.position] = talk.request("coder").bytes

    assert {position: talk.request("coder", upto=position).bytes for position in seen} == seen


def test_another_policy_on_the_card_counts_as_though_it_had_always_been_in_force(talk: Conversation) -> None:
    go_on(talk, 100)
    talk.request("coder")
    other = Budget(tokens=1_000)
    talk.append(ModeSwitch(cards={"coder": Card(policy=other)}), expected=talk.position)
    go_on(talk, 3)

    assert talk.request("coder").bytes == build(list(talk.entries()), "coder", policy=other).bytes


def test_a_fork_has_the_window_of_its_parent(talk: Conversation) -> None:
    go_on(talk, 200)
    before: Callable[[Conversation], bytes] = lambda of: of.request("coder", upto=300).bytes  # noqa: E731

    assert before(talk.fork(after=320)) == before(talk)


def test_verify_folds_every_mark_again_and_names_the_one_that_differs(
    talk: Conversation, tmp_path: Path
) -> None:
    go_on(talk, 200)
    talk.request("coder")
    assert verify(talk.log).problems == ()
    key, checkpoints = talk.stream.key or 0, talk.log.checkpoints
    (name,) = (fold for fold in checkpoints.names(key) if fold.startswith("window "))
    version = f"1 of {stenolog.__version__}"
    for run in list(checkpoints.runs(key, name, version)):
        wrong = tuple((at, mark[:-1] + b"1]") for at, mark in run.changes)
        checkpoints.put(key, name, version, run._replace(changes=wrong))

    (problem,) = verify(talk.log).problems

    assert (problem.code, problem.pointer.endswith(f"/{len(Mark._fields) - 1}")) == ("checkpoint", True)
