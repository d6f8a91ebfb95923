"""The outputs of a conversation over MCP: for agents that take their tools from MCP servers alone."""

from __future__ import annotations

import json

from stenolog.adapters.log import Conversation
from stenolog.adapters.queries.outputs import READ, read_output_tool, run_read_output
from stenolog.domain.errors import MissingExtraError, StenologError


def serve_outputs(conversation: Conversation) -> None:
    """Serve the tool `read_output` on stdin and stdout, until the client has gone. Raises
    `MissingExtraError`."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError:
        raise MissingExtraError("mcp", "mcp") from None

    def read(path: str, offset: int = 0, limit: int = READ) -> str:
        try:
            return run_read_output(conversation, json.dumps({"path": path, "offset": offset, "limit": limit}))
        except StenologError as error:
            raise ToolError(str(error)) from None

    server, spec = MCPServer("stenolog", log_level="ERROR"), read_output_tool()
    server.add_tool(
        read,
        name=spec.name,
        description=spec.description,
        annotations=ToolAnnotations(read_only_hint=True),
        structured_output=False,
    )
    server.run("stdio")
