"""Plain Python functions as tools.

    @tool
    def read_file(path: Annotated[str, Field(description="Under the root")], limit: int = 100) -> str:
        '''Read a text file.'''

What a model is told of one is its name, its docstring and its signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, get_args, overload

from stenolog.domain.errors import CallerError
from stenolog.domain.values import Tool
from stenolog.projections.requests.wires.gemini_answers import function_name

from .arguments import Given, Parameters
from .base import LIMIT, TIMEOUT, BaseTool, RetrySafety, ToolContext, ToolOutput
from .results import outcome_of
from .threads import in_thread

Approval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
"""True if a person approves each call before it runs, or a function that decides by the call's arguments."""
AT_ONCE = 100_000
"""Characters of arguments that are read in the event loop; more of them in a thread."""


class Function(BaseTool):
    """A Python function as a tool; made by `tool`. It can still be called as the function that it is."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval = False,
        repeat: RetrySafety = "never",
        timeout: float | None = TIMEOUT,
        limit: int = LIMIT,
    ) -> None:
        name = str(name or getattr(function, "__name__", type(function).__name__))
        self._parameters = Parameters(function, name)
        self.function = function
        self.stops = _is_async(function, name)
        self.spec = Tool(
            name=checked_name(name),
            description=inspect.getdoc(function) or "" if description is None else description,
            parameters=self._parameters.schema,
            approval=bool(approval),
        )
        self.approves = approval if callable(approval) else None
        self.repeat, self.timeout, self.limit = checked(name, repeat, timeout, limit)
        if repeat == "keyed" and not self._parameters.takes_call:
            raise CallerError(
                f'{name}: repeat="keyed" expects a parameter annotated `ToolContext` that has the key'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    async def run(self, call: ToolContext) -> ToolOutput:
        if not self.stops:
            made = await in_thread(partial(self._in_thread, call), f"tool {self.spec.name}")
            return made if isinstance(made, ToolOutput) else outcome_of(await made)
        given = await self._arguments(call)
        return outcome_of(await self.function(*given.positional, **given.named))

    def _in_thread(self, call: ToolContext) -> Any:
        """The outcome; or, from a function that is async and does not look it, what is to be awaited."""
        given = self._parameters.read(call)
        value = self.function(*given.positional, **given.named)
        return value if inspect.isawaitable(value) else outcome_of(value)

    async def _arguments(self, call: ToolContext) -> Given:
        read = partial(self._parameters.read, call)
        return read() if len(call.arguments) <= AT_ONCE else await in_thread(read, "arguments")


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    repeat: RetrySafety = "never",
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    repeat: RetrySafety = "never",
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Callable[[Callable[..., Any]], Function]: ...
def tool(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function, sync or async, as a tool: used as `@tool`, `@tool(...)` or `tool(function, ...)`.

    The name and the description are the function's and its docstring's unless given. `approval`: whether a
    person approves each call, or a function of the arguments (as the model gave them) that says so. `repeat`:
    whether a call may run again when nobody knows how its first run ended. `timeout` in seconds, None for
    ever; `limit` in bytes of what is kept of a result. A sync function runs in a thread, which nothing stops:
    after a timeout it goes on in the background.

    Raises `CallerError` for a function that a model cannot be told: `*args`, a parameter without JSON Schema.
    """
    return partial(Function, **options) if function is None else Function(function, **options)


def checked_name(name: str) -> str:
    """The name, if every provider takes it as it is, for the model calls the tool by what it was told."""
    if not name or function_name(name) != name:
        what = "letters, digits, _ and -, a letter or _ first, at most 64"
        raise CallerError(f"expected a tool's name of {what}, found {name!r:.100}; give another by name=")
    return name


def checked(
    name: str, repeat: RetrySafety, timeout: float | None, limit: int
) -> tuple[RetrySafety, float | None, int]:
    """Return a tool's settings unchanged if they are valid. Raises `CallerError`."""
    if repeat not in get_args(RetrySafety):
        raise CallerError(f"{name}: repeat: expected never, safe or keyed, found {repeat!r:.40}")
    if timeout is not None and not timeout > 0:
        raise CallerError(f"{name}: timeout: expected seconds above 0, or None, found {timeout!r:.40}")
    if limit < 1:
        raise CallerError(f"{name}: limit: expected at least 1 byte, found {limit!r:.40}")
    return repeat, timeout, limit


def _is_async(function: Callable[..., Any], name: str) -> bool:
    plain = inspect.isroutine(function) or isinstance(function, partial)
    called = function if plain else type(function).__call__
    if inspect.isasyncgenfunction(called):
        raise CallerError(f"{name}: expected a function that returns its result, found an async generator")
    return inspect.iscoroutinefunction(called)
