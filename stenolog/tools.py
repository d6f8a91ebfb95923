"""Tools that agents may call: plain functions, and the tools of MCP servers."""

from .adapters.tools.base import Attachment, BaseTool, ToolContext, ToolOutput, Toolset
from .adapters.tools.functions import tool
from .adapters.tools.mcp import MCPServer
from .adapters.tools.results import ReadOutput

__all__ = [
    "Attachment",
    "BaseTool",
    "MCPServer",
    "ReadOutput",
    "ToolContext",
    "ToolOutput",
    "Toolset",
    "tool",
]
