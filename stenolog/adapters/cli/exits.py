"""Exit codes of the command line: one table from errors to codes.

docs/reference/exit-codes.md is drawn from it.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from stenolog.domain import errors


class Terminated(KeyboardInterrupt):
    """The command was told to end by SIGTERM or SIGHUP."""


class Exit(NamedTuple):
    """An exit code, what it means, and the errors that lead to it."""

    code: int
    meaning: str
    errors: tuple[type[BaseException], ...] = ()


OK = Exit(0, "done")
FAILED = Exit(1, "the check that the command is there for has failed; of `run` and `chat`, an agent has")
USAGE = Exit(
    2, "what was asked for cannot be done as it was asked", (errors.CallerError, click.ClickException)
)
NOT_FOUND = Exit(
    3,
    "there is no such database, conversation, position, agent or file",
    (
        errors.ConversationNotFoundError,
        errors.PositionNotFoundError,
        errors.AgentNotFoundError,
        FileNotFoundError,
    ),
)
CORRUPT = Exit(4, "the stored data is damaged, of a later release, or no log", (errors.StoredDataError,))
CONFLICT = Exit(5, "somebody else appended first; nothing was written", (errors.VersionConflictError,))
ADAPTER = Exit(
    6,
    "a provider, a tool or the machine has failed",
    (errors.ProviderError, errors.ToolError, errors.OperationalError, OSError),
)
DEFECT = Exit(70, "a defect of stenolog itself: please report it")
INTERRUPTED = Exit(130, "interrupted from the keyboard", (KeyboardInterrupt,))

TERMINATED = Exit(143, "ended by SIGTERM, or by SIGHUP as when its terminal is closed", (Terminated,))

EXITS = (OK, FAILED, USAGE, NOT_FOUND, CORRUPT, CONFLICT, ADAPTER, DEFECT, INTERRUPTED, TERMINATED)


def exit_of(error: BaseException) -> Exit:
    """The exit of an error: that of the nearest class above it that the table names."""
    named = {cls: exit for exit in EXITS for cls in exit.errors}
    return next((named[cls] for cls in type(error).__mro__ if cls in named), DEFECT)
