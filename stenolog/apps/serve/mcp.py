"""MCP server by which an agent asks its own history, on standard input and output; it only reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from stenolog.adapters.conversation.queries.outputs import READ
from stenolog.adapters.conversation.queries.read_output import read_output_tool
from stenolog.domain.errors import MissingExtraError, StenologError

from .own_history import OwnHistory


def serve(history: OwnHistory) -> None:
    """Answer questions until the client closes. Raises `MissingExtraError`."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError:
        raise MissingExtraError("mcp", "mcp") from None

    def answering(ask: Callable[..., str]) -> Callable[..., str]:
        @wraps(ask)
        def answer(*args: Any, **given: Any) -> str:
            try:
                return ask(*args, **given)
            except StenologError as error:
                raise ToolError(str(error)) from None

        return answer

    def read_output(path: str, offset: int = 0, limit: int = READ) -> str:
        return history.output(json.dumps({"path": path, "offset": offset, "limit": limit}))

    read_output.__doc__ = read_output_tool().description
    server = MCPServer("stenolog", log_level="ERROR")
    for ask in (history.search, history.read, history.request, history.why, history.compaction, read_output):
        server.add_tool(
            answering(ask), annotations=ToolAnnotations(read_only_hint=True), structured_output=False
        )
    server.run("stdio")
