"""Console of the command line: answers on stdout, messages and progress on stderr, files written whole."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TextIO, TypeAlias, TypeVar

import click
from pydantic_core import to_json

from stenolog.domain.errors import CallerError
from stenolog.projections.terminal_text import safe, safe_json

from .lines import Diagnostic, Piece, TextLine, envelope

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


T = TypeVar("T")
Color: TypeAlias = Literal["auto", "always", "never"]
BATCH = 1_000
"""So many lines of a paragraph are written to a pipe at once."""
PATIENCE_S = 1.0
"""The seconds that work may take before its progress is shown."""


def width() -> int | None:
    """Return a line's number of cells: the terminal's, or in a pipe COLUMNS.

    None: no limit, for programs.
    """
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return max(1, int(columns)) if columns.isdecimal() else None


def coloured(color: Color, *, stderr: bool = False) -> bool:
    """Return whether to colour; `auto` at a terminal, unless NO_COLOR is set."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
    return color == "always" or (color == "auto" and terminal and not os.environ.get("NO_COLOR"))


def draw(drawing: Iterable[Piece], color: Color, *, page: bool) -> None:
    """Print a drawing piece by piece, in a pager if taller than the terminal; then its notes, on stderr."""
    notes: list[str] = []
    _print(_lines(drawing, color, notes), page=page)
    for note in notes:
        say(note, mark="·", style="cyan", color=color)


def _print(lines: Iterator[str], *, page: bool) -> None:
    if page and sys.stdout.isatty() and sys.stdin.isatty():
        first = list(islice(lines, shutil.get_terminal_size().lines - 1))
        rest = list(islice(lines, 1))
        if rest:
            os.environ.setdefault("LESS", "-FRX")  # as git does: else less shows colours as raw escapes
            click.echo_via_pager(chain(first, rest, lines), color=True)
            return
        lines = iter(first)
    for line in lines:
        click.echo(line, nl=False, color=True)  # whether there are colours is decided


def _lines(drawing: Iterable[Piece], color: Color, notes: list[str]) -> Iterator[str]:
    cells, colours = width(), coloured(color)
    for piece in drawing:
        if isinstance(piece, str):
            yield f"{piece}\n"
        elif isinstance(piece, TextLine):
            yield f"{piece.rendered(cells, coloured=colours)}\n"
        else:
            piped = None if cells is not None or colours else getattr(piece, "piped", None)
            rows = (f"{row}\n" for row in (piped() if piped else piece.rendered(cells, coloured=colours)))
            yield from rows if sys.stdout.isatty() else _batched(rows)  # a pager counts lines
            notes += filter(None, [getattr(piece, "note", "")])


def _batched(rows: Iterator[str]) -> Iterator[str]:
    while batch := "".join(islice(rows, BATCH)):
        yield batch


def print_envelope(status: str, data: object, diagnostics: Sequence[Diagnostic] = ()) -> None:
    """Print a result as a line of JSON, for `--json`."""
    click.echo(safe_json(envelope(status, data, diagnostics)))


def print_first_line(values: Mapping[str, object], out: TextIO | None = None) -> None:
    """Print a server's first line: JSON for the program that started it."""
    print(to_json(values).decode(), file=out or sys.stdout, flush=True)


def say(text: str, *, mark: str = "", style: str = "", color: Color | None = None) -> None:
    """Print a line on stderr, coloured as `--color` says."""
    context = click.get_current_context(silent=True)
    chosen = color or (context.params.get("color") if context else None) or "auto"
    prefix = click.style(mark, fg=style or None) + " " if mark else ""
    click.echo(f"{prefix}{safe(text)}", err=True, color=coloured(chosen, stderr=True))


class Declined(click.Abort):
    """A question was not answered with yes; `str` says what was not done."""


def ask(question: str, undone: str) -> None:
    """Ask for a yes at the terminal. Raises `Declined` for a no, Ctrl-D and Ctrl-C."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the cursor still stands behind the question
        raise Declined(undone) from None
    if not agreed:
        raise Declined(undone)


def _screen() -> Console:
    """Return the console for progress, without markup: no file name can style itself."""
    from rich.console import Console

    return Console(
        stderr=True, no_color=not coloured("auto", stderr=True), markup=False, highlight=False, emoji=False
    )


class Bar:
    """Progress bar on stderr, at a terminal, after a second of work.

    Called with what is done; `total` is None if unknown.
    """

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self._patient_until = time.monotonic() + PATIENCE_S if sys.stderr.isatty() else float("inf")
        self._drawn: Progress | None = None

    def __enter__(self) -> Self:
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
        drawn = Progress(*columns, console=_screen(), transient=True)
        drawn.add_task(safe(self.label), total=self.total)
        drawn.start()
        return drawn


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, with a bar of their number."""
    with Bar(label, total) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar(done)


STEP = 256 * 1024
"""So many bytes are read between two looks at the screen."""


class Bytes(Bar):
    """A bar of several files' bytes; `quiet` shows none."""

    def __init__(self, label: str, total: int, *, quiet: bool = False) -> None:
        super().__init__(label, total)
        self._shown = 0
        self._files = ""
        if quiet:
            self._patient_until = float("inf")

    def __call__(self, done: int) -> None:
        if done - self._shown >= STEP:
            self._shown = done
            super().__call__(done)

    def counting(self, files: Sequence[Path]) -> Iterator[Path]:
        for number, file in enumerate(files, 1):
            self._files = f"{number} of {len(files)} files" if len(files) > 1 else ""
            if self._drawn is not None:
                self._drawn.update(self._drawn.task_ids[0], files=self._files)
            yield file

    def _begin(self) -> Progress:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        bars = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        columns = (*bars, TimeRemainingColumn(), TextColumn("{task.fields[files]}"))
        drawn = Progress(*columns, console=_screen(), transient=True)
        drawn.add_task(safe(self.label), total=self.total, files=self._files)
        drawn.start()
        return drawn


STDOUT = Path("-")
"""The path that means stdout."""
FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
"""A file to be written, or `-`."""
PLAIN_FILE = click.Path(dir_okay=False, path_type=Path)
"""A file by its path."""
FILES = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
"""Files to be read, or folders of them."""


def there(path: Path) -> Path:
    """Return a path. Raises FileNotFoundError if nothing is there."""
    os.stat(path)
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def new_file(path: Path, text: str) -> bool:
    """Write a new file, which appears once it is complete; return False if it is there with this text.

    Folders are made. Raises `CallerError` if another file is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "x", encoding="utf-8", newline="\n", opener=_private) as stream:
            stream.write(text)
        try:
            os.link(part, path)
        except FileExistsError:
            if path.is_file() and path.read_bytes() == text.encode():
                return False
            raise CallerError(
                f"{path}: expected no file, found one: its program has gone on with it"
            ) from None
        return True
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[TextIO]:
    """Open a stream into a file that appears once it is complete.

    A link's target is written. Pipes and devices are written directly. A new file is readable only by its
    owner; an existing one keeps its permissions. An `OSError` names the given path.
    """
    straight = path.exists() and not path.is_file()
    target = path if straight else path.resolve()
    part = target if straight else target.with_name(f"{target.name}.part")
    try:
        if not straight:
            part.unlink(missing_ok=True)  # a killed command's
        with open(part, "w" if straight else "x", encoding="utf-8", newline="\n", opener=_private) as stream:
            yield stream
        if not straight:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
    except OSError as error:
        if error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if not straight:
            part.unlink(missing_ok=True)
