"""Tools of MCP servers, over the protocol's own SDK."""

from .server import MCPServer

__all__ = ["MCPServer"]
