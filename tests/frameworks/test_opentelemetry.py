"""Spans and metrics of OpenTelemetry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.trace import SpanKind, StatusCode

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    LlmError,
    Log,
    ModeSwitch,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import LastN
from stenolog.engine import Agent, Team, regenerate
from stenolog.errors import ConversationNotFoundError, OperationalError
from stenolog.events import PositionRange
from stenolog.frameworks import export_spans, measure_requests
from stenolog.models import Scripted
from tests.engine.given import Clock, opened, run, run_team


def look(path: str) -> str:
    """Look at a file."""
    return f"{path}: 3 lines"


def work(path: Path, *messages: str) -> None:
    """Let a team work on each message, in a log that was just opened."""
    clock, call = Clock(), ToolCall(id="c1", name="look", arguments='{"path": "a"}')
    with opened(path, clock) as conversation:
        for message in messages:
            model = Scripted([call], "Three lines.", name="small")
            run(
                run_team(
                    Team([Agent("coder", llm=model, tools=[look])], world=clock.world), conversation, message
                )
            )


def exported(path: Path, **options: object) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    with opened(path) as conversation:
        count = export_spans(conversation, exporter, **options)  # type: ignore[arg-type]
    found = list(exporter.get_finished_spans())
    assert count == len(found)
    return found


def test_a_run_of_the_engine_is_a_trace(tmp_path: Path) -> None:
    work(tmp_path / "talks.db", "How long is it?")

    found = exported(tmp_path / "talks.db", resource=Resource({"service.name": "bakery"}))

    assert [span.name for span in found] == [
        "chat small",
        "execute_tool look",
        "chat small",
        "invoke_agent coder",
    ]
    assert found[0].kind is SpanKind.CLIENT
    assert found[0].parent is not None
    assert found[0].parent.span_id == found[-1].get_span_context().span_id  # type: ignore[union-attr]
    assert found[0].resource.attributes["service.name"] == "bakery"
    whole = json.loads(found[0].to_json())
    assert whole["attributes"]["gen_ai.agent.name"] == "coder"
    assert whole["start_time"] <= whole["end_time"]


def test_all_spans_are_of_one_program(tmp_path: Path) -> None:
    work(tmp_path / "talks.db", "How long is it?")

    assert len({span.resource for span in exported(tmp_path / "talks.db")}) == 1


def test_every_attribute_of_generative_ai_is_one_of_the_conventions(tmp_path: Path) -> None:
    work(tmp_path / "talks.db", "How long is it?")
    since = {"gen_ai.conversation.compacted", "gen_ai.usage.cache_write.input_tokens"}  # v0.1.0 of their own
    known = since | {value for name, value in vars(conventions).items() if name.startswith("GEN_AI_")}
    known -= {"gen_ai.agent.id", "gen_ai.workflow.name", "gen_ai.usage.cache_creation.input_tokens"}

    used = {name for span in exported(tmp_path / "talks.db", content=True) for name in span.attributes or {}}

    assert {name for name in used if not name.startswith("stenolog.")} - known == set()
    assert {"gen_ai.output.messages", "gen_ai.tool.call.arguments"} <= used


def test_a_failure_has_its_status_and_its_kind(tmp_path: Path) -> None:
    with opened(tmp_path / "talks.db") as conversation:
        conversation.append(AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="look")]))
        conversation.append(ToolResult(call_id="c1", text="no such file", is_error=True))
        conversation.append(LlmError(agent="coder", category="timeout", message="no token for 60 s"))

    found = exported(tmp_path / "talks.db")

    errors = [
        (span.name, (span.attributes or {}).get("error.type"), span.status.description)
        for span in found
        if span.status.status_code is StatusCode.ERROR
    ]
    assert errors == [
        ("execute_tool look", "tool_error", None),
        ("chat", "timeout", "no token for 60 s"),
        ("invoke_agent coder", "timeout", None),
    ]


def test_a_name_is_told_each_span_once_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    work(path, "One")
    first = exported(path, name="collector")
    nothing = exported(path, name="collector")
    work(path, "Two")
    second = exported(path, name="collector")

    assert [len(first), len(nothing), len(second)] == [4, 0, 4]
    ids = [span.get_span_context().span_id for span in first + second]  # type: ignore[union-attr]
    assert ids == [span.get_span_context().span_id for span in exported(path)]  # type: ignore[union-attr]


def test_a_fork_tells_what_was_done_in_it(tmp_path: Path) -> None:
    path, clock, wish = tmp_path / "talks.db", Clock(), "Shorter."
    work(path, "One", "Two")
    model = Scripted("Three.", name="small")
    with opened(path, clock) as conversation:
        asyncio.run(
            regenerate(conversation, conversation.position, Agent("coder", llm=model, tools=[look]), wish)
        )
        (fork,) = [name for name in conversation.log.names(archived=True) if name != conversation.name]
        exporters = [InMemorySpanExporter() for _ in range(2)]
        counts = [
            export_spans(conversation.log[each], x)
            for each, x in zip((conversation.name, fork), exporters, strict=True)
        ]

    both = [span.get_span_context().span_id for x in exporters for span in x.get_finished_spans()]  # type: ignore[union-attr]
    assert counts == [8, 2]
    assert len(set(both)) == len(both)


class Down(SpanExporter):
    """A collector that takes nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE


def test_what_the_collector_did_not_take_is_told_again(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    work(path, "One")

    with opened(path) as conversation, pytest.raises(OperationalError, match="Down has not taken 4 spans"):
        export_spans(conversation, Down(), name="collector")

    assert len(exported(path, name="collector")) == 4


def test_a_conversation_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with (
        stenolog.open(tmp_path / "talks.db") as log,
        pytest.raises(ConversationNotFoundError, match="nobody"),
    ):
        export_spans(log["nobody"], InMemorySpanExporter())


NAMES = ("duration", "messages", "size", "window")


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    made = InMemoryMetricReader()
    yield made
    made.shutdown()


def measured(log: Any, reader: InMemoryMetricReader) -> Any:
    return measure_requests(log, MeterProvider([reader]))


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """Return the data points of each histogram, by the last part of its name."""
    data = reader.get_metrics_data()
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
    return {metric.name.rpartition(".")[2]: [*metric.data.data_points] for metric in found}


def sources(reader: InMemoryMetricReader) -> dict[str, int]:
    return {p.attributes["stenolog.request.source"]: p.count for p in points(reader).get("duration", [])}


def spoken(log: Log, number: int = 3) -> None:
    log["demo"].extend(
        event
        for n in range(number)
        for event in (
            UserMessage(text=f"Question {n}", to=["coder"]),
            AssistantMessage(agent="coder", text="Yes."),
        )
    )


def test_building_time_sizes_and_cache_hits_are_measured_once_that_is_switched_on(
    tmp_path: Path, reader: InMemoryMetricReader
) -> None:
    with stenolog.open(tmp_path / "t.db") as log:
        spoken(log)
        log["demo"].request("coder")
        assert points(reader) == {}
        end = measured(log, reader)
        log["demo"].append(UserMessage(text="More.", to=["coder"]))
        request = log["demo"].request("coder")
        log["demo"].request("coder", policy=LastN(2))
        end()
        log["demo"].request("coder")

        assert sources(reader) == {"memory": 1, "log": 1}
        by_name = {name: point for name, (point, *_) in points(reader).items()}
        assert sorted(by_name) == sorted(NAMES)
        assert dict(by_name["size"].attributes) == {
            "gen_ai.agent.name": "coder",
            "stenolog.request.api": request.api,
            "stenolog.request.source": "memory",
        }
        sums = [by_name[name].sum for name in ("messages", "size", "window")]
        assert sums == [7, len(request.bytes), 7]
        assert by_name["duration"].sum > 0


def test_a_window_that_another_process_left_a_snapshot_of_is_told_apart(
    tmp_path: Path, reader: InMemoryMetricReader
) -> None:
    with stenolog.open(tmp_path / "t.db") as log:
        spoken(log, 400)
        log["demo"].request("coder", policy=LastN(2))
    with stenolog.open(tmp_path / "t.db") as log:
        measured(log, reader)
        log["demo"].request("coder", policy=LastN(2))

    assert sources(reader) == {"snapshot": 1}


def test_what_a_model_was_sent_is_exported_for_those_who_ask(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    card = AgentCard(
        provider="anthropic", persona="Be brief.", tools=[Tool(name="look", description="Look.")]
    )
    with opened(path) as conversation:
        conversation.append(ModeSwitch(joins=["coder"], cards={"coder": card}))
        conversation.append(UserMessage(text="How long?", to=["coder"]))
        conversation.append(AssistantMessage(agent="coder", text="Three lines."))

    with_tools, without = exported(path, content=True, tools=True)[0], exported(path, content=True)[0]

    sent = {name: value for name, value in (with_tools.attributes or {}).items() if isinstance(value, str)}
    assert json.loads(sent["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "How long?"}]}
    ]
    assert json.loads(sent["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert [tool["name"] for tool in json.loads(sent["gen_ai.tool.definitions"])] == ["look"]
    assert {*sent} - {*(without.attributes or {})} == {"gen_ai.tool.definitions"}


def test_an_answer_that_nothing_asked_for_was_sent_no_note_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with opened(path) as conversation:
        conversation.append(UserMessage(text="How long?", to=["coder"]))
        conversation.append(AssistantMessage(agent="coder", text="Three lines."))
        conversation.append(AssistantMessage(agent="coder", text="Or four."))

    spans = [span.attributes or {} for span in exported(path, content=True) if span.name == "chat"]

    texts = [
        part["content"]
        for span in spans
        for message in json.loads(str(span["gen_ai.input.messages"]))
        for part in message["parts"]
    ]
    assert texts == ["How long?", "How long?", "Three lines."]
    assert [span["stenolog.input.rebuilt"] for span in spans] == [True, True]


def test_an_answer_after_a_compaction_says_so(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with opened(path) as conversation:
        conversation.append(UserMessage(text="One", to=["coder"]))
        conversation.append(AssistantMessage(agent="coder", text="1"))
        covers = [PositionRange(first=1, last=2)]
        conversation.append(AssistantMessage(agent="coder", purpose="summary", covers=covers, text="Ones."))
        conversation.append(UserMessage(text="Two", to=["coder"]))
        conversation.append(AssistantMessage(agent="coder", text="2"))

    found = [(span.attributes or {}) for span in exported(path) if span.name == "chat"]

    assert [each.get("gen_ai.conversation.compacted") for each in found] == [None, None, True]
