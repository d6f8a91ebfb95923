"""System 4, the Rust agent whose history was never filled: its own checklist, and its context manager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tiktoken import Encoding, registry

import stenolog
from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries.requests import token_counters
from stenolog.context import Budget, LastN, Pins, Prompt, policy
from stenolog.domain.errors import InvalidPolicyError, RequestNotSendableError
from stenolog.engine import load_team
from stenolog.errors import CallerError
from stenolog.events import PositionRange
from stenolog.importers import import_file
from tests.command_line import run
from tests.systems.given import Room, left_out, shown, words
from tests.test_counters import SMALL, small

OPENING = ModeSwitch(mode="agent", joins=["agent"], cards={"agent": AgentCard(persona="You are a coder.")})
LS = ToolCall(id="c1", name="ls", arguments="{}")


def test_the_history_is_one_after_the_user_two_after_the_answer_and_three_after_the_tool(room: Room) -> None:
    lengths = []
    for event in (
        OPENING,
        UserMessage(text="What is here?"),
        AssistantMessage(agent="agent", tool_calls=[LS]),
        ToolResult(call_id="c1", text="a.py"),
    ):
        room.write(event)
        said = [e for e in room.entries() if e.event.kind != "mode_switch"]
        lengths.append((len(said), len(shown(room.request("agent"))) if said else 0))

    assert [length for length, _ in lengths] == [0, 1, 2, 3]
    assert [in_request for _, in_request in lengths] == [0, 1, 3, 3]  # an open call is sealed


def test_the_second_turn_has_all_of_the_first(room: Room) -> None:
    room.write(OPENING, UserMessage(text="What is here?"))
    room.answer("agent", "", LS)
    room.write(ToolResult(call_id="c1", text="a.py"))
    room.answer("agent", "One file.")
    first = room.request("agent", 4)
    room.write(UserMessage(text="And in it?"))

    second = room.request("agent")

    assert second.ready
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert words(second)[-2:] == ["One file.", "And in it?"]
    assert [positions for positions, _ in shown(second)] == [(2,), (3,), (4,), (5,), (6,)]
    assert second.omissions == ()


def long_conversation(turns: int) -> list[Event]:
    """Return a system note, and turns of some 220 tokens."""
    note = UserMessage(author_kind="system", text="Never touch main.")
    said: list[Event] = [OPENING, note]
    for turn in range(turns):
        said += [
            UserMessage(text=f"Question {turn} " + "why " * 40),
            AssistantMessage(agent="agent", text=f"Look {turn}", tool_calls=[LS]),
            ToolResult(call_id="c1", text=f"{turn} " + "line " * 60),
            AssistantMessage(agent="agent", text=f"Answer {turn} " + "so " * 40),
        ]
    return [*said, UserMessage(text="The last question")]


PRUNING = Budget(tokens=2_000) | Pins(authors=["system"])


def test_prune_keeps_the_recent_and_the_system(room: Room) -> None:
    room.write(*long_conversation(30))

    request = room.request("agent", policy=PRUNING)

    kept = [position for positions, _ in shown(request) for position in positions]
    system, *recent = [
        (p.positions, p.rule) for p in request.parts if p.rule in ("persona", "system-note", "user")
    ]
    assert (system, recent[0]) == (((1,), "persona"), ((2,), "system-note"))
    assert kept == [*range(kept[0], 124)]
    assert left_out(request) == [(3, kept[0] - 1, "over-budget")]
    assert request.size.tokens <= 2_000
    assert request.ready


def test_condense_puts_a_summary_in_the_place_of_the_middle(room: Room) -> None:
    room.write(*long_conversation(6))
    middle = AssistantMessage(
        agent="agent",
        purpose="summary",
        covers=[PositionRange(first=7, last=22)],
        text="Four rounds of looking.",
    )
    room.write(middle, UserMessage(text="Go on."))

    request = room.request("agent", policy=policy())

    where = [positions[0] for positions, _ in shown(request)]
    assert where == [3, 4, 5, 6, 28, 23, 24, 25, 26, 27, 29]
    assert words(request)[5] == "<summary>\nFour rounds of looking.\n</summary>"
    assert left_out(request) == [(7, 22, "covered")]


def test_a_limit_in_bytes_is_that_of_the_body(room: Room) -> None:
    room.write(*long_conversation(30))

    for limit in (8_000, 16_000, 32_000):
        request = room.request("agent", policy=Budget(bytes=limit))

        assert limit // 8 < len(request.bytes) <= limit
        assert request.size.bytes == len(request.bytes)


def test_every_message_says_which_step_made_it(room: Room) -> None:
    room.write(OPENING, UserMessage(text="Go.", run="r1", node="plan"))
    room.answer("agent", "Gone.", cause=2, run="r1", node="plan")

    answer = room.entries()[2].event

    assert isinstance(answer, AssistantMessage)
    assert (answer.run, answer.node, answer.cause) == ("r1", "plan", 2)
    assert answer.receipt is not None
    assert answer.receipt.view == 2


def test_without_a_tokenizer_a_documented_estimate_counts_four_bytes_a_token(room: Room) -> None:
    room.write(OPENING, UserMessage(text="x" * 400), AssistantMessage(agent="agent", text="é" * 200))

    request = room.request("agent", 2, policy=Budget(tokens=1_000))

    assert (request.counter, request.receipt.counter) == ("bytes4@1", "bytes4@1")
    assert [part.tokens_out for part in request.parts if part.rule == "user"] == [100]
    assert [part.tokens_out for part in room.request("agent").parts if part.rule == "own"] == [100]


def test_a_tokenizer_that_is_not_there_is_refused_before_anything_is_sent(room: Room) -> None:
    room.write(OPENING, UserMessage(text="Go."))

    with pytest.raises(InvalidPolicyError, match="'tiktoken:gpt-9': expected one of bytes4"):
        room.request("agent", policy=Budget(tokens=1_000, counter="tiktoken:gpt-9"))


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Encoding]:
    """Yield a tokenizer of tiktoken's, under the name "small"."""
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", {"small": small})
    monkeypatch.setattr(registry, "ENCODINGS", {})
    token_counters._loaded.cache_clear()
    yield SMALL
    token_counters._loaded.cache_clear()


def test_a_real_tokenizer_counts_where_there_is_one(room: Room, tokenizer: Encoding) -> None:
    words = "the other theatre, " * 40
    room.write(OPENING, UserMessage(text=words))

    request = room.request("agent", policy=Budget(tokens=1_000, counter="tiktoken:small"))

    assert request.receipt.counter == f"tiktoken:small@{tiktoken.__version__}"
    assert [part.tokens_out for part in request.parts if part.rule == "user"] == [
        len(tokenizer.encode(words))
    ]


def test_what_must_stay_and_is_larger_than_the_budget_is_an_error_that_names_it(room: Room) -> None:
    room.write(OPENING, UserMessage(text="why " * 1_000))

    request = room.request("agent", policy=Budget(tokens=500))

    assert request.sendable is False
    with pytest.raises(
        RequestNotSendableError, match=r"over budget \(.* tokens of 500\).*position 2 \(latest-message"
    ):
        request.check()


def test_a_worker_inherits_the_parents_context_by_a_fork_and_its_summary_is_merged(room: Room) -> None:
    room.write(OPENING, UserMessage(text="Mend the parser."))
    room.answer("agent", "I send a worker.")
    with room.opened() as parent:
        worker = parent.fork(name="worker")
        worker.append(UserMessage(text="Only the lexer.", author="agent", author_kind="agent"))
        briefed = worker.request("agent")
        worker.append(AssistantMessage(agent="agent", text="The lexer is mended."))
        parent.append(
            UserMessage(text="The lexer is mended.", author="worker", author_kind="agent", to=["agent"])
        )

    brief = '<message sender="agent">\nOnly the lexer.\n</message>'
    assert words(briefed) == ["Mend the parser.", "I send a worker.", brief]
    merged = '<message sender="worker">\nThe lexer is mended.\n</message>'
    assert words(room.request("agent")) == ["Mend the parser.", "I send a worker.", merged]


def test_workers_share_out_a_token_budget_by_their_cards(room: Room) -> None:
    shares = {f"worker-{n}": AgentCard(policy=Budget(tokens=500)) for n in range(4)}
    room.write(ModeSwitch(joins=[*shares], cards={**shares}))
    for n in range(20):
        room.write(UserMessage(text=f"{n} " + "word " * 60))

    requests = [room.request(worker) for worker in shares]

    assert all(request.ready for request in requests)
    assert sum(request.size.tokens for request in requests) <= 2_000


def test_the_agent_is_told_that_it_forgot(room: Room) -> None:
    room.write(*long_conversation(30))

    request = room.request("agent", policy=LastN(4) | Prompt(cut_note=True))

    assert words(request)[0] == "[earlier messages were left out of what you are shown]"


RUST = [
    ("System", "Answer with JSON."),
    ("User", "Which files are there?"),
    ("Assistant", '{"c":"shell","args":{"command":"ls"}}'),
    ("Tool", "loaves.py"),
    ("Assistant", "One: loaves.py."),
    ("User", "How long is it?"),
    ("Assistant", 'I count: {"c":"shell","args":{"command":"wc -l loaves.py"}}'),
    ("Tool", "24 loaves.py"),
]
MAPPING = 'role = "role"\ntext = "content"\nrecords = "history"\n'


@pytest.mark.parametrize("mapped", [False, True])
def test_a_result_without_a_call_id_closes_the_call_in_the_words_before_it_and_the_run_goes_on(
    tmp_path: Path, mapped: bool
) -> None:
    session, mapping = tmp_path / "session.json", tmp_path / "mapping.toml"
    said = [{"role": role if mapped else role.lower(), "content": text} for role, text in RUST]
    session.write_text(json.dumps({"history": said} if mapped else said))
    mapping.write_text(MAPPING)
    log = stenolog.open(":memory:")
    for _ in range(2):  # the second time there is nothing new
        report = import_file(log, session, name="old", mapping=mapping if mapped else None)
    old = log["old"]
    events: list[Any] = [entry.event for entry in old.entries()]

    assert [event.text for event in events[1:]] == [text for _, text in RUST[1:]]
    assert [(call.name, call.arguments) for call in events[2].tool_calls + events[6].tool_calls] == [
        ("shell", '{"command":"ls"}'), ("shell", '{"command":"wc -l loaves.py"}'),
    ]  # fmt: skip
    assert old.state().anomalies == 0
    assert old.state().lane("assistant").status == "awaiting_llm"
    assert [m["role"] for m in old.request("assistant").body["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip
    assert (report.conversations[0].appended, report.conversations[0].already) == (0, 8)


def test_results_without_ids_close_the_calls_of_the_answer_before_them_each_once(
    tmp_path: Path,
) -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("look", "count")]
    session = tmp_path / "session.json"
    results = [{"role": "tool", "content": "7", "name": "count"}, {"role": "tool", "content": "a.py"}]
    said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    session.write_text(json.dumps([*said, *results, {"role": "tool", "content": "nobody asked"}]))
    log = stenolog.open(":memory:")
    import_file(log, session, name="old")
    events = [entry.event for entry in log["old"].entries()]
    closed = [event.call.index if event.call else None for event in events if isinstance(event, ToolResult)]

    assert closed == [1, 0, None]


# System 4: a conversation is condensed by itself, as an option of agent, team, file and command line.


FILE = """
[agents.coder]
model = "cli:echo I looked at the oven and at the loaves."
"""
SHARED = "summary = { over = 60, keep = 2 }\n"


def summaries(db: Path, name: str) -> list[str]:
    with stenolog.open(db) as log:
        events = [entry.event for entry in log[name].entries()]
    return [e.agent for e in events if isinstance(e, AssistantMessage) and e.purpose == "summary"]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "options"), [(FILE, ["--summary-over", "60"]), (SHARED + FILE, [])])
def test_a_run_from_a_file_is_condensed_by_an_option_of_the_command_or_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: list[str]
) -> None:
    file, db = tmp_path / "crew.toml", tmp_path / "talks.db"
    file.write_text(text)

    for n in range(30):
        assert run(["run", str(file), f"Question {n}", "--db", str(db), *options]) == 0

    capsys.readouterr()
    assert set(summaries(db, "crew")) == {"coder"}
    with stenolog.open(db) as log:
        request = log["crew"].request("coder")
    assert request.size.tokens < 200 < sum(run.tokens for run in request.omissions)


@pytest.mark.slow
def test_a_chat_is_condensed_by_an_option_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    db = tmp_path / "talks.db"
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"Question {n}\n" for n in range(30))))

    code = run(["chat", "talk", "--cli", "echo I looked.", "--summary-over", "60", "--db", str(db)])

    capsys.readouterr()
    assert (code, set(summaries(db, "talk"))) == (0, {"assistant"})


def test_a_summary_of_a_file_by_nobody_there_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "crew.toml"
    file.write_text('summary = { by = "scribe" }\n' + FILE)

    with pytest.raises(CallerError, match=r"crew.toml: summary: by: expected a helper or an agent"):
        load_team(file)
