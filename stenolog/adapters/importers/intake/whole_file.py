"""A file whose importer appends to the log itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from stenolog.adapters.importers.door.json_lines import JsonLinesReader

from .known_sessions import Naming
from .report import Report

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log


class WholeFile(NamedTuple):
    """A stream on its way into a log; its conversations go into the report.

    `reading` notes what is skipped, `naming` finds the conversations, `moved` takes the bytes done.
    `keeps_raw`: the caller asked to keep the original.
    """

    log: Log
    stream: BinaryIO
    reading: JsonLinesReader
    report: Report
    naming: Naming
    moved: Callable[[int], object]
    keeps_raw: bool = False
