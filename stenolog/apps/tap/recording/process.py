"""Process that records: it reads the journal of a run, and appends to the log."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.tap.journal import JournalReader

from .assembling import Assembler
from .transcriber import Transcriber

HEAD = "ref: refs/heads/"
LONGEST = 4_096
"""Characters of a file of git's that are read."""


def working_place(cwd: str) -> dict[str, str]:
    """Return `cwd`, and its git repository's `branch`, if any."""
    if not cwd:
        return {}
    branch = next((found for folder in (Path(cwd), *Path(cwd).parents) if (found := _branch(folder))), "")
    return {"cwd": cwd, "branch": branch} if branch else {"cwd": cwd}


def _branch(folder: Path) -> str:
    git = folder / ".git"
    try:
        if git.is_file():  # a work tree of its own
            git = folder / _read(git).removeprefix("gitdir: ").strip()
        head = _read(git / "HEAD").strip()
    except (OSError, ValueError):  # a path with a null character is no path
        return ""
    return head.removeprefix(HEAD) if head.startswith(HEAD) else ""


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST)


@dataclass(frozen=True)
class RecordingConfig:
    """Configuration of the process; `database` is a path or an address.

    `notify` is the inherited read end of the relays' pipe; None reads a run that is over. `cwd` is the
    recorded command's folder, "" if unknown.
    """

    folder: str
    database: str
    notify: int | None
    cwd: str = ""


def record(config: RecordingConfig) -> int:
    """Record a run's exchanges until its last relay ends; return their number."""
    reader = JournalReader(Path(config.folder), config.notify)
    recorded = 0
    with open_log(config.database) as log:
        assembler = Assembler(Transcriber(log, work=working_place(config.cwd)))
        for each in reader:
            for exchange in assembler.take(each):
                recorded += each.kind == "end"
                reader.done(exchange)
    reader.close()
    return recorded


if __name__ == "__main__":
    record(RecordingConfig(**from_json(sys.stdin.buffer.read())))
