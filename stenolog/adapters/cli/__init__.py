"""The command line: `stenolog`, or `python -m stenolog`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .commands import app
from .shell import broken_pipes_end_quietly, fail

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    with broken_pipes_end_quietly():
        try:
            status = app.main(list(arguments), prog_name="stenolog", standalone_mode=False)
            return status if isinstance(status, int) else 0
        except click.UsageError as error:
            if "--json" in arguments:
                return fail(error, as_json=True, trace=False)
            error.show()
            return error.exit_code
        except click.ClickException as error:
            return fail(error, as_json="--json" in arguments, trace=False)
        except click.Abort:
            return fail(KeyboardInterrupt(), as_json="--json" in arguments, trace=False)
    return 0
