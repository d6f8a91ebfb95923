"""Interface of the engine to a tool, which runs one call, and threads for work that blocks."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.tool_specs.signatures import filled_with_the_call
from stenolog.domain.values import Tool

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


RetrySafety: TypeAlias = Literal["never", "safe", "keyed"]
"""The safety of running a call again if the end of its first run is unknown.

`never`: it must not run again. `safe`: the call changes nothing. `keyed`: its idempotency key makes a
second run harmless.
"""
TIMEOUT = 120.0
LIMIT = 100_000_000


@filled_with_the_call
class ToolContext(NamedTuple):
    """One call of a tool.

    `arguments` is the model's raw string. `key` is the idempotency key: the same whenever this very call is
    run again. `lane` is the address of who calls, `position` that of the answer with the call. `conversation`
    is the conversation itself, for a tool that works on it; the engine gives it.
    """

    name: str
    arguments: str
    key: str
    lane: str
    conversation_name: str
    id: str = ""
    position: int = 0
    conversation: Conversation | None = None


class Attachment(NamedTuple):
    """A picture, or a file, that a tool gave back."""

    content: bytes
    media_type: str = "application/octet-stream"
    name: str = ""


class ToolOutput(NamedTuple):
    """Output of a call: texts and media in order.

    `is_error`: the tool failed, and the text says how. `meta` is kept with the result, for the application.
    """

    content: tuple[str | Attachment, ...] = ()
    is_error: bool = False
    meta: Mapping[str, Any] = {}


class BaseTool(ABC):
    """A tool that can be run.

    `spec` is what the model is told. `repeat` says whether a call may run twice. `timeout` is in seconds
    (None: for ever), `limit` in bytes of content. `approves` is asked where `spec.approval` is set: whether a
    person has to approve these arguments; None: always. `stops` is false where a call goes on in the
    background after it was cancelled, as one in a thread does. `secrets` are hidden in the words of its
    failures, as the environment's are.
    """

    spec: Tool
    repeat: RetrySafety = "never"
    timeout: float | None = TIMEOUT
    limit: int = LIMIT
    approves: Callable[[Mapping[str, Any]], bool] | None = None
    stops: bool = True
    secrets: Collection[str] = ()

    @property
    def must_not_repeat(self) -> bool:
        """True if the tool says `repeat="never"` itself, and has not just left it open."""
        # The class attribute above is the default; any other one was written by the tool's author.
        places = (self, *(kind for kind in type(self).__mro__ if kind is not BaseTool))
        return self.repeat == "never" and any("repeat" in vars(each) for each in places)

    @abstractmethod
    async def run(self, call: ToolContext) -> ToolOutput:
        """Run it. What it raises becomes a `ToolOutput` with `is_error`; cancelling ends it where it can."""


class Toolset(ABC):
    """Several tools that share a connection, such as an MCP server's."""

    @abstractmethod
    async def open(self) -> Sequence[BaseTool]:
        """Connect, if that is not done yet, and list the tools."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect; it may be opened again after."""


T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Run `work` in a thread and return its result or raise its error.

    Cancelling leaves the thread running: a thread cannot be stopped. There is no pool: hanging work would
    keep its place there, and the process from ending.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[T, None] | tuple[None, BaseException]] = loop.create_future()
    context = copy_context()

    def tell(result: tuple[T, None] | tuple[None, BaseException]) -> None:
        if not ended.done():
            ended.set_result(result)

    def run() -> None:
        result: tuple[T, None] | tuple[None, BaseException]
        try:
            result = context.run(work), None
        except BaseException as error:  # also SystemExit: it is told to who waits
            result = None, error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(tell, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
