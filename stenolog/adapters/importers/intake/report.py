"""Report of an import: the outcome of each file and conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from stenolog.adapters.importers.door.json_lines import Skipped
from stenolog.domain.errors import StenologError


class Refused(NamedTuple):
    """A file that was not imported, and why; `as_before` if unchanged since last told."""

    file: str
    error: StenologError | OSError
    as_before: bool = False


class LeftOut(NamedTuple):
    """A deleted conversation that is not imported again; `mark` is its id's."""

    name: str
    mark: str


@dataclass
class Imported:
    """Result of importing one conversation.

    `appended` and `already` count entries; `forks` names kept branches; `ignored` counts, by type, records
    that are no message, and as `missing: …` what records refer to and is not there; `decisions` lists what
    was decided; `failed` is the error that stopped it, or empty.
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

    `format` is the importer's name. `skipped` are unreadable lines, `incomplete` counts objects cut off at
    the end (read once the file has grown), `repaired` counts repairs by kind. `left_out` are conversations
    deleted since an earlier import. `team` is the team file that the file describes instead of conversations.
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
        """True if the file has any message."""
        held = any(found.appended or found.already or found.failed for found in self.conversations)
        return held or bool(self.left_out)
