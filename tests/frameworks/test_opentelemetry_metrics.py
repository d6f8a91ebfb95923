"""Metrics of building requests, through OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import stenolog
from stenolog import AssistantMessage, Log, UserMessage
from stenolog.context import LastN
from stenolog.frameworks import measure_requests

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
