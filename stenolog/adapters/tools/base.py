"""Interface of the engine to a tool, and threads for work that blocks."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

from stenolog.adapters.tool_specs.signatures import filled_with_the_call
from stenolog.domain.errors import ToolError
from stenolog.domain.values import Tool

T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from stenolog.adapters.conversation.log import Conversation
    from stenolog.domain.events import Event, ToolResult

    from .asking import Asking

    Deps = TypeVarWithDefault("Deps", default=Any)
else:
    Deps = TypeVar("Deps")
NO_DEPS: Any = None

RetrySafety: TypeAlias = Literal["never", "safe", "keyed"]
"""The safety of running a call again if the end of its first run is unknown.

`never`: it must not run again. `safe`: the call changes nothing. `keyed`: its idempotency key makes a
second run harmless.
"""
TIMEOUT = 120.0
LIMIT = 100_000_000


@filled_with_the_call
class ToolContext(NamedTuple, Generic[Deps]):
    """One call of a tool.

    `arguments` is the model's raw string. `key` is the idempotency key: the same if this call runs again.
    `lane` is the address of the caller, `position` that of the answer with the call. The engine sets
    `conversation`. `deps` are those of the run, or of the team: `ToolContext[Deps]` gives them their type.
    """

    name: str
    arguments: str
    key: str
    lane: str
    conversation_name: str
    id: str = ""
    position: int = 0
    conversation: Conversation | None = None
    deps: Deps = NO_DEPS
    asking: Asking | None = None

    @overload
    async def ask(self, question: str, *, choices: Iterable[str] = ()) -> str: ...
    @overload
    async def ask(self, question: str, *, schema: type[T]) -> T: ...
    @overload
    async def ask(self, question: str, *, schema: Any) -> Any: ...
    async def ask(self, question: str, *, choices: Iterable[str] = (), schema: Any = None) -> Any:
        """Ask a person, and return the answer: a text, or one of the choices, or a value of the schema.

        `schema` is a JSON Schema, or a type for which pydantic has one. The run ends here; once the question
        has an answer, the call runs again from its beginning, so what it does before it asks is done twice.
        A refusal of the question is a refusal of the call.
        """
        return self._ask(question, choices, schema)

    @overload
    def ask_sync(self, question: str, *, choices: Iterable[str] = ()) -> str: ...
    @overload
    def ask_sync(self, question: str, *, schema: type[T]) -> T: ...
    @overload
    def ask_sync(self, question: str, *, schema: Any) -> Any: ...
    def ask_sync(self, question: str, *, choices: Iterable[str] = (), schema: Any = None) -> Any:
        """Ask as `ask` does, from a tool that is not async."""
        return self._ask(question, choices, schema)

    def _ask(self, question: str, choices: Iterable[str], schema: Any) -> Any:
        if self.asking is None:
            raise ToolError("ask: expected a call that a Team or run_calls runs, found one without a log")
        return self.asking.ask(question, choices, schema)


class Attachment(NamedTuple):
    """Picture or file that a tool returned."""

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
    """Tool that can be run.

    `spec` describes it to the model. `repeat`: whether a call may run twice. `timeout` is in seconds (None:
    no limit), `limit` in bytes of content. If `spec.approval` is set, `approves` says whether a person has to
    approve these arguments; None: always. `stops` is false if a call goes on in the background after it was
    cancelled, as in a thread. `secrets` are hidden in its error messages, like those of the environment.
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
        """True if the tool itself says `repeat="never"`."""
        # The class attribute above is the default; any other one was written by the tool's author.
        places = (self, *(kind for kind in type(self).__mro__ if kind is not BaseTool))
        return self.repeat == "never" and any("repeat" in vars(each) for each in places)

    @abstractmethod
    async def run(self, call: ToolContext) -> ToolOutput:
        """Run the call. An exception becomes a `ToolOutput` with `is_error`; cancelling may end it."""

    def following(self, result: ToolResult, call: ToolContext) -> Iterable[Event]:
        """Return the events that are appended with a result, in one transaction.

        May be called again if other entries came in between; not for a call that was stopped.
        """
        return ()


class Toolset(ABC):
    """Tools that share a connection, such as an MCP server's."""

    @abstractmethod
    async def open(self) -> Sequence[BaseTool]:
        """Connect, unless connected, and list the tools."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect; it may be opened again after."""


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Run `work` in a thread and return its result or raise its error.

    Cancelling leaves the thread running, since a thread cannot be stopped. There is no pool: hanging work
    would keep its place, and the process from ending.
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
