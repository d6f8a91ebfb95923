"""Conversations of a corpus whose requests cannot be built, each with the first reason."""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.apps.cli.lines import Diagnostic, Severity
from stenolog.domain.errors import InvalidPolicyError, StenologError, UnsupportedVersionError


def refusal(
    conversation: str, error: StenologError, where: str = "", severity: Severity = "error"
) -> Diagnostic:
    """Return the diagnostic that a conversation's requests cannot be built."""
    message = f"{where or repr(conversation)}: its requests cannot be built: {error}"
    return Diagnostic(severity, type(error).__name__, message, conversation)


class SkippedConversations:
    """Conversations with requests that cannot be built, each with the first reason.

    An unknown policy or entry is a warning: nothing would be sent. Damage, and what this machine lacks, is an
    error. `files` are the databases' paths by their names.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self._notes: dict[tuple[str, str], Diagnostic] = {}

    def take(self, db: str, name: str, error: StenologError, lane: str = "") -> None:
        """Take one lane's reason, or the whole conversation's."""
        known = isinstance(error, InvalidPolicyError | UnsupportedVersionError)
        where = f"{db}: {name!r}{f' ({lane})' if lane else ''}"
        note = refusal(name, error, where, "warning" if known else "error")
        self._notes.setdefault((db, name), note._replace(file=self.files[db]))

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        return tuple(self._notes.values())

    @property
    def failed(self) -> bool:
        """True if a request should have been built and could not."""
        return any(note.severity == "error" for note in self.notes)
