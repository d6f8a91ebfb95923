"""Systems whose agents take their tools from MCP servers alone: the whole of a large output, over MCP."""

from __future__ import annotations

import asyncio
import os

from stenolog import AssistantMessage, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries.outputs import store_large
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.functions import opened
from stenolog.tools import MCPServer, ToolOutput
from tests.forked import python
from tests.systems.given import Room
from tests.tools.given import call, text

WHOLE = "".join(f"{n:06} passed\n" for n in range(350_000))


def test_a_large_output_is_read_by_its_alias_over_mcp(room: Room) -> None:
    room.write(ModeSwitch(joins=["crew"]), UserMessage(text="Test it."))
    room.answer("crew", "", ToolCall(id="c1", name="pytest", arguments="{}"))
    with room.opened() as conversation:
        conversation.append(
            store_large(conversation.log, ToolResult(call_id="c1", name="pytest", text=WHOLE))
        )
        (listed,) = conversation.outputs.listed()
    alias, answer = listed.alias, AssistantMessage(agent="crew", text="All pass.")
    room.write(answer)

    async def reads(*asked: dict[str, object]) -> list[ToolOutput]:
        command = python(
            "-m", "stenolog", "serve", "--mcp", "--conversation", room.name, "--db", str(room.path)
        )
        server = MCPServer.stdio(command, env=dict(os.environ))
        try:
            tools = await opened([server])
            return [
                await execute(tools["read_output"], call("read_output", each), [*tools]) for each in asked
            ]
        finally:
            await server.close()

    piece, wrong = asyncio.run(
        reads({"path": alias, "offset": 14 * 123_456, "limit": 13}, {"path": "@state/../secrets"})
    )

    assert len(room.request("crew", 4).bytes) < 4_000
    assert text(piece).splitlines()[0] == "123456 passed"
    assert f"of {len(WHOLE):,}" in text(piece)
    assert (piece.is_error, wrong.is_error, "found '@state/../secrets'" in text(wrong)) == (False, True, True)
