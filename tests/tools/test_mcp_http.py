"""An MCP server over streamable HTTP on this machine: a real one, called, killed, started again."""

from __future__ import annotations

import asyncio
import http.server
import os
import threading
from typing import Any

import pytest

from stenolog.adapters.tools.base import ToolOutput
from stenolog.adapters.tools.functions import opened
from stenolog.adapters.tools.mcp import MCPServer
from stenolog.domain.errors import CallerError, ToolError
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
