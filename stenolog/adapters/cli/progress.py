"""Progress bar of an import: bytes read of all bytes, speed, and number of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.projections.terminal_text import safe

from .terminal import Bar, console

if TYPE_CHECKING:
    from rich.progress import Progress

STEP = 256 * 1024
"""So many bytes are read between two looks at the screen."""


class Bytes(Bar):
    """A bar of the bytes of files that are read one after the other; `quiet` shows none."""

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
        """The files, each counted when its turn comes."""
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

        told = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        columns = (*told, TimeRemainingColumn(), TextColumn("{task.fields[files]}"))
        drawn = Progress(*columns, console=console(stderr=True), transient=True)
        drawn.add_task(safe(self.label), total=self.total, files=self._files)
        drawn.start()
        return drawn
