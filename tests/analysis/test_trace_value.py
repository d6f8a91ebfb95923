"""`trace_value` finds every place of a log that a value reached, and no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Log,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.store.contract.values import Claim
from stenolog.analysis import Reached, trace_value
from stenolog.errors import CallerError
from stenolog.parts import ImagePart
from stenolog.tables import Table, attach_table

SECRET = 'hunter2 "é"'
SAID = Table("said", columns={"text": str}, rows=lambda entry: [{"text": getattr(entry.event, "text", "")}])


def ask(conversation: Conversation, agent: str, api: str) -> None:
    receipt = conversation.request(agent, api=api).receipt
    conversation.append(AssistantMessage(agent=agent, text="Fine.", model=f"m-{agent}", receipt=receipt))


def places(log: Log, text: str = SECRET) -> list[tuple[str, str, int, str]]:
    return [(one.what, one.conversation, one.position, one.where) for one in trace_value(log, text).reached]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db") as log:
        attach_table(log, SAID)
        demo = log["demo"]
        cards: dict[str, AgentCard | None] = {"a": AgentCard(model="m-a"), "b": AgentCard(model="m-b")}
        demo.append(ModeSwitch(cards=cards, scope="addressed"), expected=0)
        demo.append(UserMessage(text="Hello.", to=["a", "b"]))
        ask(demo, "a", "openai-chat")
        demo.append(UserMessage(text=f"It is {SECRET}.", to=["a"]))
        ask(demo, "a", "anthropic")
        ask(demo, "b", "openai-chat")
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log


def test_entries_requests_answers_and_tables(log: Log) -> None:
    found = trace_value(log, SECRET)
    assert places(log) == [
        ("entry", "demo", 4, "/event/parts/0/text"),
        ("request", "demo", 4, ""),
        ("answer", "demo", 5, ""),
        ("table", "demo", 4, "said"),
    ]
    assert (found.agents, found.providers) == (("a",), ("anthropic m-a",))
    assert Reached("answer", "demo", 5, "a", "anthropic", "m-a") in found.reached


def test_it_is_found_in_json_inside_of_json_and_in_blobs(log: Log) -> None:
    other = log["other"]
    arguments = json.dumps({"password": SECRET})
    other.append(UserMessage(text="Go.", to=["a"]))
    other.append(
        AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="login", arguments=arguments)])
    )
    other.append(ToolResult(call_id="c", text="ok", blob=log.blobs.put(f"said {SECRET}".encode())))
    sha = other.entry(4).event.blob  # type: ignore[union-attr]
    found = places(log)
    assert ("entry", "other", 3, "/event/parts/0/arguments") in found
    assert ("entry", "other", 4, f"/blobs/{sha}") in found
    assert ("blob", "", 0, sha) in found


def test_what_a_fork_inherits_is_told_once_and_its_own_requests_are_told(log: Log) -> None:
    fork = log["demo"].fork(name="fork")
    ask(fork, "a", "gemini")
    found = places(log)
    assert ("request", "fork", 7, "") in found
    assert [place for place in found if place[:2] == ("entry", "fork")] == []


def test_what_streams_is_found_and_an_erasure_drops_it(log: Log) -> None:
    demo = log["demo"]
    claim = Claim(0, "a", "model", 2, 1, "key", "one", 0)
    (taken,) = log.recorder.claims.take(demo.stream, [claim], demo.position)
    assert taken is not None
    half = len(SECRET) // 2
    log.recorder.drafts.add([(taken.fence, SECRET[:half].encode()), (taken.fence, SECRET[half:].encode())])
    assert ("draft", "demo", 0, "") in places(log)
    demo.erase(4)
    assert places(log) == []


def test_after_an_erasure_nothing_is_left(log: Log) -> None:
    log["demo"].erase(4, reason="on request")
    assert places(log) == []
    assert trace_value(log, "on request").agents == ()


def test_a_name_and_an_empty_text(log: Log) -> None:
    log["about Alice"].append(UserMessage(parts=[ImagePart(url="https://example.org")]))
    assert places(log, "Alice") == [("name", "about Alice", 0, "")]
    with pytest.raises(CallerError, match="a text to look for"):
        trace_value(log, " ")
