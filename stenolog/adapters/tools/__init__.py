"""Tools that an agent may call: plain Python functions, and the tools of MCP servers."""
