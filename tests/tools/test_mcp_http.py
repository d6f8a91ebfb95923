"""An MCP server over streamable HTTP on this machine: a real one, called, killed, started again."""

from __future__ import annotations

import asyncio
import http.server
import logging
import os
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent

import stenolog
from stenolog import Agent, AssistantMessage, Team, ToolCall, UserMessage
from stenolog.adapters.tools.base import Attachment, ToolOutput
from stenolog.adapters.tools.functions import opened
from stenolog.adapters.tools.mcp import MCPServer
from stenolog.adapters.tools.mcp.contents import outcome_from
from stenolog.chats import Console
from stenolog.domain.errors import CallerError, ToolError
from stenolog.models import Scripted
from tests.tools.conftest import serving
from tests.tools.given import text, texts
from tests.tools.test_mcp_stdio import ask


def server(port: int, **options: Any) -> MCPServer:
    return MCPServer.http(f"http://127.0.0.1:{port}/mcp", **options)


def test_a_server_is_called_killed_and_called_again(port: int, tmp_path: Any) -> None:
    noted = tmp_path / "noted"

    async def main() -> None:
        mine = server(port)
        with serving(port) as process:
            tools = await opened([mine])
            assert text(await ask(tools, "add", a=1, b=2)) == "3"
            assert (await ask(tools, "fail", why="x")).is_error
            waiting = asyncio.create_task(ask(tools, "hang", path=str(noted)))
            while not noted.exists():
                await asyncio.sleep(0.01)
            process.kill()
            cut = await waiting
        down = await ask(tools, "add", a=1, b=2)
        with serving(port):
            again = await ask(tools, "add", a=1, b=3)
            await mine.close()
        assert cut.is_error
        assert text(cut).startswith("MCP server http://127.0.0.1:")
        assert "may have had effects" in text(cut)
        assert down.is_error
        assert text(again) == "4"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_call_that_hangs_is_stopped_and_others_go_on(port: int) -> None:
    async def main() -> list[str]:
        mine = server(port)
        tools = await opened([mine])
        tools["hang"].timeout = 0.5
        found = await asyncio.gather(ask(tools, "hang", path=os.devnull), ask(tools, "add", a=1, b=2))
        await mine.close()
        return [text(each) for each in found]

    with serving(port):
        assert asyncio.run(main()) == [
            "timed out after 0.5 s: the call was cancelled, and may have had effects",
            "3",
        ]


def test_an_answer_of_some_megabytes_arrives_whole_and_is_cut_at_the_limit(port: int) -> None:
    async def main(limit: int) -> ToolOutput:
        mine = server(port, limit=limit)
        found = await ask(await opened([mine]), "large", size=5_000_000)
        await mine.close()
        return found

    with serving(port):
        whole, cut = asyncio.run(main(5_000_000)), asyncio.run(main(1_000_000))

    assert whole.content == ("x" * 5_000_000,)
    assert texts(cut)[0] == "x" * 1_000_000
    assert texts(cut)[1].startswith("[4,000,000 of 5,000,000 bytes of this result were left out")


def test_where_nobody_listens_opening_says_so(port: int) -> None:
    async def main() -> None:
        mine = server(port)
        try:
            await mine.open()
        finally:
            await mine.close()

    with pytest.raises(ToolError, match=rf"MCP server http://127\.0\.0\.1:{port}: ConnectError"):
        asyncio.run(main())


class Refusing(http.server.BaseHTTPRequestHandler):
    """It says 401, and remembers what it was sent."""

    seen: list[str | None] = []  # noqa: RUF012 - one server, one test

    def do_POST(self) -> None:
        self.seen.append(self.headers["X-Key"])
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def test_headers_go_with_every_request_and_into_no_error() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        thread = threading.Thread(target=refusing.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        async def main() -> str:
            url = f"http://me:secret@127.0.0.1:{refusing.server_port}/mcp?token=secret"
            mine = MCPServer.http(url, headers={"X-Key": "secret key"})
            try:
                await mine.open()
            except ToolError as error:
                return f"{error} {mine!r}"
            finally:
                await mine.close()
            return "opened"

        try:
            said = asyncio.run(main())
        finally:
            refusing.shutdown()
            thread.join()

    assert "HTTP 401 Unauthorized" in said
    assert "secret" not in said
    assert set(Refusing.seen) == {"secret key"}


def test_what_is_no_url_and_what_is_no_header_is_refused_without_showing_it() -> None:
    with pytest.raises(CallerError, match="expected an http or https URL, found one of the scheme 'file'"):
        MCPServer.http("file:///secret")
    with pytest.raises(CallerError, match="header X-Key: expected printable ASCII without blanks") as caught:
        MCPServer.http("http://127.0.0.1", headers={"X-Key": "secret\n"})

    assert "secret" not in str(caught.value)


# An MCP server that is down stops nobody else, and its tools come back with it.


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


# A picture or a file of an MCP server is given once, also where the structured content repeats it.


PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 3_000
DATA = b64encode(PNG).decode()
BLOCK = ImageContent(data=DATA, mime_type="image/png")
REPEATED = {"content": [{"type": "image", "data": DATA}], "width": 3}
ONCE = '{"content":[{"type":"image","data":"given as media"}],"width":3}'


def test_a_picture_that_the_structured_content_repeats_is_given_once() -> None:
    outcome = outcome_from(CallToolResult(content=[BLOCK], structured_content=REPEATED))

    assert outcome.content == (Attachment(PNG, "image/png"), ONCE)


def test_neither_is_it_kept_twice_beside_words() -> None:
    words = TextContent(text="A cat.")
    outcome = outcome_from(CallToolResult(content=[words, BLOCK], structured_content=REPEATED))

    assert outcome.content == ("A cat.", Attachment(PNG, "image/png"))
    assert DATA not in str(outcome.meta)
    assert outcome.meta["mcp"]["structured"]["width"] == 3


def test_neither_is_a_file_that_the_structured_content_repeats_given_twice() -> None:
    file = BlobResourceContents(uri="demo://plan.pdf", mime_type="application/pdf", blob=DATA)
    repeated = {"content": [{"type": "resource", "resource": {"blob": DATA}}], "pages": 2}

    outcome = outcome_from(
        CallToolResult(content=[EmbeddedResource(resource=file)], structured_content=repeated)
    )

    once = '{"content":[{"type":"resource","resource":{"blob":"given as media"}}],"pages":2}'
    assert outcome.content == (Attachment(PNG, "application/pdf", "plan.pdf"), once)


def test_an_empty_text_stays_beside_a_picture_without_content() -> None:
    empty = ImageContent(data="", mime_type="image/png")

    outcome = outcome_from(CallToolResult(content=[empty], structured_content={"caption": ""}))

    assert outcome.content == (Attachment(b"", "image/png"), '{"caption":""}')
