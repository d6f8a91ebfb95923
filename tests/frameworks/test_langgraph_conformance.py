"""The official tests of a saver, in full: none of its capabilities is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.spec import __path__ as suites

import stenolog
from stenolog.contrib.langgraph import LangGraphSaver


def test_the_official_conformance_suite_passes_in_full(tmp_path: Path) -> None:
    made = iter(range(100))

    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        with stenolog.open(tmp_path / f"{next(made)}.db", synchronous="normal") as log:
            yield LangGraphSaver(log)

    report = asyncio.run(validate(checkpointer_test(name="stenolog")(saver)))

    assert {name: result.failures for name, result in report.results.items()} == {
        capability.value: [] for capability in Capability
    }
    assert [result.tests_skipped for result in report.results.values()] == [0] * len(Capability)
    assert all(result.tests_passed >= 5 for result in report.results.values())
    assert len(list(Path(suites[0]).glob("test_*.py"))) == len(Capability)
