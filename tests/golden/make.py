"""Make the golden logs of this release: `python -m tests.golden.make`; `--facts` records them anew.

The logs of a release stay as they are once it is out, and so do the facts: see `test_golden_logs.py`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import stenolog
from stenolog import Event, Log, UserMessage
from stenolog.importers import import_file
from stenolog.parts import FilePart, ImagePart
from stenolog.testing import START, example_conversation, examples
from tests.golden.recording import facts
from tests.simulation.actions import script
from tests.simulation.simulation import Run, play

FOLDER = Path(__file__).parent
SEEDS = {"team": 55, "scope": 118, "delegating": 6}
"""Simulated runs with kills, retries, approvals, edits, forks and workers."""


def everything(log: Log) -> None:
    """Write each kind of event with every field, a conversation, a fork, and an erased entry."""
    picture = log.blobs.put(b"test")  # the digest of this stands in the examples
    seen: list[Event] = [
        UserMessage(parts=(ImagePart(media_type="image/png", blob=picture),)),
        UserMessage(parts=(FilePart(name="a.pdf", media_type="application/pdf", blob=picture),)),
    ]
    log["kinds"].extend([*examples().values(), *seen], expected=0)
    whole = log["whole"]
    whole.extend(example_conversation(), expected=0)
    whole.fork(12, "fork").submit(UserMessage(text="And in the fork?"))
    erased = log["erased"]
    erased.extend(example_conversation()[:6], expected=0)
    erased.erase(2)


def imported(log: Log) -> None:
    """Import two transcripts in OpenAI's form, one with an unanswered call."""
    for number in range(2):
        import_file(log, FOLDER / f"transcript-{number}.json", name=f"transcript {number}")


WRITERS: dict[str, Callable[[Log], None]] = {"everything": everything, "imported": imported}


def main() -> None:
    """Make the missing logs, and record facts about them."""
    logging.disable(logging.CRITICAL)
    release = stenolog.__version__
    for name, seed in SEEDS.items():
        if not (path := FOLDER / f"{release}-{name}.db").exists():
            play(Run(seed, tuple(script(seed))), copy=path)
    for name, write in WRITERS.items():
        if not (path := FOLDER / f"{release}-{name}.db").exists():
            ids = map("e{}".format, count(1))
            with stenolog.open(path, clock=lambda: START, ids=ids.__next__, entropy=bytes) as log:
                write(log)
    for path in sorted(FOLDER.glob(f"{release}-*.db")):
        record = path.with_suffix(".json")
        if "--facts" in sys.argv or not record.exists():
            with stenolog.open(path) as log:
                record.write_text(json.dumps(facts(log), indent=0, sort_keys=True) + "\n", encoding="utf-8")
    for beside in [*FOLDER.glob("*.db-*")]:
        beside.unlink()


if __name__ == "__main__":
    main()
