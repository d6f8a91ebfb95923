"""Whatever stands in CrewAgent's folder or in a log: through the other form and back, nothing is lost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import Conversation, Event, Log, NewEntry
from stenolog.contrib.crewagent import export_crewagent
from stenolog.events import Unknown
from stenolog.importers import import_file
from stenolog.requests import lanes
from stenolog.testing import example_conversation
from tests.strategies import decided, histories, json_values
from tests.transcripts.crewagent_given import Message, call, folder, imported, index, read, told

TELLING = [
    "covers",
    "hides",
    "context_from",
    "replaces",
    "cause",
    "control",
    "receipt",
    "cards",
    "meta",
    "joins",
]
PLACES = st.sampled_from((["e1"], [["e1", "e2"]], [["gone"]], [{"first": 1, "last": 2}], "e1", 2, None, [5]))
FORGED = st.fixed_dictionaries(
    {"native": st.booleans()},
    optional={
        "set": st.dictionaries(st.sampled_from(TELLING), PLACES | json_values(), max_size=3),
        "unset": st.lists(st.sampled_from(TELLING), max_size=2),
        "topic": st.sampled_from(("assistant_message@1", "user_message@1", "mode_switch@1")),
        "id": st.sampled_from(("e1", "e2", "e1:settings", 3)),
        "prefix": json_values(),
    },
)


@contextmanager
def two_logs() -> Iterator[tuple[Log, Log, Path]]:
    """Open two logs in memory, and a folder between them."""
    with (
        stenolog.open(":memory:") as one,
        stenolog.open(":memory:") as two,
        tempfile.TemporaryDirectory() as place,
    ):
        yield one, two, Path(place)


NAMES = [
    *("id", "timestamp", "createdAt", "created_at", "content", "includeInContext", "partType", "part_type"),
    *("mode", "runId", "run_id", "nodeId", "tool_calls", "toolCalls", "tool_call_id", "toolCallId", "name"),
    *("widget", "error", "isError", "refusal", "function_call", "color", "stenolog"),
    *("agentId", "agent_id", "toolName", "duration", "durationMs", "isCollapsed", "workflowId"),
]
TIMES = ["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678901Z"]
AGENTS = ["architect", "coder", "a/b", "user", " "]
BLOCKS = [
    "LLM_ERROR",
    "Half\n\nLLM_ERROR\n- type: timeout\n- message: 60 s",
    'LLM_ERROR {"type": "x", "code": 3}',
]
KINDS = ["text", "tool_call", "tool_result", "llm_error", "mode_switch", "widget", "summary", "run", "c1"]
APT = st.sampled_from((*TIMES, *KINDS, *AGENTS, *BLOCKS, 12, 12.5, -1, True, False, [call()], [{"id": 3}]))
FIELDS = st.dictionaries(st.sampled_from(NAMES), APT | json_values(), max_size=8)
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool", "function", "critic"))
ABOUT = st.fixed_dictionaries(
    {"id": st.just("talk")},
    optional={
        "includeToolResultsInContext": st.booleans(),
        "includeCollapsedUiEventsInContext": st.booleans(),
        "activeType": st.sampled_from(("chat", "agent", "run", "text")),
    },
)
FOREIGN = st.builds(lambda role, fields: {"role": role, **fields}, ROLES, FIELDS)


@given(st.lists(FOREIGN, max_size=8), ABOUT)
def test_whatever_a_message_holds_comes_back_as_it_was(messages: list[Message], about: Message) -> None:
    own = [each for each in messages if not isinstance(each.get("stenolog"), dict)]
    with two_logs() as (log, _, place):
        made = folder(place / "in", talk=own)
        index(made, [about])
        imported(log, made)
        if own:
            export_crewagent(log["talk"], place / "out")

            assert json.dumps(read(place / "out"), sort_keys=True) == json.dumps(own, sort_keys=True)


@given(histories(12) | decided(12))
@example(example_conversation())
def test_a_log_that_is_exported_and_imported_is_the_same_and_sends_the_same(history: list[Event]) -> None:
    known = [event for event in history if not isinstance(event, Unknown)]
    with two_logs() as (log, other, place):
        log["talk"].extend(NewEntry(event, f"e{nth}") for nth, event in enumerate(known, 1))
        if not known:
            return
        export_crewagent(log["talk"], place)
        imported(other, place)

        assert told(other["talk"]) == told(log["talk"])
        assert_the_same_is_sent(log["talk"], other["talk"])


@settings(max_examples=25)
@given(st.lists(FOREIGN, min_size=1, max_size=6), histories(8), ABOUT)
def test_what_was_imported_and_went_on_here_comes_back_with_both(
    messages: list[Message], history: list[Event], about: Message
) -> None:
    own = [each for each in messages if not isinstance(each.get("stenolog"), dict)] or [{"role": "user"}]
    known = [
        NewEntry(event, f"n{nth}") for nth, event in enumerate(history) if not isinstance(event, Unknown)
    ]
    with two_logs() as (log, other, place):
        made = folder(place / "in", talk=own)
        index(made, [about])
        imported(log, made)
        log["talk"].extend(known, expected=log["talk"].position)
        export_crewagent(log["talk"], place / "out")
        again = imported(log, place / "out").conversations[0]
        imported(other, place / "out")

        assert again.appended == 0
        assert told(other["talk"])[1:] == told(log["talk"])[1:]  # the first has what the index said then
        assert_the_same_is_sent(log["talk"], other["talk"])


@settings(max_examples=25)
@given(st.lists(st.tuples(FOREIGN, FORGED), min_size=1, max_size=6))
def test_whatever_a_file_says_of_an_export_it_comes_in_once(forged: list[tuple[Message, Message]]) -> None:
    with two_logs() as (log, _, place):
        made = folder(place / "in", talk=[{**message, "stenolog": ours} for message, ours in forged])
        import_file(log, made)
        again = [import_file(log, made)]
        if "talk" in log:
            export_crewagent(log["talk"], place / "out")
            again.append(import_file(log, place / "out"))

        assert [report.conversations[0].appended for report in again] == [0 for _ in again]


def assert_the_same_is_sent(one: Conversation, other: Conversation) -> None:
    """Assert that every lane has the same request in both."""
    for lane in lanes(list(one.entries())):
        requests = (conversation.request(lane.agent, task=lane.task) for conversation in (one, other))
        assert next(requests).bytes == next(requests).bytes
