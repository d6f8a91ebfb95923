"""Values under keys that an application names are never written to any file of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import (
    Agent,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    Log,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.queries.outputs import store_large
from stenolog.domain.redaction import REDACTED, redacted, without
from stenolog.domain.values import CallRef, Control
from stenolog.errors import InvalidEventError
from stenolog.events import dump_event
from stenolog.models import Scripted
from stenolog.parts import ProviderPart
from stenolog.testing import examples
from stenolog.tools import tool
from tests.file_bytes import files_with

KEYS = ("password", "API_key")
SECRET = "swordfish"
NESTED = json.dumps({"user": "ann", "login": [{"Password": SECRET}, {"api_key": {"deep": SECRET}}]})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return stenolog.open(tmp_path / "talks.db", redact=KEYS)


def check_files(log: Log) -> None:
    """Check that no file of the log has the value, while it is open and once it is closed."""
    folder = Path(log.path).parent
    assert files_with(folder, SECRET.encode()) == []
    log.close()
    assert files_with(folder, SECRET.encode()) == []


EVENTS: list[Event] = [
    UserMessage(text="hi", meta={"app": {"password": SECRET}}),
    AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="login", arguments=NESTED)]),
    AssistantMessage(agent="a", parts=[ProviderPart(provider="openai", raw=NESTED)]),
    ToolResult(call_id="c", text=NESTED),
    LlmError(agent="a", category="other", parts=[ToolCall(id="c", name="login", arguments=NESTED)]),
    UserMessage(control=Control(action="approve", call=CallRef(entry="e"), arguments=NESTED)),
]


def written(entry: Entry) -> str:
    """Return an event as it is stored, in full: its `repr` is cut."""
    return dump_event(entry.event)[1].decode()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_the_value_is_in_no_file_and_what_is_returned_is_what_is_stored(log: Log, event: Event) -> None:
    entry = log["demo"].append(event)
    assert SECRET not in written(entry)
    assert REDACTED in written(entry)
    assert log["demo"].entry(entry.position) == entry
    check_files(log)


def test_other_values_stay(log: Log) -> None:
    entry = log["demo"].append(ToolResult(call_id="c", text=NESTED))
    assert isinstance(entry.event, ToolResult)
    assert json.loads(entry.event.text) == {
        "user": "ann",
        "login": [{"Password": REDACTED}, {"api_key": REDACTED}],
    }


def test_free_text_is_not_looked_through(log: Log) -> None:
    entry = log["demo"].append(UserMessage(text='{"password": "said aloud"}'))
    assert "said aloud" in written(entry)


def test_a_repeated_append_is_still_one(log: Log) -> None:
    event = ToolResult(call_id="c", text=NESTED)
    assert log["demo"].append(event, id="x") == log["demo"].append(event, id="x")


def test_the_long_output_of_a_tool_is_redacted_in_its_blob_too(log: Log) -> None:
    long = json.dumps({"password": SECRET, "rows": ["word " * 10] * 1_000})
    result = store_large(log, ToolResult(call_id="c", text=long))
    log["demo"].append(result)
    assert REDACTED.encode() in log.blobs[result.blob]
    check_files(log)


def test_what_the_tool_of_an_engine_gives_back_is_redacted(log: Log) -> None:
    @tool
    def login() -> dict[str, object]:
        """Log in."""
        return {"api_key": SECRET, "rows": ["word " * 10] * 1_000}

    model = Scripted(ToolCall(id="c", name="login"), "Done.")
    Team([Agent("a", llm=model, tools=[login])]).ask_sync(log["demo"], "go")
    assert [item.status for item in log["demo"].timeline() if item.kind == "tool"] == ["ok"]
    check_files(log)


@pytest.mark.parametrize("redact", ["password", [""], [1]])
def test_what_is_no_list_of_keys_is_refused(tmp_path: Path, redact: object) -> None:
    with pytest.raises(InvalidEventError, match="expected a list of keys"):
        stenolog.open(tmp_path / "talks.db", redact=redact)  # type: ignore[arg-type]


@pytest.mark.parametrize("event", examples().values(), ids=examples())
def test_an_event_without_such_keys_stays_the_same(event: Event) -> None:
    assert redacted(event, frozenset(("no such key",))) is event


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["password", "a", "b"]), inner),
)


@given(JSON)
def test_redacting_twice_is_redacting_once_and_no_value_is_left(value: object) -> None:
    def under(value: object) -> Iterator[object]:
        if isinstance(value, dict):
            yield from (inner for key, inner in value.items() if key == "password")
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from under(inner)

    once = without(value, {"password"})
    assert without(once, {"password"}) == once
    assert set(map(repr, under(once))) <= {repr(REDACTED), "None"}
