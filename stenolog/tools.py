"""Tools that agents may call: plain functions, and the tools of MCP servers.

A `Team` runs them. In a loop of your own, `run_calls` runs those calls of an agent that have no result yet.
"""

from .adapters.conversation.queries.outputs import store_large
from .adapters.conversation.queries.read_output import read_output, read_output_tool
from .adapters.tools.base import Attachment, BaseTool, ToolContext, ToolOutput, Toolset
from .adapters.tools.by_hand import open_calls, run_call, run_call_async, run_calls, run_calls_async
from .adapters.tools.functions import tool
from .adapters.tools.mcp import MCPServer
from .adapters.tools.recall import MayRecall, recall, recall_from
from .adapters.tools.remember import remember
from .adapters.tools.results import ReadOutput

__all__ = [
    "Attachment",
    "BaseTool",
    "MCPServer",
    "MayRecall",
    "ReadOutput",
    "ToolContext",
    "ToolOutput",
    "Toolset",
    "open_calls",
    "read_output",
    "read_output_tool",
    "recall",
    "recall_from",
    "remember",
    "run_call",
    "run_call_async",
    "run_calls",
    "run_calls_async",
    "store_large",
    "tool",
]
