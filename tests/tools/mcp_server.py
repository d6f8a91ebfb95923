"""An MCP server to be called by the tests: `python mcp_server.py stdio`, or `http PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)  # fmt: skip

server = MCPServer("for-tests", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="odd.name/with:signs")
def odd() -> str:
    """Return a name that providers refuse."""
    return "odd"


@server.tool()
def fail(why: str) -> str:
    """Raise."""
    raise ValueError(why)


@server.tool()
async def hang(path: str) -> str:
    """Hang, and note in a file that it was cancelled."""
    with open(path, "a") as file:
        file.write("begun\n")
    try:
        await asyncio.sleep(60)
    except BaseException:
        with open(path, "a") as file:
            file.write("cancelled\n")
        raise
    return "never"


@server.tool()
def die() -> str:
    """End the whole process at once."""
    os._exit(3)


@server.tool()
def pid() -> str:
    """Return the process id."""
    return str(os.getpid())


@server.tool()
def noise() -> str:
    """Write where servers should not, and where they may."""
    print("this is no JSON-RPC", flush=True)
    print("noise on stderr", file=sys.stderr, flush=True)
    return "done"


@server.tool()
async def chatty(ctx: Context[Any]) -> str:
    """Report progress and log."""
    await ctx.report_progress(1, 2, "half")
    return "quiet"


@server.tool(structured_output=False)
def key(ctx: Context[Any]) -> str:
    """Return the idempotency key of the call."""
    meta: Any = ctx.request_context.meta
    return str(meta)


@server.tool()
def grow() -> str:
    """Add another tool."""
    server.add_tool(lambda: "new", name="grown", description="A tool that came later.")
    return "grown"


@server.tool(structured_output=False)
def large(size: int) -> str:
    """So many characters."""
    return "x" * size


@server.tool(structured_output=False)
def many() -> CallToolResult:
    """One of each content."""
    return CallToolResult(
        content=[
            TextContent(text="words"),
            ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),
            AudioContent(data="AAAA", mime_type="audio/wav"),
            ResourceLink(name="plan", uri="file:///plan.md", mime_type="text/markdown", size=7),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b.bin", blob="AQI=")),
            ImageContent(data="no base64!", mime_type="image/png"),
        ],
        structured_content={"n": 1},
    )


@server.tool(structured_output=False)
def only_structured() -> CallToolResult:
    """Structured content alone."""
    return CallToolResult(content=[], structured_content={"n": 1})


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[2]), stateless_http="stateless" in sys.argv)
