"""Python functions as tools, and the tools of an agent.

    @tool
    def read_file(path: Annotated[str, Field(description="Under the root")], limit: int = 100) -> str:
        '''Read a text file.'''

A model sees a function's name, docstring and signature (see `tool_specs`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, get_args, overload

from stenolog.adapters.tool_specs.signatures import Given, Parameters, name_of, tool_spec
from stenolog.domain.errors import CallerError, ToolError

from .base import LIMIT, TIMEOUT, BaseTool, RetrySafety, ToolContext, ToolOutput, Toolset, in_thread
from .results import outcome_of

Approval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
"""True if a person approves each call before it runs, or a function that decides by the call's arguments."""
AT_ONCE = 100_000
"""Characters of arguments that are read in the event loop; more of them in a thread."""


class Function(BaseTool):
    """Python function as a tool, made by `tool`. It can still be called as a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval = False,
        ends_run: bool = False,
        repeat: RetrySafety | None = None,
        timeout: float | None = TIMEOUT,
        limit: int = LIMIT,
    ) -> None:
        name = name or name_of(function)
        self._parameters = Parameters(function, name)
        self.function = function
        self.stops = _is_async(function, name)
        self.spec = tool_spec(
            function,
            self._parameters,
            name=name,
            description=description,
            approval=bool(approval),
            ends_run=ends_run,
        )
        self.approves = approval if callable(approval) else None
        known, self.timeout, self.limit = checked(name, repeat or "never", timeout, limit)
        if repeat is not None:
            self.repeat = known
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
        """Return the result, or the awaitable of a function that is async but not declared so."""
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
    ends_run: bool = False,
    repeat: RetrySafety | None = None,
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    ends_run: bool = False,
    repeat: RetrySafety | None = None,
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Callable[[Callable[..., Any]], Function]: ...
def tool(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a function, sync or async, as a tool: `@tool`, `@tool(...)` or `tool(function, ...)`.

    Name and description default to the function's name and docstring. `approval`: whether a person approves
    each call, or a function of the model's arguments that says so. `ends_run`: after a result that is no
    error, the model is not called again. `repeat`: whether a call may run again if
    its outcome is unknown; omitted, a team takes it as "never". `timeout` is in seconds, None for no limit;
    `limit` in bytes of the stored result. A sync function runs in a thread, which nothing stops: after a
    timeout it goes on in the background.

    Raises `CallerError` for a function that has no JSON Schema: `*args`, or such a parameter.
    """
    return partial(Function, **options) if function is None else Function(function, **options)


def checked(
    name: str, repeat: RetrySafety, timeout: float | None, limit: int
) -> tuple[RetrySafety, float | None, int]:
    """Return a tool's settings if they are valid. Raises `CallerError`."""
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


ToolLike: TypeAlias = Callable[..., Any] | BaseTool | Toolset
"""The types that an agent's `tools` may contain."""


def as_runnables(tools: Iterable[ToolLike]) -> tuple[BaseTool | Toolset, ...]:
    """Return the tools in order; functions become tools.

    Raises `CallerError` as `tool` does, and if two have one name.
    """
    made = tuple(each if isinstance(each, BaseTool | Toolset) else _make_tool(each) for each in tools)
    by_name(each for each in made if isinstance(each, BaseTool))
    return made


async def opened(
    tools: Iterable[BaseTool | Toolset], failures: list[str] | None = None
) -> dict[str, BaseTool]:
    """Return all tools by name; toolboxes are opened.

    Raises `CallerError` if two have one name, and `ToolError` if a toolbox cannot be opened: given
    `failures`, the error is added there instead.
    """
    found: list[BaseTool] = []
    for each in tools:
        try:
            found.extend(await each.open() if isinstance(each, Toolset) else [each])
        except ToolError as error:
            if failures is None:
                raise
            failures.append(str(error))
    return by_name(found)


def by_name(tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
    """Return the tools by name. Raises `CallerError` if two have one name."""
    named: dict[str, BaseTool] = {}
    for each in tools:
        name = each.spec.name
        if named.setdefault(name, each) is not each:
            raise CallerError(f"expected tools of different names, found two of the name {name!r}")
    return named


def _make_tool(function: object) -> BaseTool:
    if not callable(function):
        raise CallerError(f"expected a function, a tool or a toolbox, found {function!r:.100}")
    return tool(function)
