"""Tools that an agent may call: Python functions, and tools of MCP servers."""
