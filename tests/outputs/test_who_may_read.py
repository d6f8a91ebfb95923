"""Who may read an output: whoever may see the entry that it is of, and nobody else, by any tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, Literal

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.tools.recall import RecallScope
from stenolog.context import FullHistory, Transforms, register_transform
from stenolog.errors import InvalidEventError
from stenolog.plugins import TRANSFORMS
from stenolog.tools import read_output, store_large
from tests.random_cases import seeds

AGENTS = ("ann", "bob", "cleo")


def told(conversation: Conversation, agent: str, alias: str) -> ToolResult:
    call = ToolCall(id="r", name="read_output", arguments=json.dumps({"path": alias, "limit": 20_000}))
    return read_output(conversation, call, agent)


def test_an_output_that_is_for_one_agent_is_nothing_to_another() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(mode="chat", scope="addressed", joins=["ann", "bob"]))
        talk.append(UserMessage("ann, look", to=["ann"]))
        talk.append(AssistantMessage(agent="ann", tool_calls=[ToolCall(id="k", name="shell")], to=["ann"]))
        talk.append(store_large(log, ToolResult(call_id="k", text="HUNTER2 " * 5_000)))
        (alias,) = talk.outputs

        refused = told(talk, "bob", alias)
        assert (refused.is_error, refused.text) == (True, f"'talk': no entry has the alias {alias}")
        assert told(talk, "ann", alias).text.startswith("HUNTER2")


@pytest.fixture
def no_hunter() -> Iterator[str]:
    """Register a transform for one test and yield its name."""

    def transform(message: Any, entry: Entry) -> Any:
        if "HUNTER2" not in repr(message):
            return message
        is_result = isinstance(entry.event, ToolResult)
        return message._replace(parts=(TextPart(text="*"),)) if is_result else None

    with TRANSFORMS.restored():
        register_transform("no-hunter@1", "a word is left out, and results are reworded")(transform)
        yield "no-hunter@1"


def test_what_a_transform_keeps_from_an_agent_no_tool_gives_it(no_hunter: str) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("bob", policy=Transforms([no_hunter]))
        talk.append(
            AssistantMessage(agent="ann", text="It is HUNTER2", tool_calls=[ToolCall(id="k", name="sh")])
        )
        talk.append(store_large(log, ToolResult(call_id="k", text="HUNTER2 " * 5_000)))
        (alias,) = talk.outputs

        assert told(talk, "bob", alias).is_error
        assert not RecallScope().passages(talk, "bob", "HUNTER2", 5)
        assert told(talk, "ann", alias).text.startswith("HUNTER2")


def random_talk(conversation: Conversation, random: Random) -> list[str]:
    """Write a talk in which each entry has a word of its own; return the words."""
    scope: Literal["open", "addressed"] = random.choice(("open", "addressed"))
    conversation.append(ModeSwitch(mode="chat", scope=scope, joins=[*AGENTS]))
    words = []
    for nth in range(random.randrange(3, 12)):
        to = random.sample(AGENTS, random.choice((0, 1, 2)))
        agent = random.choice(to or AGENTS)
        words += [f"question{nth}x", f"result{nth}x", f"answer{nth}x"]
        conversation.append(UserMessage(words[-3], to=to))
        task = random.choice(("", "", "job"))
        call = ToolCall(id=f"k{nth}", name="look")
        conversation.append(AssistantMessage(agent=agent, tool_calls=[call], to=to, task=task))
        conversation.append(ToolResult(call_id=f"k{nth}", text=words[-2]))
        conversation.append(AssistantMessage(agent=agent, text=words[-1], to=to, task=task))
        if random.random() < 0.2:
            with suppress(InvalidEventError):
                conversation.erase(random.randrange(2, conversation.position), reason="x", by="me")
        if random.random() < 0.1:
            switch = ModeSwitch(scope="open" if scope == "addressed" else "addressed")
            conversation.append(switch, expected=conversation.position)
    return words


@seeds(15, slow=150, nightly=1_000)
def test_no_tool_returns_what_the_request_of_its_agent_would_not_hold(seeds: range) -> None:
    read = 0
    with stenolog.open(":memory:") as log:
        for nth in seeds:
            random = Random(nth)
            talk = log[f"talk{nth}"]
            words = random_talk(talk, random)
            for agent in AGENTS:
                for address in (agent, f"{agent}/job"):
                    task = address.partition("/")[2]
                    held = json.dumps(talk.request(agent, task=task, policy=FullHistory()).body)
                    for alias in talk.outputs:
                        result = told(talk, address, alias)
                        read += not result.is_error
                        assert result.is_error or result.text.partition("\n")[0] in held
                    if not task:
                        for passage in RecallScope().passages(talk, agent, " OR ".join(words), 100):
                            assert passage.text in held
    assert read > len(seeds) * 3
