"""Conversations as AG-UI's serialized runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Event,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from hypothesis import given
from pydantic import TypeAdapter

import stenolog
from stenolog import AssistantMessage, Entry, ModeSwitch, UserMessage
from stenolog.adapters.frameworks.ag_ui_events import messages
from stenolog.frameworks import ag_ui_events, ag_ui_runs
from stenolog.importers import EXPORTERS
from tests.strategies import logs


def restored(runs: list[Any]) -> Iterator[BaseEvent]:
    """Yield the events of serialized runs, with the messages that each was given."""
    for event in runs:
        yield event
        run_input: Any = getattr(event, "input", None)
        for said in run_input.messages if run_input else ():
            yield TextMessageStartEvent(message_id=said.id, role="user", name=said.name)
            if said.content:
                yield TextMessageContentEvent(message_id=said.id, delta=said.content)
            yield TextMessageEndEvent(message_id=said.id)


@given(logs(12))
def test_serialized_runs_add_up_to_the_messages_of_a_replay(log: list[Entry]) -> None:
    runs = ag_ui_runs(log)
    dumped = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in runs]

    again = TypeAdapter(list[Event]).validate_python(dumped)
    starts = [event for event in again if isinstance(event, RunStartedEvent)]

    assert [start.parent_run_id for start in starts] == [None, *(start.run_id for start in starts)][
        : len(starts)
    ]
    by_id, replayed = (
        {message.id: message for message in messages(found)} for found in (restored(again), ag_ui_events(log))
    )
    assert by_id == replayed


def test_an_export_names_the_run_that_each_goes_on_from_and_says_each_message_once() -> None:
    log = stenolog.open(":memory:")
    for asked_for, answer in (("Which?", "Rye."), ("And else?", "Oat.")):
        log["talk"].append(ModeSwitch(title=asked_for), expected=log["talk"].position)
        log["talk"].append(UserMessage(text=asked_for, to=["baker"]))
        log["talk"].append(AssistantMessage(agent="baker", text=answer))
    stream, write = io.StringIO(), EXPORTERS["ag-ui"].write
    assert write is not None

    write(log["talk"], stream, "")
    log.close()

    found = json.loads(stream.getvalue())
    starts = [event for event in found if event["type"] == "RUN_STARTED"]
    assert [start.get("parentRunId") for start in starts] == [None, starts[0]["runId"]]
    assert [[said["content"] for said in start["input"]["messages"]] for start in starts] == [
        ["Which?"],
        ["And else?"],
    ]
    assert [event["delta"] for event in found if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["Rye.", "Oat."]
    assert [event["type"] for event in found].count("STATE_SNAPSHOT") == 2
