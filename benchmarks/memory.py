"""Folding a million entries: how much memory a fresh process takes for it, and whether it slows down."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from benchmarks._ratio import Row, compiled
from benchmarks.read import conversation
from stenolog.adapters.conversation import log as logs

SHORT, LONG = 10_000, 1_000_000
BATCH = 20_000
LIMIT = 100.0
"""Megabytes."""
SLOWER = 1.3
FOLDS = {
    "state": "conversation.state(at)",
    "settings": "conversation.settings(at)",
    "usage": "conversation.fold(usage, at)",
    "a fold of one's own": "conversation.fold(characters, at)",
}
PROGRAM = """
import json, sys, time
from pathlib import Path
import stenolog
from stenolog.projections.views.usage import usage

@stenolog.fold(initial=0, state=int)
def characters(total, entry):
    return total + len(getattr(entry.event, "text", ""))

with stenolog.open(sys.argv[1]) as log:
    conversation = log["talk"]
    at = 200  # decoders are built when they are first used
    {fold}
    at = None
    start = time.process_time()
    {fold}
    used = time.process_time() - start
(peak,) = (line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM"))
print(json.dumps([used, int(peak) / 1024]))
"""
"""The peak is read from /proc: that of `getrusage` counts what the parent took when it forked."""


def run() -> Iterable[Row]:
    compiled()
    with tempfile.TemporaryDirectory() as folder:
        short, long = (made(Path(folder, f"{entries}.db"), entries) for entries in (SHORT, LONG))
        for name, fold in FOLDS.items():
            short_s = min(folded(short, fold)[0] for _ in range(3)) / SHORT
            long_s, megabytes = folded(long, fold)
            yield Row(f"memory to fold {LONG:,} entries: {name}", megabytes, LIMIT, "MB")
            note = f"{long_s / LONG * 1e6:.1f} against {short_s * 1e6:.1f} µs of CPU an entry"
            what = f"an entry of {LONG:,} against one of {SHORT:,}: {name}"
            yield Row(what, long_s / LONG / short_s, SLOWER, note=note)


def made(path: Path, entries: int) -> Path:
    """Return a file with a conversation of so many entries."""
    with logs.open(path, synchronous="normal") as log:
        talk = log["talk"]
        events = iter(conversation(entries - 1))
        while batch := list(islice(events, BATCH)):
            talk.extend(batch)
    return path


def folded(path: Path, fold: str) -> tuple[float, float]:
    """Return a new process's CPU seconds and peak megabytes for a log that was never folded."""
    path.with_name(f"{path.name}-checkpoints").unlink(missing_ok=True)
    program = PROGRAM.format(fold=fold)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    used, megabytes = json.loads(done.stdout)
    return used, megabytes
