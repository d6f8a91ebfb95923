"""For tests: an example event of each kind, a whole conversation, and logs with fixed ids, times and digests.

>>> from stenolog import AssistantMessage, UserMessage
>>> first, second = entries(UserMessage(text="Hi"), AssistantMessage(agent="coder", text="Hello"))
>>> second.position, second.id, second.time.isoformat()
(2, 'e2', '2026-01-01T09:00:02+00:00')
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from stenolog.domain import parts, values
from stenolog.domain.card import AgentCard
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import GENESIS, Entry, NewEntry, Record, make_record, microseconds, to_entry
from stenolog.domain.events import (
    AssistantMessage,
    Event,
    Known,
    LlmError,
    ModeSwitch,
    ToolResult,
    UserMessage,
)

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SALT = bytes(16)
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def entries(*events: Event | NewEntry, conversation: str = "demo") -> list[Entry]:
    """Return the events as a log holds them; a `NewEntry` brings its own id and time.

    Positions count from 1; ids are e1, e2 …; entry n is n seconds after `START`; digests are chained. No
    opening is added. Raises `InvalidEventError` for an event that cannot be stored.
    """
    return [to_entry(conversation, record) for record in records(*events)]


def records(*events: Event | NewEntry) -> list[Record]:
    """Return the events as stored records."""
    new = [event if isinstance(event, NewEntry) else NewEntry(event) for event in events]
    return list(_records(new))


def _records(new: Iterable[NewEntry]) -> Iterable[Record]:
    digest = GENESIS
    for position, item in enumerate(new, 1):
        at = microseconds(item.time or START + timedelta(seconds=position))
        topic, payload = REGISTRY.dump(item.event)
        record = make_record(digest, position, item.id or f"e{position}", at, topic, SALT, payload)
        digest = record.digest
        yield record


def examples() -> dict[str, Known]:
    """Return one event of each kind, by kind, with every field given."""
    made: list[Known] = [_user_message(), _assistant_message(), _tool_result(), _llm_error(), _mode_switch()]
    return {event.kind: event for event in made}


def example_conversation() -> list[Event]:
    """Return a conversation with all five kinds, two agents, approvals, a retry, a cancel, and joins."""
    shell = values.Tool(name="shell", description="Run a command.", parameters={"type": "object"})
    deploy = values.Tool(name="deploy", description="Ship it.", parameters={"type": "object"}, approval=True)
    return [
        ModeSwitch(
            mode="chat",
            title="A failing test",
            joins=["coder", "reviewer"],
            cards={
                "coder": AgentCard(model="gpt-5", tools=[shell, deploy]),
                "reviewer": AgentCard(model="gpt-5"),
            },
        ),
        UserMessage(text="Which test fails?", to=["coder"]),
        AssistantMessage(
            agent="coder", text="I run them.", cause=2, tool_calls=[_call("c1", "shell", "pytest")]
        ),
        ToolResult(call_id="c1", name="shell", text="1 failed", is_error=True),
        LlmError(agent="coder", category="overloaded", retry_at=START + timedelta(minutes=1)),
        LlmError(agent="coder", category="timeout", message="no token for 60 s", text="It is", attempt=2),
        UserMessage(control=values.Control(action="continue", agent="coder")),
        AssistantMessage(agent="coder", text="It is test_dates. Reviewer?", to=["reviewer"]),
        AssistantMessage(agent="reviewer", text="The parser reads local time."),
        ModeSwitch(mode="agent"),
        UserMessage(text="Ship it.", to=["coder"]),
        AssistantMessage(
            agent="coder",
            tool_calls=[
                _call("d1", "deploy", "test"),
                _call("d1", "deploy", "live"),
                _call("c2", "shell", "ls"),
            ],
        ),
        UserMessage(control=values.Control(action="approve", call=values.CallRef(entry="e12", index=0))),
        UserMessage(control=values.Control(action="refuse", call=values.CallRef(entry="e12", index=1))),
        ToolResult(call_id="d1", call=values.CallRef(entry="e12", index=1), text="Refused.", is_error=True),
        ToolResult(call_id="d1", text="Shipped."),
        ToolResult(call_id="c2", text="README.md"),
        AssistantMessage(agent="coder", text="Now the docs.", tool_calls=[_call("c3", "shell", "make docs")]),
        ToolResult(call_id="c3", call=values.CallRef(entry="e18"), text="Cancelled.", is_error=True),
        UserMessage(control=values.Control(action="cancel")),
        AssistantMessage(
            agent="coder",
            purpose="summary",
            covers=[values.PositionRange(first=2, last=9)],
            text="test_dates fails.",
        ),
        ModeSwitch(leaves=["reviewer"]),
        UserMessage(text="Thank you, all."),
        AssistantMessage(agent="coder", text="You are welcome."),
        ModeSwitch(joins=["reviewer"], hides=[values.PositionRange(first=23, last=24)]),
    ]


def _call(id: str, name: str, command: str) -> parts.ToolCall:
    return parts.ToolCall(id=id, name=name, arguments=json.dumps({"cmd": command}))


def _user_message() -> UserMessage:
    return UserMessage(
        parts=(
            parts.TextPart(text="What is on the picture?"),
            parts.ImagePart(media_type="image/jpeg", blob=SHA256, url="https://example.org/cat.jpg"),
            parts.FilePart(
                name="cat.pdf", media_type="application/pdf", blob=SHA256, url="https://example.org/cat.pdf"
            ),
        ),
        author="Ada",
        author_kind="agent",
        to=("coder", "coder/docs"),
        control=values.Control(
            action="approve", call=values.CallRef(entry="e3", index=1), agent="coder", task="docs"
        ),
        cause=1,
        replaces=2,
        **_common(),
    )


def _assistant_message() -> AssistantMessage:
    return AssistantMessage(
        agent="coder",
        task="docs",
        parts=(
            parts.ReasoningPart(text="Hm.", provider="openai", id="r1", signature="c2ln", encrypted="ZW5j"),
            parts.TextPart(text="I look at it."),
            parts.ToolCall(id="c1", name="look", arguments='{"at": "cat"}'),
            parts.RefusalPart(text="I would rather not."),
            parts.ProviderPart(provider="openai", model="gpt-5", raw='{"type":"web_search_call"}'),
        ),
        cause=2,
        purpose="summary",
        covers=(values.PositionRange(first=1, last=1),),
        to=("tester",),
        model="gpt-5",
        finish_reason="tool_calls",
        usage=values.Usage(input=100, output=20, cache_read=64, cache_write=32, reasoning=8),
        duration_ms=1500,
        first_token_ms=300,
        session="s1",
        replaces=1,
        receipt=_receipt(),
        **_common(),
    )


def _tool_result() -> ToolResult:
    return ToolResult(
        call_id="c1",
        call=values.CallRef(entry="e2", index=0),
        to=("coder",),
        name="look",
        parts=(parts.TextPart(text="A cat."),),
        is_error=True,
        blob=SHA256,
        duration_ms=12,
        **_common(),
    )


def _llm_error() -> LlmError:
    return LlmError(
        agent="coder",
        task="docs",
        category="timeout",
        message="no token for 60 s",
        parts=(parts.TextPart(text="The cat is"),),
        cause=2,
        model="gpt-5",
        attempt=2,
        retry_at=START,
        usage=values.Usage(input=100),
        duration_ms=60_000,
        session="s1",
        receipt=_receipt(),
        **_common(),
    )


def _mode_switch() -> ModeSwitch:
    look = values.Tool(name="look", description="Look at it.", parameters={"type": "object"}, approval=True)
    card = AgentCard(
        model="gpt-5",
        provider="openai",
        persona="You look at cats.",
        tools=(look,),
        parameters={"temperature": 0.5},
        policy={"history": {"kind": "last", "n": 20}},
    )
    return ModeSwitch(
        agents=("coder",),
        mode="agent",
        cards={"coder": card, "tester": None},
        joins=("coder",),
        leaves=("tester",),
        scope="addressed",
        active_run=values.WorkflowRun(
            id="r7", directive="Find the cat.", node="n1", brief="Look.", context="A garden."
        ),
        handoff="The cat is yours.",
        turns=values.TurnPolicy(rule="round_robin", options={"pass_token": "....."}),
        title="Cats",
        context_from=2,
        hides=(values.PositionRange(first=1, last=1),),
        parent=values.ConversationRef(conversation="pets", position=4, digest=SHA256),
        fork=True,
        **_common(),
    )


def _receipt() -> values.Receipt:
    return values.Receipt(
        view=2,
        sha256=SHA256,
        api="openai-chat@1",
        pipeline="1",
        counter="chars@1",
        policy={"history": {"kind": "last", "n": 20}},
        plan={"cut": 1},
    )


def _common() -> dict[str, Any]:
    """Return the fields that every event may carry."""
    return {
        "meta": {"shop": {"order": 7, "price": 1.5, "paid": None}},
        "tags": ("cat",),
        "run": "r7",
        "node": "n1",
        "in_context": False,
        "source": values.Origin(system="openai-messages", id="m1", role="assistant", lines=("m1", "m2")),
    }
