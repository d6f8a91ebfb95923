"""The command line: `stenolog`, or `python -m stenolog`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import click

from stenolog.adapters.store.contract.address import hide_passwords
from stenolog.domain.errors import PluginError

from .app import app
from .framework import fail
from .suggest import where_the_position_goes
from .terminal import Color, say

__all__ = ["run"]

# Before click 8.2 there was no such error: the help was printed without one.
NO_COMMAND: tuple[type[Exception], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)
"""The error of a group that was called without a command; its message is the group's help."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code."""
    form = "json" if "--json" in arguments else "text"
    try:
        status = app.main(list(arguments), prog_name="stenolog", standalone_mode=False)
    except click.UsageError as error:
        if form == "json":
            return fail(error, form="json")
        if isinstance(error, NO_COMMAND):
            say(error.format_message())
            return error.exit_code
        say(
            hide_passwords(error.format_message()) + where_the_position_goes(error),
            mark="✗",
            style="red",
            color=_color(arguments),
        )
        if error.ctx is not None:
            say(f"  see {error.ctx.command_path} --help")
        return error.exit_code
    except click.ClickException as error:
        return fail(error, form=form, color=_color(arguments))
    except click.Abort:
        return fail(KeyboardInterrupt(), form=form)
    except (PluginError, OSError) as error:  # OSError: the help could not be printed
        return fail(error, color=_color(arguments))
    return status if isinstance(status, int) else 0


def _color(arguments: Sequence[str]) -> Color | None:
    """Return the colour option of a command line, which may not have been parsed."""
    options = " ".join(arguments).replace("--color=", "--color ").split()
    asked = [word for option, word in pairwise(options) if option == "--color"]
    return next((color for color in get_args(Color) if asked[-1:] == [color]), None)
