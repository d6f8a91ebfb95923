"""The one shape of every answer in JSON, with its diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation.queries.plain_json import plain

ENVELOPE_VERSION = 1
Severity: TypeAlias = Literal["error", "warning", "note"]


class Diagnostic(NamedTuple):
    """A note on the data: its words, severity and place.

    `pointer` is a JSON pointer into the entry at the position; `file` and `line` are in a transcript.
    """

    severity: Severity
    code: str
    message: str
    conversation: str = ""
    position: int | None = None
    pointer: str = ""
    file: str = ""
    line: int | None = None


class Answer(NamedTuple):
    """Answer to a question: its data, its diagnostics, and whether a check has failed."""

    data: object
    diagnostics: tuple[Diagnostic, ...] = ()
    failed: bool = False


def envelope(status: str, data: object, diagnostics: Iterable[Diagnostic] = ()) -> dict[str, Any]:
    """Return the one shape of everything that `--json` prints; envelope.schema.json describes it."""
    shown = [{k: v for k, v in note._asdict().items() if v not in ("", None)} for note in diagnostics]
    return {"version": ENVELOPE_VERSION, "status": status, "data": plain(data), "diagnostics": shown}
