"""What agents may call: plain functions, and the tools of MCP servers."""

from .adapters.tools.functions import tool
from .adapters.tools.port import Call, Media, Outcome, Runnable, Toolbox

__all__ = ["Call", "Media", "Outcome", "Runnable", "Toolbox", "tool"]
