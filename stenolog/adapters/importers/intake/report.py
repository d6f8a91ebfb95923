"""Report of an import: what became of each file, and of each conversation in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from stenolog.adapters.importers.door.json_lines import Skipped
from stenolog.domain.errors import StenologError


class Refused(NamedTuple):
    """A file that was not imported, and why; `as_before` if it is unchanged since that was told."""

    file: str
    error: StenologError | OSError
    as_before: bool = False


class LeftOut(NamedTuple):
    """A conversation that is not imported again, since it was deleted; `mark` is that of its id."""

    name: str
    mark: str


@dataclass
class Imported:
    """Result of importing one conversation.

    `appended` and `already` count entries; `forks` are the names of the branches kept; `ignored` counts, by
    type, the records that are no message, and under names with `missing: ` what the records refer to and is
    not there; `decisions` what was settled how; `failed` is the error that stopped it, empty for none.
    """

    name: str
    appended: int = 0
    already: int = 0
    forks: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    failed: str = ""


@dataclass
class Report:
    """Result of importing one file.

    `format` is the name of its importer. `skipped` are the lines that could not be read, `incomplete` counts
    the objects cut off at the end of the file (they are read when it has grown), `repaired` counts by kind
    what was mended on the way. `left_out` are the conversations that were deleted since an earlier import.
    `team` is the file of a team that the file describes in the place of conversations.
    """

    file: str
    format: str
    conversations: list[Imported] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    team: str = ""

    @property
    def holds_a_conversation(self) -> bool:
        """Return whether the file has any message."""
        held = any(found.appended or found.already or found.failed for found in self.conversations)
        return held or bool(self.left_out)
