"""What agents may call: plain functions, and the tools of MCP servers."""

from .adapters.tools.functions import tool
from .adapters.tools.mcp import MCPServer
from .adapters.tools.port import Call, Media, Outcome, Runnable, Toolbox
from .adapters.tools.reading import ReadOutput

__all__ = ["Call", "MCPServer", "Media", "Outcome", "ReadOutput", "Runnable", "Toolbox", "tool"]
