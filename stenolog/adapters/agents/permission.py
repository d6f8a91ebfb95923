"""Permission requests of an agent, and the callback of the application that decides them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias


class PermissionRequest(NamedTuple):
    """A permission that an agent asks for: `title` and `kind` (read, edit, execute …) say what it is about to
    do, `arguments` is the raw JSON of what with; the lane is the one that it works for."""

    title: str
    kind: str
    arguments: str
    lane: str
    conversation: str


Permit: TypeAlias = Callable[[PermissionRequest], bool | Awaitable[bool]]
"""A function that permits a request once or refuses it. An error counts as a refusal."""
