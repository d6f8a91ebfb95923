"""An MCP server that is down stops nobody else, and its tools come back with it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Team, ToolCall, UserMessage
from stenolog.chats import Console
from stenolog.models import Scripted
from stenolog.tools import MCPServer
from tests.tools.conftest import serving


async def ran(team: Team, conversation: stenolog.Conversation, words: str, to: str = "") -> None:
    async for _ in team.run(conversation, words, to=to):
        pass


def test_a_server_that_is_down_costs_no_message_and_stops_no_other_agent(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    down = MCPServer.http(f"http://127.0.0.1:{port}/mcp", connect=5.0)
    team = Team(
        [
            Agent("coder", llm=Scripted("I try.", endless=True), tools=[down]),
            Agent("writer", llm=Scripted("Yes?")),
        ]
    )

    async def main(log: stenolog.Log) -> None:
        async with team:
            await ran(team, log["t"], "Hello", to="writer")
            await ran(team, log["t"], "Write.", to="coder")

    with stenolog.open(tmp_path / "a.db") as log, caplog.at_level(logging.WARNING):
        asyncio.run(main(log))
        said = [
            entry.event.text
            for entry in log["t"].entries()
            if isinstance(entry.event, UserMessage | AssistantMessage)
        ]

    assert said == ["Hello", "Yes?", "Write.", "I try."]
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 1
    assert warned[0].startswith(f"coder goes on without some tools: MCP server http://127.0.0.1:{port}")


def test_the_tools_of_a_server_come_back_when_it_is_up(tmp_path: Path, port: int) -> None:
    server = MCPServer.http(f"http://127.0.0.1:{port}/mcp", connect=10.0)
    add = ToolCall(id="c1", name="add", arguments='{"a": 1, "b": 2}')
    team = Team([Agent("coder", llm=Scripted("None.", add, "Three."), tools=[server])])

    async def main(log: stenolog.Log) -> None:
        async with team:
            await ran(team, log["t"], "What tools are there?")
            assert log["t"].settings().cards["coder"].tools == ()
            with serving(port):
                await ran(team, log["t"], "And now?")
                await team.close()

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))

        assert "add" in [tool.name for tool in log["t"].settings().cards["coder"].tools or ()]
        assert [e.event.text for e in log["t"].entries() if isinstance(e.event, stenolog.ToolResult)] == ["3"]


def test_a_room_with_a_server_that_is_down_records_what_is_said(tmp_path: Path, port: int) -> None:
    down = MCPServer.http(f"http://127.0.0.1:{port}/mcp", connect=5.0)
    team = Team([Agent("coder", llm=Scripted("Here.", endless=True), tools=[down])])
    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(Console(team, log, conversation="room", lines=["hello"], show=lambda *_: None).serve())

        said = [entry.event.text for entry in log["room"].entries() if isinstance(entry.event, UserMessage)]
    assert said == ["hello"]
