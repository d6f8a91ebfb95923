"""Conversations as AG-UI events: in legal order whatever the log holds, and the same live as replayed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import BaseEvent, MessagesSnapshotEvent
from ag_ui.encoder import EventEncoder
from hypothesis import given, settings

import stenolog
from stenolog import Agent, Entry, Log, Team
from stenolog.adapters.frameworks.ag_ui_events import messages
from stenolog.domain.errors import StenologError
from stenolog.engine import RetryPolicy
from stenolog.errors import ModelError
from stenolog.events import CallRef, Control, ToolQuestion
from stenolog.frameworks import ag_ui_events, ag_ui_live, ag_ui_messages
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, Scripted
from stenolog.testing import entries
from tests.frameworks.ag_ui_client import api, asked
from tests.frameworks.ag_ui_law import faults
from tests.strategies import decided, logs

ASKED = stenolog.UserMessage(text="Which test fails?")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talk.db", synchronous="normal") as log:
        yield log


def look(where: str) -> str:
    """Look somewhere."""
    return f"a cat in the {where}"


def looking(name: str = "coder") -> Agent:
    """Return an agent that thinks, says something, calls a tool twice at once, and answers."""
    calls = [stenolog.ToolCall(id=f"c{n}", name="look", arguments=f'{{"where": "{n}"}}') for n in (1, 2)]
    script = Scripted(
        [stenolog.parts.ReasoningPart(text="A cat, perhaps. " * 3), "Let me see.", *calls], "I know it now."
    )
    return Agent(name, llm=script, tools=[look])


class Breaking(Model):
    """Breaks off in the middle of its first answer."""

    provider = "scripted"
    name = "breaking"

    def __init__(self, *, category: str = "overloaded") -> None:
        self.category = category
        self.asked = 0

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.asked += 1
        yield ResponseDelta(0, "text", "It is the ")
        if self.asked == 1:
            raise ModelError(self.category, "gone")
        yield ResponseDelta(0, "text", "cat.")
        yield ModelResponse((stenolog.TextPart(text="It is the cat."),))


def live(conversation: Any, agents: list[Agent], *message: str, **options: Any) -> list[BaseEvent]:
    """Return the events of a run, as they come."""

    async def main() -> list[BaseEvent]:
        async with Team(agents) as team:
            run = team.run(conversation, *message, to=[agent.name for agent in agents], id="m1")
            return [event async for event in ag_ui_live(conversation, run, run_id="r1", **options)]

    return asyncio.run(main())


def turn(conversation: Any, id: str, **options: Any) -> list[BaseEvent]:
    """Return the events of a turn with a baker, for a client that has said its message itself."""

    async def main() -> list[BaseEvent]:
        async with Team([Agent("baker", llm=Scripted("Rye."))]) as team:
            run = team.run(conversation, "Which bread?", id=id)
            return [event async for event in ag_ui_live(conversation, run, run_id=id, **options)]

    return asyncio.run(main())


def told(messages: Any) -> list[Any]:
    """Return messages in the API's form, sorted: parallel agents begin in any order."""
    return sorted(
        (json.loads(m.model_dump_json(by_alias=True)) for m in messages), key=lambda m: str(m["id"])
    )


@given(logs())
def test_the_events_of_any_prefix_of_any_log_are_in_legal_order(log: list[Entry]) -> None:
    found = {at: faults(api(ag_ui_events(log[:at]))) for at in range(len(log) + 1)}

    assert found == {at: [] for at in found}


@given(decided())
def test_the_events_of_a_decided_log_are_in_legal_order_and_have_every_word(history: list[Any]) -> None:
    log = entries(*history)
    events = api(ag_ui_events(log))
    told = [(e.get("delta", ""), str(e.get("content", "")), (e.get("value") or "")) for e in events]
    said = "\n".join(
        text + content + (value.get("text", "") if isinstance(value, dict) else "")
        for text, content, value in told
    )

    assert faults(events) == []
    assert all(
        part.text in said for event in history for part in getattr(event, "parts", ()) if part.type == "text"
    )


def test_the_checker_of_the_order_finds_planted_faults() -> None:
    begun = {"type": "RUN_STARTED"}
    start, end = ({"type": f"TEXT_MESSAGE_{verb}", "messageId": "m"} for verb in ("START", "END"))
    over = {"type": "RUN_FINISHED"}

    assert faults([begun, start, end, over]) == []
    assert faults([begun, start, over]) == ["2: RUN_FINISHED: [('TEXT_MESSAGE', 'm')] are open"]
    assert faults([begun, end, over]) == ["1: TEXT_MESSAGE_END: is not open"]
    assert faults([start]) == ["0: TEXT_MESSAGE_START: no run is on", "the run never ends"]


def test_what_streams_comes_as_it_streams_and_has_the_ids_of_a_replay(log: Log) -> None:
    conversation = log["cat"]

    events = live(conversation, [looking()], "Where is the cat?")
    pieces = [event["delta"] for event in api(events) if event["type"] == "TEXT_MESSAGE_CONTENT"]

    assert faults(api(events)) == []
    assert "I know it now." in "".join(pieces)
    assert [event["type"] for event in api(events)].count("REASONING_MESSAGE_CONTENT") == 3
    assert told(messages(events)) == told(ag_ui_messages(conversation.entries()))


def test_an_answer_that_breaks_off_is_closed_and_the_next_attempt_is_another_message(log: Log) -> None:
    conversation = log["cat"]

    events = live(conversation, [Agent("coder", llm=Breaking(), retries=RetryPolicy(base=0.0))], "Who is it?")
    said = [(m.id, m.content) for m in ag_ui_messages(conversation.entries()) if m.role == "assistant"]

    assert faults(api(events)) == []
    assert said == [("coder@2", "It is the "), ("coder@2~2", "It is the cat.")]
    [error] = [event["value"] for event in api(events) if event.get("name") == "stenolog.error"]
    assert (error["category"], "retry_at" in error) == ("overloaded", True)
    assert told(messages(events)) == told(ag_ui_messages(conversation.entries()))


def test_a_lane_that_fails_for_good_ends_the_run_with_its_error(log: Log) -> None:
    events = live(log["cat"], [Agent("coder", llm=Breaking(category="refused"))], "Who is it?")

    assert api(events)[-1] == {"type": "RUN_ERROR", "message": "coder: refused: gone", "code": "refused"}
    assert api(ag_ui_events(log["cat"].entries()))[-1] == api(events)[-1]


def test_agents_that_answer_at_once_have_their_messages_open_at_once(log: Log) -> None:
    conversation = log["cat"]
    agents = [Agent(name, llm=Scripted("One two three.", piece=4, pause=0.01)) for name in ("anna", "ben")]

    events = api(live(conversation, agents, "Count!"))
    spoken = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]

    assert faults(events) == []
    assert spoken.index("ben@2") < len(spoken) - 1 - spoken[::-1].index("anna@2")
    assert spoken.index("anna@2") < len(spoken) - 1 - spoken[::-1].index("ben@2")


def test_a_call_that_awaits_a_person_is_an_interrupt() -> None:
    card = stenolog.AgentCard(tools=[stenolog.Tool(name="deploy", approval=True)])
    call = stenolog.ToolCall(id="c1", name="deploy")
    log = entries(
        stenolog.ModeSwitch(joins=["coder"], cards={"coder": card}),
        ASKED,
        stenolog.AssistantMessage(agent="coder", cause=2, tool_calls=[call]),
    )

    assert api(ag_ui_events(log))[-1]["outcome"] == {
        "type": "interrupt",
        "interrupts": [{"id": "e3[0]", "reason": "tool_call", "message": "deploy", "toolCallId": "c1"}],
    }


def test_a_question_of_a_tool_is_an_interrupt_with_the_schema_of_its_answer() -> None:
    made = stenolog.AssistantMessage(
        agent="coder", cause=1, tool_calls=[stenolog.ToolCall(id="c1", name="book")]
    )
    question = ToolQuestion(text="Which?", choices=["8:15", "9:40"])
    control = Control(action="ask", call=CallRef(entry="e2"), question=question)
    asked = stenolog.UserMessage(author="coder", author_kind="agent", control=control)

    assert api(ag_ui_events(entries(ASKED, made, asked)))[-1]["outcome"]["interrupts"] == [
        {
            "id": "e2[0]@3",
            "reason": "input_required",
            "message": "Which?",
            "toolCallId": "c1",
            "responseSchema": {"type": "string", "enum": ["8:15", "9:40"]},
        }
    ]


def test_a_client_that_reconnects_gets_all_messages_its_own_too(log: Log) -> None:
    conversation = log["cat"]
    live(conversation, [looking()], "Where is the cat?")
    conversation.append(stenolog.UserMessage(text="And the dog?"), id="m2")
    before = ag_ui_messages(conversation.entries())

    async def main() -> list[BaseEvent]:
        async with Team([Agent("coder", llm=Scripted("Out."))]) as team:
            return [
                event
                async for event in ag_ui_live(
                    conversation, team.run(conversation, id="m3"), run_id="r2", seen=["m2"]
                )
            ]

    events = asyncio.run(main())
    snapshot = next(event for event in events if isinstance(event, MessagesSnapshotEvent))

    assert faults(api(events)) == []
    assert told(snapshot.messages) == told(before)
    assert [event["delta"] for event in api(events) if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["Out."]


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_users_message_is_sent_back_only_if_a_snapshot_would_remove_it(log: Log, snapshot: bool) -> None:
    conversation = log["bread"]
    first = turn(conversation, "m1", seen=["m1"])
    second = turn(conversation, "m3", seen=["m1", "baker@2", "m3"], snapshot=snapshot)

    assert [m.id for m in messages(first)] == ["baker@2"]
    assert [m.id for m in messages(second)] == (["m3", "baker@4"] if snapshot else ["baker@4"])


def test_a_run_that_raises_ends_with_an_error_and_raises(log: Log) -> None:
    async def failing() -> AsyncGenerator[stenolog.engine.StreamDelta, None]:
        yield stenolog.engine.StreamDelta("coder", 1, "Half a w")
        raise StenologError("the disk is full")

    heard: list[BaseEvent] = []

    async def main() -> None:
        events = ag_ui_live(log["cat"], failing(), run_id="r1")
        while True:
            heard.append(await anext(events))

    with pytest.raises(StenologError, match="disk"):
        asyncio.run(main())
    assert faults(api(heard)) == []
    assert api(heard)[-1] == {"type": "RUN_ERROR", "message": "the disk is full"}


async def test_a_client_that_closes_the_stream_stops_the_run(log: Log) -> None:
    conversation = log["cat"]

    async with Team([Agent("coder", llm=Scripted("word " * 99, pause=0.01))]) as team:
        events = ag_ui_live(conversation, team.run(conversation, "Talk!", to="coder"), run_id="r1")
        async for event in events:
            if event.type.value == "TEXT_MESSAGE_CONTENT":
                break
        await events.aclose()

    assert "assistant_message" not in [entry.event.kind for entry in conversation.entries()]


def test_a_snapshot_holds_what_is_in_context_and_each_edit_in_its_place() -> None:
    said = [stenolog.UserMessage(text=text) for text in ("v1", "popped", "next")]
    summary = stenolog.AssistantMessage(agent="a", text="SUM", purpose="summary")
    note = stenolog.UserMessage(text="for the screen", in_context=False)
    edit, pop = (
        stenolog.UserMessage(text="v2", replaces=2),
        stenolog.ModeSwitch(hides=[stenolog.events.PositionRange(first=3, last=3)]),
    )
    log = entries(stenolog.ModeSwitch(), *said, summary, note, edit, pop)

    assert [message.content for message in ag_ui_messages(log)] == ["v2", "next"]
    assert [e["name"] for e in api(ag_ui_events(log)) if e["type"] == "CUSTOM"][:2] == [
        "stenolog.summary",
        "stenolog.note",
    ]


def test_the_nodes_of_a_workflow_are_steps() -> None:
    nodes = [
        stenolog.ModeSwitch(active_run=stenolog.events.WorkflowRun(id="r", node=node))
        for node in ("plan", "write")
    ]
    log = entries(*nodes, stenolog.ModeSwitch(active_run=None))
    steps = [(e["type"], e["stepName"]) for e in api(ag_ui_events(log)) if e["type"].startswith("STEP")]

    assert steps == [(f"STEP_{verb}", node) for node in ("plan", "write") for verb in ("STARTED", "FINISHED")]


def test_the_encoder_of_the_protocol_takes_them() -> None:
    lines = [EventEncoder().encode(event) for event in ag_ui_events(entries(ASKED))]

    assert lines[1] == 'data: {"type":"TEXT_MESSAGE_START","messageId":"e1","role":"user"}\n\n'


def test_without_its_package_the_error_is_the_line_that_installs_it() -> None:
    program = (
        "import sys; sys.modules['ag_ui'] = None; import stenolog.frameworks as given\n"
        "try: given.ag_ui_events([])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == 'ag-ui-protocol is not installed: pip install "stenolog[ag-ui]"\n'


@pytest.mark.slow
def test_the_official_client_accepts_them_and_has_the_same_messages(log: Log) -> None:
    conversation, broken, many = log["cat"], log["broken"], log["many"]
    runs = [
        live(conversation, [looking()], "Where is the cat?"),
        live(broken, [Agent("coder", llm=Breaking(), retries=RetryPolicy(base=0.0))], "Who is it?"),
        live(many, [looking("anna"), looking("ben")], "Where?"),
        live(log["failed"], [Agent("coder", llm=Breaking(category="refused"))], "Who is it?"),
    ]
    replays = [[*log[name].entries()] for name in ("cat", "broken", "many", "failed")]
    histories = _sampled(300)
    streams = [*runs, *map(ag_ui_events, replays), *map(ag_ui_events, histories)]

    answers = asked(streams)

    assert [answer["error"] for answer in answers] == [None] * len(streams)
    ours = [told(messages(ag_ui_events(entries))) for entries in (*replays, *replays, *histories)]
    assert [sorted(answer["messages"], key=lambda m: str(m["id"])) for answer in answers] == ours


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", [True, False])
def test_the_official_client_keeps_what_the_user_said_from_turn_to_turn(log: Log, snapshot: bool) -> None:
    has: list[dict[str, Any]] = []
    for id in ("m1", "m3", "m5"):
        has = [*has, {"id": id, "role": "user", "content": "Which bread?"}]
        events = turn(log["bread"], id, seen=[message["id"] for message in has], snapshot=snapshot)
        [answer] = asked([events], having=has)
        assert answer["error"] is None
        has = answer["messages"]

    ids = ["m1", "baker@2", "m3", "baker@4", "m5", "baker@6"]
    assert [(message["id"], message["content"]) for message in has] == [
        (id, "Which bread?" if id.startswith("m") else "Rye.") for id in ids
    ]


@pytest.mark.slow
def test_the_official_client_refuses_what_is_out_of_order() -> None:
    events = ag_ui_events(entries(ASKED))

    answers = asked([events[::-1], [event for event in events if event.type.value != "TEXT_MESSAGE_START"]])

    assert [bool(answer["error"]) for answer in answers] == [True, True]


def _sampled(number: int) -> list[list[Entry]]:
    """Return so many prefixes of logs of any kind."""
    found: list[list[Entry]] = []

    @settings(max_examples=number)
    @given(logs())
    def collect(log: list[Entry]) -> None:
        found.extend(log[:at] for at in range(len(log), 0, -3))

    collect()
    assert len(found) >= number
    return found[:: len(found) // number][:number]
