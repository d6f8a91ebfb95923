"""Where things are printed: one console, made in one place; answers on stdout, talk on stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import click

from .safety import safe

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

T = TypeVar("T")
Color: TypeAlias = Literal["auto", "always", "never"]
PIPED_WIDTH = 120
FILLING = re.compile(r" *((?:\x1b\[[\d;]*m)*)$")
PATIENCE_S = 1.0
"""How long work may take before its progress is shown."""


def console(color: Color = "auto", *, stderr: bool = False) -> Console:
    """The console. Nothing is markup, so that no stored text can style itself.

    `auto` colours on a terminal, unless NO_COLOR is set; piped text is as wide as COLUMNS, or 120.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS") or PIPED_WIDTH)
    return Console(
        stderr=stderr,
        width=width,
        force_terminal={"auto": None, "always": True, "never": False}[color],
        no_color={"auto": None, "always": False, "never": True}[color],
        color_system=None if color == "never" else "auto",
        markup=False,
        highlight=False,
        emoji=False,
    )


def draw(drawing: Iterable[RenderableType], color: Color, *, page: bool) -> None:
    """Print a drawing piece by piece; through a pager where it is taller than the terminal."""
    lines = _lines(console(color), drawing)
    if page and sys.stdout.isatty() and sys.stdin.isatty():
        first = list(islice(lines, shutil.get_terminal_size().lines - 1))
        rest = list(islice(lines, 1))
        if rest:
            click.echo_via_pager(chain(first, rest, lines), color=True)
            return
        lines = iter(first)
    for line in lines:
        click.echo(line, nl=False, color=True)  # the console has decided about colours


def _lines(screen: Console, drawing: Iterable[RenderableType]) -> Iterator[str]:
    """The drawing line by line, without the blanks that rich fills lines up with; a string as it is."""
    for piece in drawing:
        if isinstance(piece, str):
            yield f"{piece}\n"
            continue
        with screen.capture() as captured:
            screen.print(
                piece, no_wrap=getattr(piece, "no_wrap", None), overflow=getattr(piece, "overflow", None)
            )
        yield from (FILLING.sub(r"\1", line, count=1) + "\n" for line in captured.get().split("\n")[:-1])


def say(text: str, *, mark: str = "", style: str = "") -> None:
    """A line of talk on stderr."""
    prefix = click.style(mark, fg=style or None) + " " if mark else ""
    color = False if os.environ.get("NO_COLOR") else None
    click.echo(f"{prefix}{safe(text)}", err=True, color=color)


class Bar:
    """How far work has come: a bar on stderr, where that is a terminal and the work takes over a second.

    Called with what is done so far; `total` is None where nobody knows.
    """

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self._patient_until = time.monotonic() + PATIENCE_S if sys.stderr.isatty() else float("inf")
        self._drawn: Progress | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def __call__(self, done: int) -> None:
        if self._drawn is None and time.monotonic() > self._patient_until:
            self._drawn = self._begin()
        if self._drawn is not None:
            self._drawn.update(self._drawn.task_ids[0], completed=done)

    def _begin(self) -> Progress:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        drawn = Progress(*columns, console=console(stderr=True), transient=True)
        drawn.add_task(safe(self.label), total=self.total)
        drawn.start()
        return drawn


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar that tells how many have gone by."""
    with Bar(label, total) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar(done)
