"""`Runner` of the OpenAI Agents SDK on a session of ours: parallel tools, hand-offs, restarts."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIResponsesCompactionSession,
    RunConfig,
    Runner,
    Session,
    SessionSettings,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given as cases
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, Log, ToolResult, UserMessage
from stenolog.frameworks import OpenAIAgentsSession
from stenolog.testing import crash_points
from tests.examples.harness import clean

set_tracing_disabled(True)
CALLS = [
    function_call("fetch", {"page": "a"}, call_id="c1", item_id="fc_1"),
    function_call("fetch", {"page": "b"}, call_id="c2", item_id="fc_2"),
]

ASKED = {"role": "user", "content": "Which test fails?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "FAILED test_dates"}
SAID = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log
    clean(tmp_path / "talks.db")


def librarian(*steps: Any, **options: Any) -> Agent[None]:
    """Return an agent with a tool, whose model follows a script."""
    both = threading.Barrier(2, timeout=20)

    @function_tool
    async def fetch(page: str) -> str:
        await asyncio.to_thread(both.wait)  # neither call comes back before the other has begun
        return f"page {page}"

    return Agent("librarian", model=ScriptedModel(steps), tools=[fetch], **options)


def kinds(log: Log) -> list[str]:
    return [entry.event.kind for entry in log["books"].entries()]


def test_it_is_a_session_to_the_sdk(log: Log) -> None:
    session = OpenAIAgentsSession(log["books"])

    assert isinstance(session, Session)

    asyncio.run(session.add_items([{"role": "user", "content": "Hello"}]))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_with_parallel_tools_is_taken_down(log: Log, streamed: bool) -> None:
    session = OpenAIAgentsSession(log["books"])
    agent = librarian(CALLS, [assistant_message("Read both.")])

    answer = asyncio.run(_run(agent, "Read a and b", session, streamed))
    [called] = [e.event for e in log["books"].entries() if isinstance(e.event, AssistantMessage)][:1]
    results = [e.event for e in log["books"].entries() if isinstance(e.event, ToolResult)]

    assert answer == "Read both."
    assert [call.id for call in called.tool_calls] == ["c1", "c2"]
    assert {result.call_id: result.text for result in results} == {"c1": "page a", "c2": "page b"}
    assert kinds(log)[-1] == "assistant_message"


async def _run(agent: Agent[None], words: str, session: OpenAIAgentsSession, streamed: bool = False) -> Any:
    if not streamed:
        return (await Runner.run(agent, words, session=session)).final_output
    running = Runner.run_streamed(agent, words, session=session)
    async for _ in running.stream_events():
        pass
    return running.final_output


def test_the_next_run_is_sent_all_that_was_said_in_another_process_too(tmp_path: Path, log: Log) -> None:
    asyncio.run(
        _run(librarian(CALLS, [assistant_message("Read both.")]), "Read", OpenAIAgentsSession(log["books"]))
    )
    log.close()
    agent = librarian([assistant_message("A and b.")])

    with stenolog.open(tmp_path / "talks.db") as again:
        asyncio.run(_run(agent, "Which?", OpenAIAgentsSession(again["books"])))
        items = asyncio.run(OpenAIAgentsSession(again["books"]).get_items())
    sent = agent.model.last_call.input  # type: ignore[union-attr]

    assert items[:-1] == sent
    assert [item.get("role", item.get("type")) for item in sent] == [
        "user",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "assistant",
        "user",
    ]


def test_an_agent_that_was_handed_the_conversation_goes_on_with_it(log: Log) -> None:
    clerk: Agent[None] = Agent("clerk", model=ScriptedModel([[assistant_message("Your book is here.")]]))
    desk: Agent[None] = Agent(
        "desk",
        model=ScriptedModel([[function_call("transfer_to_clerk", "{}", call_id="h1")]]),
        handoffs=[clerk],
    )

    asyncio.run(_run(desk, "Where is my book?", OpenAIAgentsSession(log["books"])))
    told = [(item.kind, item.author, item.text, item.output) for item in log["books"].timeline()[1:]]

    assert [(kind, text) for kind, _, text, _ in told] == [
        ("message", "Where is my book?"),
        ("tool", "{}"),
        ("message", "Your book is here."),
    ]
    assert told[1][3][0].text == '{"assistant": "clerk"}'  # type: ignore[union-attr]


def test_a_limit_of_the_settings_holds(log: Log) -> None:
    session = OpenAIAgentsSession(log["books"], session_settings=SessionSettings(limit=2))
    asyncio.run(session.add_items([{"role": "user", "content": text} for text in "abc"]))
    agent = librarian([assistant_message("d")], [assistant_message("e")])

    asyncio.run(_run(agent, "x", session))
    asyncio.run(
        Runner.run(
            agent, "y", session=session, run_config=RunConfig(session_settings=SessionSettings(limit=1))
        )
    )
    calls = agent.model.calls  # type: ignore[union-attr]

    assert [[item["content"] for item in calls[0].input]] == [["b", "c", "x"]]
    assert [item.get("content", "")[-1:] for item in calls[1].input][-1] == "y"
    assert len(calls[1].input) == 2


async def test_two_runs_at_once_stand_one_after_the_other_batch_by_batch(log: Log) -> None:
    sessions = [OpenAIAgentsSession(log["books"]) for _ in range(2)]
    agents = [librarian(CALLS, [assistant_message("Read both.")]) for _ in range(2)]
    await asyncio.gather(*(_run(*pair) for pair in zip(agents, ["one", "two"], sessions, strict=True)))
    events = [entry.event for entry in log["books"].entries()]
    called = [n for n, event in enumerate(events) if isinstance(event, AssistantMessage) and event.tool_calls]

    assert [event.text for event in events if isinstance(event, UserMessage)] in (
        ["one", "two"],
        ["two", "one"],
    )
    assert [[type(event) for event in events[n : n + 3]] for n in called] == [
        [AssistantMessage, ToolResult, ToolResult]
    ] * 2


def test_a_compaction_takes_nothing_from_the_log_and_a_kill_finds_all_of_it_or_nothing(
    tmp_path: Path,
) -> None:
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    said: list[Any] = [{"role": "user", "content": text} for text in "abcdefghijkl"]

    async def compact(**_: Any) -> Any:
        return SimpleNamespace(output=[SimpleNamespace(model_dump=lambda **_: copy.deepcopy(summary))])

    async def go(log: Log) -> None:
        session = OpenAIAgentsSession(log["books"])
        client: Any = SimpleNamespace(responses=SimpleNamespace(compact=compact))
        compacting = OpenAIResponsesCompactionSession(
            "books", session, client=client, compaction_mode="input"
        )
        await compacting.add_items(said)
        await compacting.run_compaction({"force": True})

    found = []
    for point in crash_points(lambda log: asyncio.run(go(log)), tmp_path):
        with stenolog.open(point.path) as log:
            found.append(asyncio.run(OpenAIAgentsSession(log["books"]).get_items()))
            timeline = log["books"].timeline(at=13) if "books" in log else []

    assert [left for left, _ in groupby(found)] == [[], said, [summary]]
    assert [item.text for item in timeline if item.kind == "message"] == [*"abcdefghijkl"]


@cases(
    batches=st.lists(
        st.lists(st.sampled_from([ASKED, CALL, RESULT]), min_size=1, max_size=5), min_size=1, max_size=3
    ),
    limit=st.integers(1, 8),
    start=st.integers(0, 7),
    expired=st.integers(0, 6),
    is_stale=st.booleans(),
)
def test_the_end_of_a_history_is_replaced_unless_another_has_added_to_it(
    batches: list[list[Any]], limit: int, start: int, expired: int, is_stale: bool
) -> None:
    given = [item for batch in batches for item in batch]
    kept = len(given) - min(limit, len(given)) + start
    old = iter([True] * expired)

    async def go(log: Log) -> tuple[Any, bool, list[Any]]:
        session = OpenAIAgentsSession(log["any"])
        for batch in batches:
            await session.add_items(batch)
        shown = await session._get_compaction_snapshot(limit, prune_prefix=lambda _: next(old, False))
        assert shown is not None
        if is_stale:
            await session.add_items([ASKED])
        return shown, await shown.replace_suffix(start, [SAID]), await session.get_items()

    with stenolog.open(":memory:") as log:
        shown, is_replaced, left = asyncio.run(go(log))

    assert shown.items == given[-limit:]
    assert shown.complete == (len(given) <= limit)
    assert is_replaced == (kept < len(given) and not is_stale)
    if is_replaced:
        ends = [[*given[gone:kept], SAID] for gone in range(min(expired, kept) + 1)]
        assert left in ends  # an entry of which only a part has expired stays
    else:
        assert left == ([*given, ASKED] if is_stale else given)


def test_a_cancelled_write_ends_before_the_cancellation_is_told(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, begun, go_on = OpenAIAgentsSession(log["books"]), threading.Event(), threading.Event()
    extend = session.conversation.extend

    def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        go_on.wait()
        return extend(*given, **named)

    async def cancelled() -> list[Any]:
        writing = asyncio.create_task(session.add_items([ASKED]))
        await asyncio.to_thread(begun.wait)
        for _ in range(2):
            writing.cancel()
            await asyncio.sleep(0)
        assert not writing.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        return await session.get_items()

    monkeypatch.setattr(session.conversation, "extend", slow)

    assert asyncio.run(cancelled()) == [ASKED]


KILLED = """
import asyncio, os, sys
import stenolog
from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, function_call
from stenolog.frameworks import OpenAIAgentsSession

set_tracing_disabled(True)

@function_tool
def die() -> str:
    os._exit(9)

with stenolog.open(sys.argv[1]) as log:
    agent = Agent("a", model=ScriptedModel([[function_call("die", "{}", call_id="c1")]]), tools=[die])
    asyncio.run(Runner.run(agent, "Do it", session=OpenAIAgentsSession(log["books"])))
"""


@pytest.mark.slow
def test_a_run_that_was_killed_can_be_followed_by_another(tmp_path: Path, log: Log) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "talks.db")], timeout=60, check=False)
    agent = librarian([assistant_message("Yes?")])

    asyncio.run(_run(agent, "Are you there?", OpenAIAgentsSession(log["books"])))

    assert done.returncode == 9
    assert [item["content"] for item in agent.model.last_call.input] == ["Do it", "Are you there?"]  # type: ignore[union-attr]
