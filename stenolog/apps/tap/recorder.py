"""Recorder of a tap: the process that turns the journal of a run into entries of the log."""

from __future__ import annotations

from pathlib import Path

from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.recorder.assembling import Assembler
from stenolog.apps.recorder.recording import ExchangeRecorder
from stenolog.apps.recorder.working_place import working_place

from .journal import JournalReader


def main(folder: Path, database: str, notify: int | None, cwd: str = "") -> int:
    """Record the exchanges of a run until its last relay has ended; return their number.

    `notify` is the read end of the pipe in which relays announce records; None reads a run that is over.
    `cwd` is the folder that the recorded command works in.
    """
    reader = JournalReader(folder, notify)
    recorded = 0
    with open_log(database) as log:
        assembler = Assembler(ExchangeRecorder(log, work=working_place(cwd)))
        for record in reader:
            for exchange in assembler.take(record):
                recorded += record.kind == "end"
                reader.done(exchange)
    reader.close()
    return recorded
