"""The tool by which an agent reads the whole of a large output, ready to run."""

from __future__ import annotations

from functools import partial

from stenolog.adapters.log import Log
from stenolog.adapters.outputs import read_output_tool, run_read_output
from stenolog.domain.errors import StenologError, ToolError

from .port import Call, Outcome, Repeat, Runnable
from .threads import in_thread


class ReadOutput(Runnable):
    """`read_output` over a log: it reads in the conversation that the call is made in."""

    repeat: Repeat = "safe"
    stops = False

    def __init__(self, log: Log) -> None:
        self.log = log
        self.spec = read_output_tool()

    async def run(self, call: Call) -> Outcome:
        return Outcome((await in_thread(partial(self._read, call), "read_output"),))

    def _read(self, call: Call) -> str:
        try:
            return run_read_output(self.log[call.conversation], call.arguments)
        except StenologError as error:
            raise ToolError(str(error)) from None
