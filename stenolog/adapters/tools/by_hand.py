"""Tools for a program's own loop: a call is run, and its result is an event.

    for call in open_calls(conversation, "coder"):
        conversation.append(run_call(call, [shell], conversation=conversation))

`run_calls(conversation, "coder", [shell])` does both, and names each call exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import Event, ToolResult
from stenolog.domain.lanes.effects import question_message, ref
from stenolog.domain.lanes.state import LaneState, OpenCall, address
from stenolog.domain.parts import TextPart, ToolCall

from . import base
from .asking import Asking
from .calls import answered_questions, as_approved, call_at, with_metadata
from .execute import execute
from .functions import ToolLike, as_runnables, by_name
from .results import failed, redacted_output, result_of

T = TypeVar("T")
NOWHERE = "the tool returned a picture or a file, which needs a log: pass conversation= to run_call"


class AsyncTalk(Protocol):
    """Part of an `AsyncConversation` that is needed here."""

    async def sync(self) -> Conversation:
        """Return the conversation underneath."""


def open_calls(conversation: Conversation, agent: str, task: str = "") -> list[ToolCall]:
    """Return the agent's calls without a result, as they are to run; none that waits for a person."""
    return [call for _, call in _open(conversation, agent, task)]


def run_call(
    call: ToolCall,
    tools: Iterable[ToolLike],
    *,
    conversation: Conversation | None = None,
    deps: object = None,
) -> ToolResult:
    """Run a call and return its result, for `conversation.append`; a failure is a result too.

    It does not check whether the call ran before: only a Team keeps `repeat="never"`. `tools` are functions
    and values of `stenolog.tools`. In a `conversation`, pictures, files and very long texts are kept as
    blobs. `deps` are passed to the tools. A tool cannot ask here; see `run_calls`. Raises `CallerError` for
    an invalid tool.
    """
    known = _tools(tools)
    return _run(lambda: _result(_Given(known, conversation, deps), call))


async def run_call_async(
    call: ToolCall,
    tools: Iterable[ToolLike],
    *,
    conversation: AsyncTalk | None = None,
    deps: object = None,
) -> ToolResult:
    """Run a call of a tool; see `run_call`."""
    known, talk = _tools(tools), None if conversation is None else await conversation.sync()
    return await _result(_Given(known, talk, deps), call)


def run_calls(
    conversation: Conversation,
    agent: str,
    tools: Iterable[ToolLike],
    task: str = "",
    *,
    deps: object = None,
) -> list[Entry]:
    """Run the agent's calls without a result, one after another, and append the results.

    If the program died before a result was appended, that call runs again, unless its tool says
    `repeat="never"`: such a tool is refused before any call runs, since only a Team keeps that. Returns the
    results' entries. A tool that asks a person appends its question in place of a result; with an answer,
    the call runs again. Raises `CallerError` for such a tool or an invalid one; and as `append`.
    """
    given = _Given(_repeatable(_tools(tools)), conversation, deps, address(agent, task))
    return [_run(partial(_settle, given, call, made)) for made, call in _open(conversation, agent, task)]


async def run_calls_async(
    conversation: AsyncTalk,
    agent: str,
    tools: Iterable[ToolLike],
    task: str = "",
    *,
    deps: object = None,
) -> list[Entry]:
    """Run the agent's calls without a result; see `run_calls`."""
    known, talk = _repeatable(_tools(tools)), await conversation.sync()
    given = _Given(known, talk, deps, address(agent, task))
    calls = await base.in_thread(partial(_open, talk, agent, task), "open calls")
    return [await _settle(given, call, made) for made, call in calls]


class _Given(NamedTuple):
    """Tools and a conversation to run calls with."""

    tools: dict[str, base.BaseTool]
    conversation: Conversation | None
    deps: object
    lane: str = ""


def _tools(given: Iterable[ToolLike]) -> dict[str, base.BaseTool]:
    """Return the tools by name. Raises `CallerError`, also for a toolset that would have to be opened."""
    tools: Sequence[object] = as_runnables(given)
    for each in tools:
        if not isinstance(each, base.BaseTool):
            raise CallerError(
                f"expected functions and tools, found {each!r:.100}; of a toolset give what open() returns"
            )
    return by_name(each for each in tools if isinstance(each, base.BaseTool))


def _repeatable(tools: dict[str, base.BaseTool]) -> dict[str, base.BaseTool]:
    """Return the tools. Raises `CallerError` for one that must not run again."""
    for name, each in tools.items():
        if each.must_not_repeat:
            raise CallerError(
                f'{name}: only a Team keeps repeat="never", for run_calls cannot tell whether a call was '
                "begun before a crash, and run_call runs any call again; use "
                'repeat="keyed", or note yourself what was begun and append its ToolResult'
            )
    return tools


def _open(conversation: Conversation, agent: str, task: str) -> list[tuple[OpenCall, ToolCall]]:
    lane = conversation.state().lane(address(agent, task))
    return [
        (made, as_approved(conversation, call_at(conversation, made), made))
        for made in lane.calls
        if not made.waits
    ]


async def _settle(given: _Given, call: ToolCall, made: OpenCall) -> Entry:
    """Run a call and append its result, or its question.

    Raises `CancelledError` after that, if cancelled meanwhile.
    """
    assert given.conversation is not None, "open calls are of a conversation"
    append, read = given.conversation.append, partial(answered_questions, given.conversation, made)
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    asking = Asking(await base.in_thread(read, "answers") if made.questions else ())
    result: Event = await _result(given, call, made, asking)
    if asking.open is not None:
        result = question_message(LaneState(*given.lane.partition("/")[::2]), made, asking.open)
    entry = await base.in_thread(partial(append, result), "result")
    # A tool may return a result although Ctrl-C cancelled it; the program is to stop all the same.
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
    return entry


async def _result(
    given: _Given, call: ToolCall, made: OpenCall | None = None, asking: Asking | None = None
) -> ToolResult:
    """Run a call and return its result; its bytes go to the conversation's log."""
    conversation, lane, tools = given.conversation, given.lane, given.tools
    context = base.ToolContext(
        name=call.name,
        arguments=call.arguments,
        key=f"{made.entry}:{made.nth}" if made else call.id,
        lane=lane,
        conversation_name=conversation.name if conversation else "",
        id=call.id,
        position=made.position if made else 0,
        conversation=conversation,
        deps=given.deps,
        asking=asking,
    )
    start = monotonic()
    agent = lane.partition("/")[0]
    withheld = conversation.settings().withheld(agent, call.name) if conversation and agent else ""
    output = failed(withheld) if withheld else await execute(tools.get(call.name), context, list(tools))
    took = round((monotonic() - start) * 1000)
    if conversation is None:
        return _text_result(output, call, took)
    output = output if made is None else with_metadata(output, call, made)
    edge, put = conversation.log.edge, conversation.log.blobs.put
    output = redacted_output(output, edge.redact) if edge.redact else output
    where = None if made is None else ref(made)
    return await base.in_thread(partial(result_of, output, call.id, where, call.name, put, took), "result")


def _text_result(output: base.ToolOutput, call: ToolCall, took: int) -> ToolResult:
    """Return a result that needs no blob, and so no log."""
    if any(isinstance(item, base.Attachment) for item in output.content):
        output = failed(NOWHERE)
    return ToolResult(
        call_id=call.id,
        name=call.name,
        parts=[TextPart(text=item) for item in output.content if isinstance(item, str) and item],
        is_error=output.is_error,
        duration_ms=took,
        meta=dict(output.meta),
    )


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(work())).result()
