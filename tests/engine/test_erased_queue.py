"""A message that waits for the lanes to come to rest, and is erased before it is said."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stenolog import Entry, Team, UserMessage
from stenolog.engine import Agent, EntryAppended, StreamDelta
from stenolog.models import Scripted
from tests.engine.given import answers, opened, run


def test_a_message_that_is_erased_while_it_waits_is_not_said_and_stops_no_run(tmp_path: Path) -> None:
    async def main() -> None:
        async for happened in team.run(conversation, "Go"):
            if isinstance(happened, StreamDelta) and not waits:
                waits.extend(await team.send(conversation, "a secret", on_input="queue"))
            elif isinstance(happened, EntryAppended) and happened.entry in waits:
                await asyncio.to_thread(conversation.erase, happened.entry.position)

    waits: list[Entry] = []
    team = Team([Agent("coder", llm=Scripted("one two three", piece=4, pause=0.1))])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        events = [entry.event for entry in conversation.entries()]
        said = [event.text for event in events if isinstance(event, UserMessage) and event.in_context]

        assert said == ["Go"]
        assert [answer.text for answer in answers(conversation)] == ["one two three"]
