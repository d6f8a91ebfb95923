"""Report of an import: results of one file and of each of its conversations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .json_lines import Skipped


@dataclass
class Imported:
    """Result of importing one conversation.

    `appended` and `already` count entries; `forks` are the names of the branches kept; `beyond` counts, by
    type, the records that are no message; `decided` what was settled how; `failed` is the error that
    stopped it, empty where there was none.
    """

    name: str
    appended: int = 0
    already: int = 0
    forks: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    beyond: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    failed: str = ""


@dataclass
class Report:
    """Result of importing one file.

    `format` is the name of its importer. `skipped` are the lines that could not be read, `incomplete` counts
    the objects cut off at the end of the file (they are read when it has grown), `repaired` counts by kind
    what was mended on the way.
    """

    file: str
    format: str
    conversations: list[Imported] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0

    @property
    def holds_a_conversation(self) -> bool:
        """Return whether the file has any message."""
        return any(found.appended or found.already or found.failed for found in self.conversations)
