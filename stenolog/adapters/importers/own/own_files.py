"""Formats of no program: OpenAI chat messages, stenolog's exports and databases."""

from __future__ import annotations

from stenolog.adapters.importers.door.files import is_log
from stenolog.adapters.importers.formats import Importer
from stenolog.projections.formats import DEFAULT_API
from stenolog.projections.programs import FileFormat, Program, Signature, shows

SESSIONS = (
    FileFormat(
        DEFAULT_API,
        "OpenAI chat messages",
        "stenolog.adapters.importers.openai.files:OPENAI_CHAT",
        (shows("role", inside=("messages", "traj")), shows("messages")),
        precedence=-2,
    ),
    FileFormat(
        "stenolog-db",
        "a stenolog database",
        f"{__name__}:STENOLOG_DB",
        (Signature(begins=b"SQLite"),),
        precedence=1,
    ),
    FileFormat("stenolog", "a stenolog export", f"{__name__}:STENOLOG", (shows("stenolog"),), precedence=-1),
)
PROGRAM = Program("stenolog", SESSIONS)
STENOLOG = Importer("stenolog", is_record=lambda record: isinstance(record.get("stenolog"), int))
"""Its lines are written as they are, past every converter: see `jsonl.import_stream`."""
STENOLOG_DB = Importer("stenolog-db", is_start=is_log)
"""Taken in as a whole: see `log_file.import_log`."""
