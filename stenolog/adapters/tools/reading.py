"""The tool by which an agent reads the whole of a large output, ready to run."""

from __future__ import annotations

from functools import partial

from stenolog.adapters.outputs import read_output_tool, run_read_output
from stenolog.domain.errors import StenologError, ToolError

from .port import Call, Outcome, Repeat, Runnable
from .threads import in_thread


class ReadOutput(Runnable):
    """`read_output`, which reads in the conversation that it is called in."""

    repeat: Repeat = "safe"
    stops = False

    def __init__(self) -> None:
        self.spec = read_output_tool()

    async def run(self, call: Call) -> Outcome:
        return Outcome((await in_thread(partial(_read, call), "tool read_output"),))


def _read(call: Call) -> str:
    if call.talk is None:
        raise ToolError("read_output: expected a call in a conversation, found one without")
    try:
        return run_read_output(call.talk, call.arguments)
    except StenologError as error:
        raise ToolError(str(error)) from None
