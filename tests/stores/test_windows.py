"""A stored conversation's request reads its window, and little else, whatever the length of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Conversation, Entry, ModeSwitch, Request, UserMessage
from stenolog.adapters.conversation.queries.requests.window_cache import REQUESTS, windows_of
from stenolog.adapters.store.reading import reader
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.context import Budget, LastN
from stenolog.projections.requests import build
from stenolog.projections.requests.incremental import snapshot

POLICY = Budget(tokens=2_000)
WORDS = "word " * 20


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    with stenolog.open(tmp_path / "log.db", synchronous="normal") as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(cards={"coder": AgentCard(policy=POLICY)}, joins=["coder"]))
        yield conversation


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """Return a list of every entry that is read."""
    read: list[Entry] = []
    whole = reader.entries

    def watched(*asked: object) -> Iterator[Entry]:
        for entry in whole(*asked):  # type: ignore[arg-type]
            read.append(entry)
            yield entry

    monkeypatch.setattr(reader, "entries", watched)
    return read


def go_on(conversation: Conversation, turns: int) -> None:
    events = (UserMessage(text=WORDS), AssistantMessage(agent="coder", text=WORDS))
    conversation.extend([event for _ in range(turns) for event in events])


def in_it(request: Request) -> int:
    """Return the number of entries in a request."""
    return len({position for part in request.parts for position in part.positions})


def test_another_process_goes_on_with_the_api_of_the_agents_answers(
    tmp_path: Path, rows: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SEGMENT", 16)
    turn = UserMessage(text="Question"), AssistantMessage(agent="coder", text="Yes", model="claude-opus-4-6")
    with stenolog.open(tmp_path / "log.db") as log:
        for _ in range(80):
            log["talk"].extend(turn)
            log["talk"].request("coder")
        log["talk"].fork(after=120, name="fork").append(turn[0])
    for name in ("talk", "fork"):
        with stenolog.open(tmp_path / "log.db") as log:
            rows.clear()
            request = log[name].request("coder")

            assert name == "fork" or len(rows) < 120
            assert request.api.startswith("anthropic")
            assert request == build([*log[name].entries()], "coder")


def test_another_process_reads_a_window_from_before_a_cut_and_at_most_64_rows_more(
    conversation: Conversation, rows: list[Entry]
) -> None:
    go_on(conversation, 3_000)
    largest = in_it(conversation.request("coder"))
    for turns in (1, 7, 9, 1, 15, 1, 20, 16):
        windows_of(conversation.log).close()
        windows_of(conversation.log).clear()
        go_on(conversation, turns)
        rows.clear()

        request, read = conversation.request("coder"), len(rows)

        assert read <= largest + 64
        largest = max(largest, in_it(request))


def test_a_lane_that_sees_one_entry_in_a_hundred_reads_no_others(
    conversation: Conversation, rows: list[Entry]
) -> None:
    conversation.append(ModeSwitch(scope="addressed"), expected=conversation.position)
    for turn in range(30):
        conversation.extend([UserMessage(text=WORDS, to=["other"])] * 99)
        conversation.append(UserMessage(text=f"{turn}", to=["coder"]))
    conversation.request("coder")
    windows_of(conversation.log).clear()
    rows.clear()

    assert in_it(conversation.request("coder")) == 30
    assert len(rows) <= 30 + 64


def test_where_little_is_between_the_rows_of_a_window_they_are_read_at_once(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation.append(ModeSwitch(scope="addressed"), expected=conversation.position)
    for turn in range(30):
        conversation.append(UserMessage(text=f"{turn}", to=["coder"]))
        conversation.extend([UserMessage(text=WORDS, to=["other"])] * 2)
    conversation.request("coder")
    windows_of(conversation.log).clear()
    whole, asked = reader.entries, list[object]()
    monkeypatch.setattr(reader, "entries", lambda *each: asked.append(each) or whole(*each))  # type: ignore[func-returns-value]

    assert in_it(conversation.request("coder")) == 30
    assert len(asked) <= 30 - 32 // 2 + 2


@pytest.mark.parametrize("policy", [POLICY, LastN(10), None], ids=["budget", "last", "the card's"])
def test_a_request_from_its_window_is_the_request_from_the_whole_log(
    conversation: Conversation, policy: Budget | LastN | None
) -> None:
    for turn in range(12):
        go_on(conversation, 9)
        if turn % 2:
            windows_of(conversation.log).clear()
        whole = build(list(conversation.entries()), "coder", policy=policy)
        part = conversation.request("coder", policy=policy)

        assert (part.bytes, part.omissions, part.receipt) == (whole.bytes, whole.omissions, whole.receipt)


def test_a_request_of_the_past_is_what_it_was(conversation: Conversation) -> None:
    seen: dict[int, bytes] = {}
    for _ in range(10):
        go_on(conversation, 10)
        seen[conversation.position] = conversation.request("coder").bytes

    assert {position: conversation.request("coder", at=position).bytes for position in seen} == seen


def test_another_policy_on_the_card_counts_as_though_it_had_always_been_in_force(
    conversation: Conversation,
) -> None:
    go_on(conversation, 100)
    conversation.request("coder")
    other = Budget(tokens=1_000)
    conversation.append(ModeSwitch(cards={"coder": AgentCard(policy=other)}), expected=conversation.position)
    go_on(conversation, 3)

    assert (
        conversation.request("coder").bytes
        == build(list(conversation.entries()), "coder", policy=other).bytes
    )


def test_a_fork_has_the_window_of_its_parent(conversation: Conversation) -> None:
    go_on(conversation, 200)
    before: Callable[[Conversation], bytes] = lambda of: of.request("coder", at=300).bytes  # noqa: E731

    assert before(conversation.fork(after=320)) == before(conversation)


def test_a_request_of_the_past_that_was_asked_for_lately_is_not_built_again(tmp_path: Path) -> None:
    built: list[object] = []
    with stenolog.open(tmp_path / "log.db") as log:
        log["x"].log.on_request = built.append
        log["x"].extend([UserMessage(text=f"{nth}?", to=["coder"]) for nth in range(REQUESTS + 4)])

        def ask(at: int) -> Request:
            return AskedRequest(log["x"], "coder", at, "openai-chat", None, ()).request()

        assert ask(3) is ask(3)
        assert len(built) == 1
        for at in range(4, REQUESTS + 4):
            ask(at)
        before = len(built)
        assert ask(REQUESTS + 3).at == REQUESTS + 3
        assert len(built) == before
        assert ask(3).at == 3  # so long ago that it is not kept any more
        assert len(built) == before + 1
