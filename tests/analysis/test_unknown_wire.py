"""A recorded run over an API of the application's own is run again where that API is given."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, Team
from stenolog.domain.errors import CallerError
from stenolog.models import Scripted
from stenolog.projections.analysis.retry import Here, cases, tried
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.base import Format

BEDROCK = FORMATS["openai-chat"]._replace(name="bedrock")


class Own(Scripted):
    """A model with an API of its own."""

    def __init__(self, api: Format) -> None:
        super().__init__("Yes.")
        self.api = api


def test_retry_names_a_wire_that_is_not_known_and_works_where_it_is_given(tmp_path: Path) -> None:
    async def main(log: stenolog.Log) -> None:
        async with Team([Agent("a", llm=Own(BEDROCK))]) as team:
            await team.ask(log["t"], "Hello")

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        entries = [*log["t"].entries()]

    with pytest.raises(CallerError, match=r"API 'bedrock', which is not known here .*Here\(apis="):
        tried(entries, cases(entries))
    known = Here(apis={**FORMATS, "bedrock": BEDROCK})
    assert {one.what for one in tried(entries, cases(entries), means=known)} == {"same"}
