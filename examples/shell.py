"""Starts every example: an error is a line, and Ctrl-C or `| head` is an end and no accident."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from rich.console import Console

from stenolog import StenologError


class Terminal(Console):
    """rich's. That nobody reads on is an error here, too: to exit at once would tear the event loop apart."""

    def on_broken_pipe(self) -> NoReturn:
        """Exit where rich exits."""
        raise


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run it, and leave with the code that it returns: 1 after an error, 130 after Ctrl-C."""
    try:
        try:
            code = main() or 0
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on; Python would try once more as it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        print(file=sys.stderr)
        code = 130
    except (StenologError, OSError) as error:
        print("✗", " ".join(str(error).split()), file=sys.stderr)
        code = 1
    sys.exit(code)
