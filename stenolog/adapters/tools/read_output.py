"""The tool by which an agent reads the whole of a large output, ready to run."""

from __future__ import annotations

from functools import partial

from stenolog.adapters.queries.outputs import read_output_tool, run_read_output
from stenolog.domain.errors import StenologError, ToolError

from .base import BaseTool, RetrySafety, ToolContext, ToolOutput
from .threads import in_thread


class ReadOutput(BaseTool):
    """`read_output`, which reads in the conversation that it is called in."""

    repeat: RetrySafety = "safe"
    stops = False

    def __init__(self) -> None:
        self.spec = read_output_tool()

    async def run(self, call: ToolContext) -> ToolOutput:
        return ToolOutput((await in_thread(partial(_read, call), "tool read_output"),))


def _read(call: ToolContext) -> str:
    if call.conversation is None:
        raise ToolError("read_output: expected a call in a conversation, found one without")
    try:
        return run_read_output(call.conversation, call.arguments)
    except StenologError as error:
        raise ToolError(str(error)) from None
