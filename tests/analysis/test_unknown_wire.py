"""A recorded run over a wire of the application's own is run again where that wire is given."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, Team
from stenolog.domain.errors import CallerError
from stenolog.models import Scripted
from stenolog.projections.analysis.rerun import Here, rerun
from stenolog.projections.requests import WIRES
from stenolog.projections.requests.wires import Wire

BEDROCK = WIRES["openai-chat"]._replace(name="bedrock")


class Own(Scripted):
    """A model with a wire of its own."""

    def __init__(self, wire: Wire) -> None:
        super().__init__("Yes.")
        self.wire = wire


def test_rerun_names_a_wire_that_is_not_known_and_works_where_it_is_given(tmp_path: Path) -> None:
    async def main(log: stenolog.Log) -> None:
        async with Team([Agent("a", llm=Own(BEDROCK))]) as team:
            await team.ask(log["t"], "Hello")

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        entries = [*log["t"].entries()]

    with pytest.raises(CallerError, match=r"wire 'bedrock', which is not known here .*Here\(wires="):
        rerun(entries)
    assert rerun(entries, here=Here(wires={**WIRES, "bedrock": BEDROCK})).divergence is None
