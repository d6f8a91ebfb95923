"""Files of other programs with what their import makes of them, as cases in the texts of `golden`.

A case is a rule as a heading, then parts that begin with `---`: `file NAME` writes a file, `more NAME` adds
to it, `sqlite NAME` makes a database by statements, `import NAME` imports it, `request AGENT` asks for the
agent's next request. After `log` are the reports, every entry with its bytes, and errors.
`python -m tests.transcripts.golden` writes these listings.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import stenolog
from stenolog import Entry, Log
from stenolog.domain.codec import REGISTRY
from stenolog.errors import StenologError
from stenolog.importers import Report, import_file
from tests.transcripts.soundness import assert_sound

FOLDER = Path(__file__).parent / "golden"
PART = "--- "
BEGUN = datetime.now(UTC) - timedelta(seconds=1)
"""An entry of a later time is one that the log itself made in this process."""
DIGEST = re.compile('"digest":"[0-9a-f]{64}"')


class Case(NamedTuple):
    """A rule, the parts of its case in order, each a command and the text below it, and the listing."""

    rule: str
    parts: list[tuple[str, str]]
    listing: str

    def __str__(self) -> str:
        parts = "".join(f"{PART}{command}\n{text}" for command, text in self.parts)
        return f"# {self.rule}\n{parts}{PART}log\n{self.listing}"


def cases_in(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    for found in path.read_bytes().decode().split("\n# "):
        rule, *parts = found.removeprefix("# ").removesuffix("\n").split(f"\n{PART}")
        *steps, (_, listing) = (
            (head, f"{text}\n" if text else "") for head, _, text in (part.partition("\n") for part in parts)
        )
        yield Case(rule, steps, listing)


def listed(case: Case, folder: Path) -> str:
    """Return what the parts of a case make of an empty log."""
    with stenolog.open(":memory:") as log:
        told = "".join(f"{line}\n" for line in [*_told(log, case, folder), *_held(log)])
        assert_sound(log)
    return told.replace(f"{folder}/", "").replace(str(folder), "")


def _told(log: Log, case: Case, folder: Path) -> Iterator[str]:
    """Do each part, and yield what is told meanwhile."""
    first = ""
    for command, text in case.parts:
        verb, name, *options = command.split(" ", 2)
        (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
        if verb in ("file", "more"):
            with path.open("wb" if verb == "file" else "ab") as file:
                file.write(text.encode())
        elif verb == "sqlite":
            (folder / name).unlink(missing_ok=True)
            with closing(sqlite3.connect(folder / name)) as connection:
                connection.executescript(text)
        elif verb == "request":
            body = log[first].request(name, api="openai-chat").body
            yield from (f"request of {name}: {_json(each)}" for each in body["messages"])
        else:
            try:
                report = import_file(log, folder / name, **json.loads(options[0] if options else "{}"))
            except StenologError as error:
                yield f"{type(error).__name__}: {error}"
            else:
                first = report.conversations[0].name if report.conversations else ""
                yield from _reported(report)


def _reported(report: Report) -> Iterator[str]:
    fields = "skipped", "repaired", "incomplete", "left_out", "team"
    yield f"{report.format}{_facts(report, *fields)}"
    for one in report.conversations:
        facts = _facts(one, "forks", "skipped", "ignored", "decisions", "failed")
        yield f"{one.name}: {one.appended} new, {one.already} known{facts}"


def _facts(of: object, *names: str) -> str:
    facts = {name: value for name in names if (value := getattr(of, name))}
    return f" {_json(facts)}" if facts else ""


def _held(log: Log) -> Iterator[str]:
    """Yield each entry of the log, a fork's from where it left its parent."""
    seen: set[str] = set()
    for name in log.names(archived=True):
        yield f"[{name}]"
        for entry in log[name].entries():
            if entry.digest not in seen:
                seen.add(entry.digest)
                yield _line(entry)


def _line(entry: Entry) -> str:
    topic, payload = REGISTRY.dump(entry.event)
    event = DIGEST.sub('"digest":"…"', payload.decode())
    if BEGUN < entry.time <= datetime.now(UTC):  # The log's own entry: its id is random.
        return f"{entry.position} … today {topic} {event}"
    time = entry.time.isoformat(timespec="milliseconds").removesuffix("+00:00")
    return f"{entry.position} {entry.id} {time} {topic} {event}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def write(path: Path) -> None:
    """Write the listings of a file's cases anew."""
    made = []
    for case in cases_in(path):
        with TemporaryDirectory() as folder:
            made.append(case._replace(listing=listed(case, Path(folder))))
    path.write_bytes("\n".join(map(str, made)).encode())


if __name__ == "__main__":
    for each in sorted(FOLDER.glob("*.txt")):
        write(each)
