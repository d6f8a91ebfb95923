"""An MCP server that is a subprocess: a real one, called, hung, killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.tools.base import Attachment, BaseTool, ToolOutput
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.functions import opened
from stenolog.adapters.tools.mcp import MCPServer
from stenolog.adapters.tools.mcp.session import _listed
from stenolog.domain.errors import CallerError, MissingExtraError, ToolError
from tests.forked import python
from tests.tools.conftest import SCRIPT
from tests.tools.given import call, text

Tools = Mapping[str, BaseTool]


def server(**options: Any) -> MCPServer:
    return MCPServer.stdio(python(SCRIPT, "stdio", modules=("mcp.server.mcpserver",)), **options)


def during(server: MCPServer, main: Callable[[Tools], Awaitable[Any]]) -> Any:
    """Return the result of `main` while the server is open; then no task, thread or process is left."""

    async def run() -> Any:
        try:
            return await main(await opened([server]))
        finally:
            await server.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    before = threading.active_count()
    found = asyncio.run(run())
    while threading.active_count() > before:  # it reads the end of the pipe
        threading.Event().wait(0.001)
    return found


async def ask(tools: Tools, name: str, **arguments: Any) -> ToolOutput:
    return await execute(tools[name], call(name, arguments), [*tools])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Tools


def test_the_tools_of_a_server_are_listed_under_names_that_every_provider_takes() -> None:
    async def main(tools: Tools) -> Tools:
        return tools

    tools = during(server(prefix="my_", timeout=7, limit=99), main)

    add = tools["my_add"]
    assert (add.spec.description, add.spec.approval) == ("Add two numbers.", False)
    assert add.spec.parameters["required"] == ["a", "b"]
    assert (add.repeat, add.timeout, add.limit) == ("never", 7, 99)
    assert not add.must_not_repeat
    (odd,) = [name for name in tools if "odd" in name]
    assert odd == "my_odd_name_with_signs_" + odd[-6:]


def test_options_choose_tools_and_those_to_approve_or_to_end_with_and_whether_hints_are_trusted() -> None:
    def forced(arguments: Mapping[str, Any]) -> bool:
        return False

    async def main(tools: Tools) -> Tools:
        return tools

    chosen = during(server(tools=["add", "pid"], approval=["pid"], ends_run=["add"], trust_hints=True), main)
    asked = during(server(tools=["add"], approval=forced, repeat="keyed"), main)
    told = during(server(tools=["add"], repeat="never"), main)

    assert list(chosen) == ["add", "pid"]
    assert [(each.spec.approval, each.spec.ends_run) for each in chosen.values()] == [
        (False, True),
        (True, False),
    ]
    assert [each.repeat for each in chosen.values()] == ["safe", "never"]
    assert (asked["add"].approves, asked["add"].repeat) == (forced, "keyed")
    assert told["add"].must_not_repeat


def test_a_tool_that_is_asked_for_and_not_there_is_named() -> None:
    with pytest.raises(ToolError, match=r"MCP server python\S*: expected the tools adds, found add, odd"):
        during(server(tools=["adds"]), lambda tools: asyncio.sleep(0))


# Calls


def test_what_tools_answer_arrives_with_words_media_errors_and_the_key(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main(tools: Tools) -> None:
        assert await ask(tools, "add", a=1, b=2) == ToolOutput(
            ("3",), meta={"mcp": {"structured": {"result": 3}}}
        )
        assert await ask(tools, "many") == ToolOutput(
            (
                "words",
                Attachment(b"\x89PNG\r\n\x1a\n", "image/png"),
                Attachment(b"\0\0\0", "audio/wav"),
                "[resource: plan, file:///plan.md, text/markdown, 7 bytes]",
                "[resource: file:///a.txt]",
                "inside",
                Attachment(b"\x01\x02", name="b.bin"),
                "[expected image/png in base64 here, found 10 characters of something else]",
            ),
            meta={"mcp": {"structured": {"n": 1}}},
        )
        assert await ask(tools, "only_structured") == ToolOutput(('{"n":1}',))
        assert await ask(tools, "fail", why="x") == ToolOutput(("Error executing tool fail",), is_error=True)
        assert (await ask(tools, "add", a="x")).is_error
        assert "'stenolog/idempotency-key': 'key-1'" in text(await ask(tools, "key"))
        assert text(await ask(tools, "chatty")) == "quiet"
        assert text(await ask(tools, "noise")) == "done"

    during(server(), main)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{", "expected the arguments as a JSON object: EOF while parsing an object"),
        ("[1]", 'expected the arguments as a JSON object, found "[1]"'),
        ('{"a": NaN, "b": 1}', "expected the arguments as a JSON object: "),
        ("[" * 100_000, "expected the arguments as a JSON object: recursion limit exceeded"),
    ],
)
def test_arguments_that_are_no_json_object_never_reach_the_server(raw: str, said: str) -> None:
    never = server()

    found = asyncio.run(execute(_tool_of(never), call("add", raw=raw), []))

    assert found.is_error
    assert text(found).startswith(said)
    assert never._link is None


def _tool_of(owner: MCPServer) -> BaseTool:
    from mcp_types import Tool

    from stenolog.adapters.tools.mcp.server import MCPTool

    return MCPTool(owner, Tool(name="add", input_schema={"type": "object"}), owner._options)


def test_many_calls_share_one_process() -> None:
    async def main(tools: Tools) -> set[str]:
        found = await asyncio.gather(*(ask(tools, "pid") for _ in range(20)))
        return {text(each) for each in found}

    assert len(during(server(), main)) == 1


def test_two_that_open_at_the_same_time_share_one_process() -> None:
    async def both() -> set[str]:
        shared = server()
        first, second = await asyncio.gather(opened([shared]), opened([shared]))
        found = {text(await ask(first, "pid")), text(await ask(second, "pid"))}
        await shared.close()
        return found

    assert len(asyncio.run(both())) == 1


# Hanging and dying


def test_a_call_that_is_cancelled_is_cancelled_at_the_server_too(tmp_path: Path) -> None:
    noted = tmp_path / "noted"

    async def main(tools: Tools) -> str:
        hanging = asyncio.create_task(ask(tools, "hang", path=str(noted)))
        while not noted.exists():
            await asyncio.sleep(0.01)
        hanging.cancel()
        while "cancelled" not in noted.read_text():
            await asyncio.sleep(0.01)
        return text(await ask(tools, "add", a=1, b=1))

    assert during(server(), main) == "2"


def test_a_server_that_dies_in_mid_call_is_an_error_and_the_next_call_has_another() -> None:
    async def main(tools: Tools) -> tuple[ToolOutput, str, str]:
        before = text(await ask(tools, "pid"))
        waiting = asyncio.create_task(ask(tools, "hang", path=os.devnull))
        died = await ask(tools, "die")
        assert text(await waiting) == text(died)
        return died, before, text(await ask(tools, "pid"))

    died, before, after = during(server(), main)

    assert died.is_error
    assert text(died).endswith("the connection ended before it answered; the call may have had effects")
    assert before != after


def test_a_server_that_dies_while_nobody_calls_costs_no_call() -> None:
    async def main(tools: Tools) -> bool:
        pid = int(text(await ask(tools, "pid")))
        os.kill(pid, 9)
        while alive(pid) and mine._link is not None and mine._link.usable:
            await asyncio.sleep(0.01)
        while mine._link is not None and mine._link.usable:
            await asyncio.sleep(0.01)
        return text(await ask(tools, "pid")) != str(pid)

    mine = server()

    assert during(mine, main) is True


def test_a_tool_that_came_later_is_there_at_the_next_opening() -> None:
    async def main(tools: Tools) -> list[str]:
        await ask(tools, "grow")
        return sorted({*await opened([mine])} - {*tools})

    mine = server()

    assert during(mine, main) == ["grown"]


def test_closing_ends_the_process_and_a_closed_server_can_be_opened_again() -> None:
    async def main(tools: Tools) -> int:
        return int(text(await ask(tools, "pid")))

    mine = server()
    first, second = during(mine, main), during(mine, main)

    assert first != second
    assert not alive(first)
    assert not alive(second)


def test_a_server_that_was_left_open_serves_the_next_event_loop() -> None:
    mine = server()

    async def first() -> None:
        await opened([mine])

    async def second() -> str:
        found = text(await ask(await opened([mine]), "add", a=2, b=2))
        await mine.close()
        return found

    asyncio.run(first())

    assert asyncio.run(second()) == "4"


def test_a_server_that_was_being_opened_when_its_event_loop_ended_can_be_opened_in_the_next() -> None:
    mine = server()

    async def first() -> None:
        opening = asyncio.create_task(opened([mine]))
        await asyncio.sleep(0.05)
        opening.cancel()

    async def second() -> str:
        found = text(await ask(await opened([mine]), "add", a=2, b=2))
        await mine.close()
        return found

    asyncio.run(first())

    assert asyncio.run(second()) == "4"


# Servers that cannot be opened


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-command"], "MCP server no-such-command: FileNotFoundError"),
        ([sys.executable, "-c", "raise SystemExit('no key')"], "Connection closed; its last words: no key"),
        ([sys.executable, "-c", "import sys; sys.stdin.read()"], "it did not answer within 0.3 s"),
        ([sys.executable, "-c", "print('hello')"], "Connection closed"),
    ],
)
def test_a_server_that_cannot_be_opened_says_why(command: list[str], said: str) -> None:
    async def main() -> None:
        mine = MCPServer.stdio(command, connect=0.3 if "read" in command[-1] else 30)
        try:
            await mine.open()
        finally:
            await mine.close()

    with pytest.raises(ToolError) as caught:
        asyncio.run(main())

    assert said in str(caught.value)


def test_cancelling_who_opens_leaves_the_server_to_be_closed() -> None:
    async def main() -> bool:
        mine = MCPServer.stdio([sys.executable, "-c", "import sys; sys.stdin.read()"])
        opening = asyncio.create_task(mine.open())
        await asyncio.sleep(0.05)
        opening.cancel()
        await asyncio.wait({opening})
        await mine.close()
        return opening.cancelled() and asyncio.all_tasks() == {asyncio.current_task()}

    assert asyncio.run(main()) is True


@pytest.mark.parametrize("command", [["/bin/server", "--key", "secret"], "/bin/server --key secret"])
def test_a_command_is_a_line_or_its_words_and_only_the_program_is_shown(command: str | list[str]) -> None:
    assert repr(MCPServer.stdio(command, env={"KEY": "secret"})) == "<MCPServer server>"


@pytest.mark.parametrize("command", [[], ""])
def test_a_command_has_at_least_a_program(command: str | list[str]) -> None:
    with pytest.raises(CallerError, match="expected a command and its arguments, found none"):
        MCPServer.stdio(command)


def test_without_the_sdk_the_error_is_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError, match=r'mcp is not installed: pip install "stenolog\[mcp\]"'):
        MCPServer.stdio(["x"])


def test_the_sdk_is_imported_when_there_is_a_server_and_not_before() -> None:
    code = "import sys, stenolog.adapters.tools.mcp; print({'mcp', 'anyio'} & set(sys.modules))"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "set()\n"


# Pages


class Pages:
    """A client whose server gives its tools page by page."""

    def __init__(self, pages: int | None) -> None:
        self.pages = pages

    async def list_tools(self, cursor: str | None) -> Any:
        from mcp_types import ListToolsResult, Tool

        at = int(cursor or 0)
        last = self.pages is not None and at + 1 == self.pages
        tool = Tool(name=f"t{at}", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], next_cursor=None if last else str(at + 1))


def test_all_pages_of_tools_are_read_but_not_without_end() -> None:
    three: Any = Pages(3)
    endless: Any = Pages(None)

    assert [tool.name for tool in asyncio.run(_listed(three))] == ["t0", "t1", "t2"]
    with pytest.raises(ToolError, match="expected at most 1,000 pages of tools, found more"):
        asyncio.run(_listed(endless))
