"""Things of a program's own, by `module:name`, and values of the environment, by `${NAME}`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from stenolog.adapters.tools.base import BaseTool, Toolset
from stenolog.adapters.tools.functions import checked, tool
from stenolog.adapters.tools.toolset import ToolLike
from stenolog.domain.errors import CallerError

VARIABLE = re.compile(r"\$\{(\w+)\}")


def tools_of(written: str, folder: Path, options: dict[str, Any]) -> list[ToolLike]:
    """The tools that `module:name` names: one, or several in a list. Modules are found from `folder` too.

    `options` are those of `tool`. Raises `CallerError`: see `named`.
    """
    found = load_object(written, folder)
    each = list(found) if isinstance(found, list | tuple) else [found]
    return [_with(one, options, written) for one in each]


def load_object(written: str, folder: Path) -> Any:
    """Import and return the object `module:name`.

    Raises `CallerError` if it is missing or importing raises.
    """
    module, colon, path = written.partition(":")
    if not (module and colon and path):
        raise CallerError(f"expected module:function, found {written!r:.100}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return reduce(getattr, path.split("."), import_module(module))
    except Exception as error:
        raise CallerError(f"{written}: {type(error).__name__}: {error}") from error


def _with(one: Any, options: dict[str, Any], written: str) -> ToolLike:
    """A tool with options that differ from its own."""
    if not options:
        return one  # type: ignore[no-any-return]
    if isinstance(one, Toolset):
        raise CallerError(f"{written}: expected a single tool for {', '.join(options)}, found a toolbox")
    try:
        return _changed(one, **options) if isinstance(one, BaseTool) else tool(one, **options)
    except TypeError as error:
        known = "name, description, approval, repeat, timeout, limit"
        raise CallerError(f"{written}: expected options of {known}: {error}") from None


def _changed(one: BaseTool, **options: Any) -> BaseTool:
    """A copy of a tool that is made already."""
    made = copy(one)
    told = {name: options.pop(name) for name in ("name", "description", "approval") if name in options}
    made.spec = replace(one.spec, **told)
    if "approval" in told:
        made.approves = None
    given = {"repeat": one.repeat, "timeout": one.timeout, "limit": one.limit} | options
    made.repeat, made.timeout, made.limit = checked(made.spec.name, **given)
    return made


def filled(texts: Mapping[str, str], *, keys: bool = True) -> dict[str, str]:
    """The texts with each `${NAME}` replaced by that variable, if it is going to be needed.

    Raises `CallerError` where it is not set.
    """
    return {name: VARIABLE.sub(_value, text) if keys else text for name, text in texts.items()}


def _value(found: re.Match[str]) -> str:
    value = os.environ.get(found[1])
    if value is None:
        raise CallerError(f"expected the environment variable {found[1]}, found none")
    return value
