"""Execution of one tool call, which always has an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from stenolog.adapters.tool_specs.signatures import json_object
from stenolog.domain.errors import ToolError

from .base import Attachment, BaseTool, ToolContext, ToolOutput, in_thread
from .results import failed, failure, truncate_output, unknown, without

GRACE = 5.0
"""Seconds that a tool has to end after it was cancelled."""
AT_ONCE = 1_000_000
"""Characters of a result that are measured in the event loop; more of them in a thread."""
_abandoned: set[asyncio.Task[ToolOutput]] = set()  # the event loop itself holds tasks weakly


async def execute(tool: BaseTool | None, call: ToolContext, known: Sequence[str]) -> ToolOutput:
    """Run a call and return its result, of at most `tool.limit` bytes, or its failure with `is_error`.

    `tool` None: the tool is unknown, and the output names the `known` ones. If this function is cancelled, it
    cancels the tool too. Output that the tool still returns within `GRACE` seconds is returned; otherwise
    `CancelledError` is raised. No other exception is raised.
    """
    if tool is None:
        return unknown(call.name, known)
    task = asyncio.create_task(_run(tool, call), name=f"tool {call.name:.64}")
    try:
        await asyncio.wait({task}, timeout=tool.timeout)
    except asyncio.CancelledError:
        if (given := await _cancelled_outcome(task)) is None:
            raise
        return given
    if not task.done() and (not await _ended(task) or task.cancelled()):
        return _timed_out(tool, ended=task.done())
    if task.cancelled():
        return failed("the tool was cancelled from within")
    return task.result()


def needs_approval(tool: BaseTool, arguments: str) -> bool:
    """Return whether a person has to approve a call with these arguments (the model's raw string).

    True too if the arguments are no JSON object, or `approves` fails.
    """
    if not tool.spec.approval or tool.approves is None:
        return tool.spec.approval
    try:
        return bool(tool.approves(json_object(arguments)))
    except Exception:  # the tool's own function
        return True


async def _run(tool: BaseTool, call: ToolContext) -> ToolOutput:
    try:
        outcome = without(_checked(await tool.run(call)), tool.secrets)
        size = sum(len(item) for item in outcome.content if isinstance(item, str))
        fit = partial(truncate_output, outcome, tool.limit)
        return fit() if size <= AT_ONCE else await in_thread(fit, "result")
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit too: a tool does not end the program
        return failure(error, tool.secrets)


def _checked(outcome: object) -> ToolOutput:
    if not isinstance(outcome, ToolOutput):
        raise ToolError(f"expected the tool to give an Outcome, found a {type(outcome).__name__}")
    for item in outcome.content:
        if not isinstance(item, str) and not (
            isinstance(item, Attachment) and isinstance(item.content, bytes)
        ):
            raise ToolError(f"expected texts and Media of bytes in an Outcome, found a {type(item).__name__}")
    return outcome


async def _cancelled_outcome(task: asyncio.Task[ToolOutput]) -> ToolOutput | None:
    was_over = task.done()
    if not (was_over or await _ended(task)) or task.cancelled():
        return None
    return task.result() if was_over or not task.result().is_error else None


async def _ended(task: asyncio.Task[ToolOutput]) -> bool:
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    return task.done()


def _timed_out(tool: BaseTool, *, ended: bool) -> ToolOutput:
    what = f"timed out after {tool.timeout:g} s"
    if ended and tool.stops:
        return failed(f"{what}: the call was cancelled, and may have had effects")
    return failed(f"{what}: the call goes on in the background, and may still have effects")
