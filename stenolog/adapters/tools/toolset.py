"""The tools of an agent: functions, tools and toolboxes, each name once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from stenolog.domain.errors import CallerError, ToolError

from .base import BaseTool, Toolset
from .functions import tool

ToolLike: TypeAlias = Callable[..., Any] | BaseTool | Toolset
"""The types that an agent's `tools` may contain."""


def as_runnables(tools: Iterable[ToolLike]) -> tuple[BaseTool | Toolset, ...]:
    """The tools in their order, plain functions made into tools. Raises `CallerError`: see `tool`, and where
    two have one name."""
    made = tuple(each if isinstance(each, BaseTool | Toolset) else _make_tool(each) for each in tools)
    by_name(each for each in made if isinstance(each, BaseTool))
    return made


async def opened(
    tools: Iterable[BaseTool | Toolset], failures: list[str] | None = None
) -> dict[str, BaseTool]:
    """All tools by name, those of toolboxes too, which are opened. Raises `CallerError` where two have one
    name, and `ToolError` where a toolbox cannot be opened: with `failures`, that is noted there instead."""
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
    """The tools by their names. Raises `CallerError` where two have one name."""
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
