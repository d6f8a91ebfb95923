"""The size of a log on disk: a little more than its payloads, in proportion to them, at any length."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random

from benchmarks._ratio import Row
from stenolog import Conversation, UserMessage
from stenolog.adapters.conversation import log as logs

ENTRIES = 4_000
LATIN, CYRILLIC = "All work and no play. ", "Работа не волк, в лес. "
WAL_LIMIT_BYTES = 4_000_000
PER_PAYLOAD, PER_ENTRY = 1.3, 450
PRINTED = 0.5


def run() -> Iterable[Row]:
    # At random, so that compression gains little: the limit is that of the worst case.
    for words, letters in (("Latin", LATIN), ("Cyrillic", CYRILLIC)):
        for length in (20, 300, 1_000, 2_000, 5_000):
            text = "".join(Random(length).choices(letters, k=length))
            yield size(f"bytes an entry, {length} characters, {words}", text)
    yield printed()
    yield growth()
    yield wal()


def size(name: str, text: str) -> Row:
    """Return bytes an entry in a closed file, against those of the payload."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talks.db")
        payload = written(path, text, ENTRIES)
        stored = path.stat().st_size / ENTRIES
    limit = PER_PAYLOAD * payload + PER_ENTRY
    return Row(name, round(stored), round(limit), "B", note=f"payload {payload:.0f} B")


def printed() -> Row:
    """Return the bytes in a closed file against those of what a tool printed, a line a test."""
    text = "".join(
        f"tests/test_oven.py::test_{Random(n).randrange(9**9)} PASSED [{n:3}%]\n" for n in range(100)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talks.db")
        payload = written(path, text, ENTRIES)
        stored = path.stat().st_size / ENTRIES
    note = f"{stored:.0f} B an entry, payload {payload:.0f} B"
    return Row("the file against what tools printed", stored / payload, PRINTED, "x", note=note)


def growth() -> Row:
    """Return the bytes that the second half of a log adds, against those of the first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talks.db")
        written(path, LATIN * 20, ENTRIES)
        half = path.stat().st_size
        written(path, LATIN * 20, ENTRIES)
        whole = path.stat().st_size
    return Row("growth: the second half of a log against the first", (whole - half) / half, 1.1)


def wal() -> Row:
    """Return the length of the write-ahead log while the file stays open and is read from."""
    with (
        tempfile.TemporaryDirectory() as folder,
        logs.open(Path(folder, "talks.db"), synchronous="normal") as log,
    ):
        longest = 0
        for _ in range(20):
            append(log["talk"], LATIN * 20, 500)
            next(log["talk"].entries())
            longest = max(longest, Path(folder, "talks.db-wal").stat().st_size)
    return Row("write-ahead log while open", longest, WAL_LIMIT_BYTES, "B")


def written(path: Path, text: str, entries: int) -> float:
    """Append so many entries one by one and close; the bytes of their payloads, on average."""
    with logs.open(path, synchronous="normal") as log:
        append(log["talk"], text, entries)
        sizes = [record.size for record in log["talk"].records(after=1)]
    return sum(sizes) / len(sizes)


def append(talk: Conversation, text: str, entries: int) -> None:
    for number in range(entries):
        talk.append(UserMessage(text=f"{number} {text}"))
