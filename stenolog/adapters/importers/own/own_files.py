"""Formats of no program: OpenAI chat messages, stenolog's exports and databases."""

from __future__ import annotations

from stenolog.adapters.importers.door.files import is_log
from stenolog.adapters.importers.formats import Importer
from stenolog.adapters.importers.intake.whole_file import WholeFile
from stenolog.domain.errors import CallerError
from stenolog.projections.formats import DEFAULT_API
from stenolog.projections.programs import FileFormat, Program, Signature, shows

from . import jsonl

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
    FileFormat(
        "evidence",
        "an evidence pack",
        "stenolog.adapters.importers.evidence.intake:EVIDENCE",
        (Signature(begins=b'{"evidence":1,'),),
        precedence=1,
    ),
)
PROGRAM = Program("stenolog", SESSIONS)


def _export(file: WholeFile) -> None:
    jsonl.import_stream(file.log, file.stream, file.report, file.naming.name, file.moved)


def _database(file: WholeFile) -> None:
    if file.naming.asked or file.keeps_raw:
        option = "name" if file.naming.asked else "keep_raw"
        raise CallerError(f"{option}: a stenolog database comes in with its own names, and as it is")
    from . import log_file  # late: few imports are of a log, and it is verified first

    log_file.import_log(file.log, file.stream, file.report, again=file.naming.again)


STENOLOG = Importer("stenolog", write=_export, is_record=lambda value: isinstance(value.get("stenolog"), int))
STENOLOG_DB = Importer("stenolog-db", write=_database, is_start=is_log)
