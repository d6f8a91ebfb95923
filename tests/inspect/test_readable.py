"""The entries that the page Read lists: of the whole conversation, and of a sub-agent's work."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given

from stenolog import AssistantMessage, Entry, Event, ToolCall, ToolResult, UserMessage
from stenolog.apps.inspect.conversation_index import ConversationIndex
from stenolog.testing import entries
from tests.strategies import logs


def indexed(log: Sequence[Entry]) -> ConversationIndex:
    index = ConversationIndex()
    for entry in log:
        index.take(entry)
    return ConversationIndex.load(index.dump())


def _brief(a: str, to: str, call: str) -> list[Event]:
    words = f"Dear {to}, this is {call}."
    task = ToolCall(id=call, name="task", arguments=json.dumps({"text": words}))
    return [
        AssistantMessage(agent=a, parts=[task]),
        UserMessage(words, author=a, author_kind="agent", to=[to]),
    ]


def test_a_message_of_an_agent_to_a_person_begins_no_sub_agent() -> None:
    say = ToolCall(id="1", name="say", arguments=json.dumps({"text": "Done now."}))
    index = indexed(
        entries(
            AssistantMessage(agent="a", parts=[say]),
            UserMessage("Done now.", author="a", author_kind="agent", to=["user"]),
        )
    )
    assert index.readable("") == [1, 2]
    assert [row.lane for row in index.outline.rows if row.lane] == []


def test_agents_that_brief_each_other_are_hidden_only_while_they_work_for_a_call() -> None:
    index = indexed(
        entries(
            UserMessage("Please plan it.", to=["a"]),
            *_brief("a", "b", "1"),
            *_brief("b", "a", "2"),
            AssistantMessage(agent="a", text="Tuesday."),
            ToolResult(call_id="2", text="Tuesday."),
            AssistantMessage(agent="b", text="All is planned."),
            ToolResult(call_id="1", text="All is planned."),
            AssistantMessage(agent="a", text="It is Tuesday."),
        )
    )
    assert index.readable("") == [1, 2, 10]
    assert index.readable("b") == [3, 4, 8]
    assert index.readable("a") == [5, 6]


def test_an_agent_that_a_person_speaks_to_is_hidden_only_until_then() -> None:
    index = indexed(
        entries(
            UserMessage("Please plan it.", to=["a"]),
            *_brief("a", "b", "1"),
            AssistantMessage(agent="b", text="Tuesday."),
            ToolResult(call_id="1", text="Tuesday."),
            UserMessage("Why not on Monday?", to=["b"]),
            AssistantMessage(agent="b", text="It rains."),
            *_brief("a", "b", "2"),
            AssistantMessage(agent="b", text="Wednesday."),
        )
    )
    assert index.readable("") == [1, 2, 6, 7, 8]
    assert index.readable("b") == [3, 4, 9, 10]


def test_a_brief_to_two_agents_is_read_in_the_work_of_both() -> None:
    call, brief = _brief("a", "b", "1")
    assert isinstance(brief, UserMessage)
    both = UserMessage(brief.text, author="a", author_kind="agent", to=["b", "c"])
    index = indexed(entries(call, both, AssistantMessage(agent="b", text="Yes.")))
    assert (index.readable(""), index.readable("b"), index.readable("c")) == ([1], [2, 3], [2])


@given(logs(max_size=40))
def test_each_entry_is_read_in_the_conversation_or_in_a_sub_agents_work(log: list[Entry]) -> None:
    index = indexed(log)
    lanes = {row.lane for row in index.outline.rows}
    places = [at for lane in lanes | {""} for at in index.readable(lane)]
    for at, kind in enumerate(index.kinds, 1):
        assert (at in places) == (kind in b"uasoeidc?") or kind in b"m"


def test_entries_that_another_thread_is_adding_are_not_read_yet() -> None:
    index = indexed(entries(UserMessage("One."), UserMessage("Two.")))
    index.kinds.append(ord("u"))  # as between two steps of `take`
    assert index.readable("") == [1, 2]
    assert index.filtered("messages", "") == [1, 2]
    assert index.of_kind("u") == [1, 2]
    index.whose.append(0)
    index.position = 3
    assert index.readable("") == [1, 2, 3]
    assert index.filtered("messages", "") == [1, 2, 3]


def test_an_entry_that_is_not_listed_is_shown_by_the_call_that_it_came_of() -> None:
    fails = AssistantMessage(agent="b", parts=[ToolCall(id="2", name="sh", arguments="{}")])
    index = indexed(
        entries(
            UserMessage("Please plan it.", to=["a"]),
            *_brief("a", "b", "1"),
            fails,
            ToolResult(call_id="2", text="No.", is_error=True),
            ToolResult(call_id="1", text="It failed.", is_error=True),
            AssistantMessage(agent="a", text="It failed."),
        )
    )
    assert [index.shown_in(at, "") for at in range(1, 8)] == [1, 2, 2, 2, 2, 2, 7]
    assert [index.shown_in(at, "b") for at in range(1, 8)] == [0, 0, 3, 4, 4, 0, 0]
    assert [index.worker_at(at) for at in range(1, 8)] == ["", "", "b", "b", "b", "", ""]
